// CumSum and CumProd along a constant axis, of float32 (accumulated in double, as the reference
// does) and of integers of 32 and 64 bits, which wrap.
//   y[o,k,j] = fn of x[o,0..k,j]; exclusive: of x[o,0..k-1,j]; reverse: from the end
// Several lanes run side by side: neighbours behind the axis or, where it is the last, rows.
#include "backend/cpu/common/cpu.h"

enum { kX, kAxis, kInnerLanes = 512, kManyLanes = 16, kRowLanes = 8 };

static bool has_kernel(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F32 || dtype == CARNOT_DTYPE_I64 || dtype == CARNOT_DTYPE_I32;
}

static const char* cumulative_reject(carnot_problem* problem, char* reason, size_t size) {
  const char* why = carnot_cpu_single(problem, CARNOT_OP_CUMULATIVE);
  if (!why) why = carnot_cpu_whole_bytes(&problem->inputs[kX], reason, size);
  if (why) return why;
  if (problem->inputs[kX].rank < 1) return "the input is a scalar";
  if (!has_kernel(problem->inputs[kX].format.dtype))
    return carnot_because(reason, size, "no sums of %s",
                          carnot_dtype_name(problem->inputs[kX].format.dtype));
  if (!problem->inputs[kAxis].is_constant) return "the axis is not constant";
  problem->inputs[kX].format.layout = problem->outputs[0].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  return NULL;
}

typedef struct cumulative_state {
  int64_t n, axis_stride;
  // Lanes are |lane_stride| apart, |lane_count| of them begin in each of |outer| blocks.
  int64_t outer, outer_stride, lane_count, lane_stride;
  int64_t groups, group_lanes;  // of lanes in a block
  int64_t per_part;             // of outer * groups
  bool prod, exclusive, reverse;
} cumulative_state;

static carnot_status* cumulative_configure(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs, void* state,
                                           size_t* out_workspace_bytes) {
  cumulative_state* s = state;
  const carnot_operand *x = &inputs[kX], *at = &inputs[kAxis], *y = &outputs[0];
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_CUMULATIVE);
  const carnot_attrs* attrs = &step->region->nodes[0].attrs;
  int axis;
  *out_workspace_bytes = 0;
  CARNOT_CHECK(has_kernel(x->format.dtype), INVALID_ARGUMENT, "operands of %s",
               carnot_dtype_name(x->format.dtype));
  CARNOT_TRY(carnot_cpu_check_alike(x, y));
  CARNOT_CHECK(at->data && carnot_cpu_is_index(at->format.dtype) &&
                   carnot_dims_count(at->dims, at->rank) == 1,
               INVALID_MODEL, "the axis is no constant integer");
  CARNOT_TRY(carnot_axis(carnot_cpu_index_at(at, 0), x->rank, "axis", &axis));
  int64_t outer = carnot_dims_count(x->dims, axis),
          inner = carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1);
  *s = (cumulative_state){.n = x->dims[axis],
                          .axis_stride = inner,
                          .outer = outer,
                          .outer_stride = x->dims[axis] * inner,
                          .lane_count = inner,
                          .lane_stride = 1,
                          .group_lanes = kInnerLanes,
                          .prod = carnot_attr_is(row, attrs, "fn", "prod"),
                          .exclusive = carnot_attr_int(row, attrs, "exclusive") != 0,
                          .reverse = carnot_attr_int(row, attrs, "reverse") != 0};
  if (inner == 1) {
    s->outer = 1;
    s->lane_count = outer;
    s->lane_stride = s->n;
    s->group_lanes = kRowLanes;
  }
  s->groups = carnot_ceildiv(s->lane_count, s->group_lanes);
  s->per_part = carnot_rows_per_part(s->outer * s->groups,
                                     s->n * carnot_min_i64(s->group_lanes, s->lane_count));
  return NULL;
}

typedef struct cumulative_run {
  const cumulative_state* s;
  const carnot_cpu_kernels* kernels;
  carnot_dtype dtype;
  const char* x;
  char* y;
} cumulative_run;

CARNOT_CPU_INLINE void scan_floats(const cumulative_state* s, const float* x, float* y,
                                   int64_t lanes, int64_t lane_stride, bool prod) {
  double total[kInnerLanes];
  for (int64_t j = 0; j < lanes; j++) total[j] = prod;
  for (int64_t k = 0; k < s->n; k++) {
    int64_t at = (s->reverse ? s->n - 1 - k : k) * s->axis_stride;
    for (int64_t j = 0; j < lanes; j++) {
      double before = total[j], v = (double)x[at + j * lane_stride];
      total[j] = prod ? before * v : before + v;
      y[at + j * lane_stride] = (float)(s->exclusive ? before : total[j]);
    }
  }
}

