// Resizing of float32 of any rank, along one axis after the other: volumes, sequences, batches and
// channels too, and shrinking with antialias.
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/resample/resize_table.h"

enum { kX, kRoi, kScales, kMostAxes = 6 };

static const char* axes_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  if (node->op != CARNOT_OP_RESIZE || problem->region->node_count != 1) return "";
  const char* why = carnot_not_f32(&problem->inputs[kX], "the input", 1, kMostAxes, reason, size);
  if (!why) why = carnot_cpu_resize_reject(problem);
  if (!why)
    problem->inputs[kX].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return why;
}

// Along one axis: [outer, in, inner] to [outer, out, inner].
typedef struct axis_pass {
  carnot_resize_axis axis;
  double shrink;
  int64_t outer, inner, taps;
} axis_pass;

typedef struct axes_state {
  carnot_resize_filter filter;
  int count;
  axis_pass passes[kMostAxes];
  int64_t table, most_taps;  // entries of all tables; taps of the widest
  int64_t between;           // elements of the largest result that is not the last
} axes_state;
_Static_assert(sizeof(axes_state) <= CARNOT_STATE_BYTES, "state is too large");

// The scale of each dimension; 0 of those whose sizes are given.
static carnot_status* read_scales(const carnot_step_view* step, const carnot_operand* inputs,
                                  double* scales) {
  const carnot_plan_node* node = &step->region->nodes[0];
  const int rank = inputs[kX].rank;
  size_t listed;
  const int64_t* axes = carnot_attr_ints(&node->attrs, "axes", &listed);
  for (int d = 0; d < rank; d++) scales[d] = 0;
  if (node->input_count <= kScales || node->inputs[kScales] == CARNOT_PLAN_NONE) return NULL;
  const carnot_operand* t = &inputs[node->inputs[kScales]];
  const int64_t count = listed ? (int64_t)listed : rank;
  CARNOT_CHECK(
      t->data && t->format.dtype == CARNOT_DTYPE_F32 && t->rank == 1 && t->dims[0] == count,
      INVALID_MODEL, "scales are not %lld constants of float32", (long long)count);
  for (int d = 0; d < rank; d++) scales[d] = 1;
  for (int64_t i = 0; i < count; i++) {
    int axis = (int)i;
    if (listed) CARNOT_TRY(carnot_axis(axes[i], rank, "axes", &axis));
    scales[axis] = (double)((const float*)t->data)[i];
    CARNOT_CHECK(scales[axis] > 0, INVALID_MODEL, "scale %lld is %g", (long long)i, scales[axis]);
  }
  return NULL;
}

static carnot_status* axes_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* memory,
                                     size_t* out_workspace_bytes) {
  axes_state* s = memory;
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_operand *x = &inputs[kX], *y = &outputs[0];
  double scales[CARNOT_MAX_RANK];
  CARNOT_CHECK(x->format.dtype == CARNOT_DTYPE_F32 && y->format.dtype == CARNOT_DTYPE_F32 &&
                   x->rank == y->rank && x->rank <= kMostAxes && carnot_cpu_is_dense(x) &&
                   carnot_cpu_is_dense(y),
               INVALID_MODEL, "operands are %s of rank %d and %s of rank %d",
               carnot_dtype_name(x->format.dtype), x->rank, carnot_dtype_name(y->format.dtype),
               y->rank);
  CARNOT_TRY(read_scales(step, inputs, scales));
  const bool antialias = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "antialias") != 0;
  *s = (axes_state){.filter = carnot_cpu_resize_filter(node)};
  int64_t dims[CARNOT_MAX_RANK], before = 0;
  memcpy(dims, x->dims, sizeof(dims));
  // Axes that shrink first, from the outermost on, where vectors run along the inner ones; then
  // those that grow, from the innermost on: its results are computed one by one.
  for (int i = 0; i < 2 * x->rank; i++) {
    const int d = i < x->rank ? i : 2 * x->rank - 1 - i;
    const int64_t in = x->dims[d], out = y->dims[d];
    const double scale = scales[d] ? scales[d] : (double)out / (double)in;
    CARNOT_CHECK(in >= 1 && in < INT32_MAX && out < INT32_MAX / 8, OUT_OF_RANGE,
                 "dimension %d is resized from %lld to %lld", d, (long long)in, (long long)out);
    if ((scale == 1 && in == out) || (out > in) != (i >= x->rank)) continue;
    axis_pass* pass = &s->passes[s->count++];
    *pass = (axis_pass){.axis = {in, out, scale, 0, 1},
                        .shrink = antialias && scale < 1 ? scale : 1,
                        .outer = carnot_dims_count(dims, d),
                        .inner = carnot_dims_count(dims + d + 1, x->rank - d - 1)};
    pass->taps = carnot_cpu_resize_tap_count(&s->filter, pass->shrink);
    CARNOT_CHECK(pass->taps <= 1 << 20, OUT_OF_RANGE, "a scale of %g reads %lld elements each",
                 scale, (long long)pass->taps);
    s->table += out * pass->taps;
    s->most_taps = carnot_max_i64(s->most_taps, pass->taps);
    s->between = carnot_max_i64(s->between, before);
    dims[d] = out;
    before = carnot_dims_count(dims, x->rank);
  }
  *out_workspace_bytes = (size_t)s->most_taps * sizeof(double) +
                         (size_t)s->table * (sizeof(int32_t) + sizeof(float)) +
                         2 * (size_t)s->between * sizeof(float);
  return NULL;
}

typedef struct axis_run {
  carnot_resample_axis_f32_fn* kernel;
  carnot_resample_axis_f32 axis;
  int64_t rows, rows_per_part;
} axis_run;

static void axis_part(void* argument, int64_t part) {
  const axis_run* run = argument;
  const int64_t row0 = part * run->rows_per_part;
  run->kernel(&run->axis, row0, carnot_min_i64(row0 + run->rows_per_part, run->rows));
}

static carnot_status* axes_run_all(const carnot_step_view* step, void* memory,
                                   const carnot_operand* inputs, const carnot_operand* outputs,
                                   void* workspace, carnot_executor* executor) {
  const axes_state* s = memory;
  double* scratch = workspace;
  float *weight = (float*)(scratch + s->most_taps), *between = weight + s->table;
  int32_t* index = (int32_t*)(void*)(between + 2 * s->between);
  const float* src = inputs[kX].data;
  if (!s->count)
    memcpy(outputs[0].data, src,
           (size_t)carnot_dims_count(outputs[0].dims, outputs[0].rank) * sizeof(float));
  for (int i = 0; i < s->count; i++) {
    const axis_pass* pass = &s->passes[i];
    carnot_cpu_resize_fill(&s->filter, &pass->axis, pass->shrink, scratch, index, weight);
    axis_run run = {.kernel = carnot_cpu_kernels_of(step->tactic->isa)->resample_axis_f32,
                    .axis = {.in = pass->axis.in,
                             .out = pass->axis.out,
                             .inner = pass->inner,
                             .taps = pass->taps,
                             .src = src,
                             .dst = i + 1 == s->count ? outputs[0].data : between,
                             .index = index,
                             .weight = weight},
                    .rows = pass->outer * pass->axis.out};
    run.rows_per_part = carnot_rows_per_part(run.rows, pass->inner * pass->taps);
    carnot_executor_parallel(executor, carnot_ceildiv(run.rows, run.rows_per_part), axis_part,
                             &run);
    src = run.axis.dst;
    between += i % 2 ? -s->between : s->between;
    index += pass->axis.out * pass->taps, weight += pass->axis.out * pass->taps;
  }
  return NULL;
}

CARNOT_CPU_TACTICS(resize_axes_f32, .anchor = CARNOT_OP_RESIZE, .reject = axes_reject,
                   .validate = carnot_cpu_resize_validate, .configure = axes_configure,
                   .run = axes_run_all);