// |sums|: neither products nor exclusive.
CARNOT_CPU_INLINE void scan_integers(const cumulative_state* s, const void* x, void* y,
                                     int64_t lanes, int64_t lane_stride, bool wide, bool sums) {
  uint64_t total[kInnerLanes];
  for (int64_t j = 0; j < lanes; j++) total[j] = s->prod;
  for (int64_t k = 0; k < s->n; k++) {
    int64_t at = (s->reverse ? s->n - 1 - k : k) * s->axis_stride;
    for (int64_t j = 0; j < lanes; j++) {
      int64_t i = at + j * lane_stride;
      uint64_t before = total[j], v = wide ? ((const uint64_t*)x)[i] : ((const uint32_t*)x)[i];
      total[j] = !sums && s->prod ? before * v : before + v;
      uint64_t result = !sums && s->exclusive ? before : total[j];
      if (wide)
        ((uint64_t*)y)[i] = result;
      else
        ((uint32_t*)y)[i] = (uint32_t)result;
    }
  }
}

// Integers, neighbours as lanes: each row is the one before it joined with one of x.
static void scan_rows(const cumulative_run* run, int64_t start, int64_t lanes) {
  const cumulative_state* s = run->s;
  const bool wide = run->dtype == CARNOT_DTYPE_I64;
  const size_t bytes = wide ? 8 : 4;
  const int64_t step = s->reverse ? -s->axis_stride : s->axis_stride;
  const int64_t first = start + (s->reverse ? (s->n - 1) * s->axis_stride : 0);
  char *x = (char*)run->x + first * (int64_t)bytes, *y = run->y + first * (int64_t)bytes;
  const int64_t identity[] = {s->prod};
  if (s->exclusive)
    for (int64_t j = 0; j < lanes; j++) memcpy(y + (size_t)j * bytes, identity, bytes);
  else
    memcpy(y, x, (size_t)lanes * bytes);
  const carnot_elementwise join = {
      .fn = s->prod ? CARNOT_PW_MUL : CARNOT_PW_ADD,
      .type = wide ? CARNOT_ELEMENT_I64 : CARNOT_ELEMENT_I32,
      .arity = 2,
      .in = {{y, step, 1}, {s->exclusive ? x : x + step * (int64_t)bytes, step, 1}},
      .out = {y + step * (int64_t)bytes, step, 1}};
  run->kernels->elementwise(&join, 0, s->n - 1, lanes);
}

// |lanes| and |lane_stride| are constants at call sites where a specialized loop pays.
CARNOT_CPU_INLINE void scan(const cumulative_run* run, int64_t start, int64_t lanes,
                            int64_t lane_stride) {
  const cumulative_state* s = run->s;
  size_t at = (size_t)start * (run->dtype == CARNOT_DTYPE_I64 ? 8 : 4);
  const void* x = run->x + at;
  void* y = run->y + at;
  if (run->dtype == CARNOT_DTYPE_F32 && s->prod)
    scan_floats(s, x, y, lanes, lane_stride, /*prod=*/true);
  else if (run->dtype == CARNOT_DTYPE_F32)
    scan_floats(s, x, y, lanes, lane_stride, /*prod=*/false);
  else if (run->dtype == CARNOT_DTYPE_I64 && !s->prod && !s->exclusive)
    scan_integers(s, x, y, lanes, lane_stride, /*wide=*/true, /*sums=*/true);
  else
    scan_integers(s, x, y, lanes, lane_stride, run->dtype == CARNOT_DTYPE_I64, /*sums=*/false);
}

static void cumulative_part(void* argument, int64_t part) {
  const cumulative_run* run = argument;
  const cumulative_state* s = run->s;
  int64_t first = part * s->per_part,
          last = carnot_min_i64(first + s->per_part, s->outer * s->groups);
  for (int64_t g = first; g < last; g++) {
    int64_t lane = g % s->groups * s->group_lanes,
            lanes = carnot_min_i64(s->group_lanes, s->lane_count - lane);
    int64_t start = g / s->groups * s->outer_stride + lane * s->lane_stride;
    if (s->lane_stride == 1 && lanes >= kManyLanes && run->dtype != CARNOT_DTYPE_F32)
      scan_rows(run, start, lanes);
    else if (s->lane_stride == 1)
      scan(run, start, lanes, 1);
    else if (lanes == kRowLanes)
      scan(run, start, kRowLanes, s->lane_stride);
    else
      scan(run, start, lanes, s->lane_stride);
  }
}

static carnot_status* cumulative_run_all(const carnot_step_view* step, void* state,
                                         const carnot_operand* inputs,
                                         const carnot_operand* outputs, void* workspace,
                                         carnot_executor* executor) {
  (void)workspace;
  cumulative_run run = {.s = state,
                        .kernels = carnot_cpu_kernels_of(step->machine_isa),
                        .dtype = inputs[kX].format.dtype,
                        .x = inputs[kX].data,
                        .y = outputs[0].data};
  carnot_executor_parallel(executor, carnot_ceildiv(run.s->outer * run.s->groups, run.s->per_part),
                           cumulative_part, &run);
  return NULL;
}

const carnot_tactic carnot_tactic_cumulative = {.name = "cpu_cumulative",
                                                .anchor = CARNOT_OP_CUMULATIVE,
                                                .isa = CARNOT_ISA_SCALAR,
                                                .numerics = CARNOT_NUMERICS_EXACT,
                                                .reject = cumulative_reject,
                                                .validate = carnot_cpu_check_single,
                                                .configure = cumulative_configure,
                                                .run = cumulative_run_all};
