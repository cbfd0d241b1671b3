// Resizing of images over channels-last operands, float32 or BF16 in memory: tables of taps for
// rows and columns, computed in each run (one entry for each output row and column).
#include "backend/cpu/common/isa_variants.h"
#include "backend/cpu/resample/resize_table.h"

enum { kX, kRoi, kScales, kSizes };

static const char* resize_reject(carnot_problem* problem, char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(CARNOT_OP_RESIZE);
  if (node->op != CARNOT_OP_RESIZE || problem->region->node_count != 1) return "";
  const char* why =
      carnot_not_f32_value(problem, &problem->inputs[kX], "the input", 4, 4, reason, size);
  if (!why) why = carnot_cpu_moves_bytes(problem, reason, size);
  if (why) return why;
  size_t axis_count;
  (void)carnot_attr_ints(&node->attrs, "axes", &axis_count);
  if (axis_count) return "axes are listed";
  if (carnot_attr_int(row, &node->attrs, "antialias")) return "it shrinks with antialias";
  why = carnot_cpu_resize_reject(problem);
  if (why) return why;
  const carnot_operand_desc *x = &problem->inputs[kX], *y = &problem->outputs[0];
  for (int d = 0; d < 2; d++)
    if (x->dims[d] < 0 || x->dims[d] != y->dims[d] || x->min[d] != y->min[d] ||
        x->max[d] != y->max[d])
      return "batch or channels are resized too";
  problem->inputs[kX].format.layout = problem->outputs[0].format.layout =
      CARNOT_LAYOUT_CHANNELS_LAST;
  return NULL;
}

typedef struct resize_state {
  carnot_resize_f32 resize;  // all but tables and data
  carnot_resize_filter filter;
  carnot_resize_axis rows, columns;
  int64_t row_count, rows_per_part;
} resize_state;

static carnot_status* resize_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* memory,
                                       size_t* out_workspace_bytes) {
  resize_state* state = memory;
  const carnot_plan_node* node = &step->region->nodes[0];
  const carnot_operand *x = &inputs[kX], *y = &outputs[0];
  CARNOT_CHECK(x->rank == 4 && y->rank == 4 && x->dims[0] == y->dims[0] &&
                   x->dims[1] == y->dims[1] && x->strides[1] == 1 && y->strides[1] == 1,
               INVALID_ARGUMENT, "operands are no images of the same batch and channels");
  CARNOT_CHECK(carnot_cpu_is_f32_value(step, x) && x->format.dtype == y->format.dtype,
               INVALID_MODEL, "operands are %s and %s", carnot_dtype_name(x->format.dtype),
               carnot_dtype_name(y->format.dtype));
  CARNOT_CHECK(y->strides[2] == y->dims[3] * y->strides[3] &&
                   (y->dims[0] == 1 || y->strides[0] == y->dims[2] * y->strides[2]),
               INVALID_ARGUMENT, "the result's pixels are not evenly spaced");
  CARNOT_CHECK(x->dims[2] >= 1 && x->dims[3] >= 1 && y->dims[2] < INT32_MAX / 8 &&
                   y->dims[3] < INT32_MAX / 8 && x->dims[2] < INT32_MAX && x->dims[3] < INT32_MAX,
               OUT_OF_RANGE, "an image of %lldx%lld resized to %lldx%lld", (long long)x->dims[3],
               (long long)x->dims[2], (long long)y->dims[3], (long long)y->dims[2]);
  double scale[2] = {(double)y->dims[2] / (double)x->dims[2],
                     (double)y->dims[3] / (double)x->dims[3]};
  if (node->input_count > kScales && node->inputs[kScales] != CARNOT_PLAN_NONE) {
    const carnot_operand* scales = &inputs[node->inputs[kScales]];
    CARNOT_CHECK(scales->data && scales->format.dtype == CARNOT_DTYPE_F32 && scales->rank == 1 &&
                     scales->dims[0] == 4,
                 INVALID_MODEL, "scales are not four constants of float32");
    for (int i = 0; i < 2; i++) scale[i] = (double)((const float*)scales->data)[2 + i];
    CARNOT_CHECK(scale[0] > 0 && scale[1] > 0, INVALID_MODEL, "scales are %g and %g", scale[0],
                 scale[1]);
  }
  state->filter = carnot_cpu_resize_filter(node);
  state->rows = (carnot_resize_axis){x->dims[2], y->dims[2], scale[0], 0, 1};
  state->columns = (carnot_resize_axis){x->dims[3], y->dims[3], scale[1], 0, 1};
  int32_t taps = state->filter.radius ? (int32_t)(2 * state->filter.radius) : 1;
  state->resize = (carnot_resize_f32){.c = x->dims[1],
                                      .p = y->dims[2],
                                      .q = y->dims[3],
                                      .is_bf16 = x->format.dtype == CARNOT_DTYPE_BF16,
                                      .src_n = x->strides[0],
                                      .src_h = x->strides[2],
                                      .src_w = x->strides[3],
                                      .ld = y->strides[3],
                                      .taps_h = taps,
                                      .taps_w = taps};
  state->row_count = y->dims[0] * y->dims[2];
  state->rows_per_part =
      carnot_rows_per_part(state->row_count, y->dims[3] * y->dims[1] * taps * taps);
  *out_workspace_bytes =
      (size_t)(y->dims[2] + y->dims[3]) * (size_t)taps * (sizeof(int32_t) + sizeof(float));
  return NULL;
}

typedef struct resize_run {
  const carnot_cpu_kernels* kernels;
  const carnot_resize_f32* resize;
  int64_t row_count, rows_per_part;
} resize_run;

static void resize_part(void* argument, int64_t part) {
  const resize_run* run = argument;
  int64_t row0 = part * run->rows_per_part;
  run->kernels->resize_f32(run->resize, row0,
                           carnot_min_i64(row0 + run->rows_per_part, run->row_count));
}

static carnot_status* resize_run_all(const carnot_step_view* step, void* memory,
                                     const carnot_operand* inputs, const carnot_operand* outputs,
                                     void* workspace, carnot_executor* executor) {
  const resize_state* state = memory;
  carnot_resize_f32 resize = state->resize;
  int64_t h = resize.p * resize.taps_h, w = resize.q * resize.taps_w;
  int32_t* indices = workspace;
  float* weights = (float*)(indices + h + w);
  double scratch[4];  // taps of a cubic filter
  carnot_cpu_resize_fill(&state->filter, &state->rows, /*shrink=*/1, scratch, indices, weights);
  carnot_cpu_resize_fill(&state->filter, &state->columns, /*shrink=*/1, scratch, indices + h,
                         weights + h);
  resize.h_index = indices;
  resize.w_index = indices + h;
  resize.h_weight = weights;
  resize.w_weight = weights + h;
  resize.src = inputs[kX].data;
  resize.dst = outputs[0].data;
  resize_run run = {carnot_cpu_kernels_of(step->tactic->isa), &resize, state->row_count,
                    state->rows_per_part};
  carnot_executor_parallel(executor, carnot_ceildiv(run.row_count, run.rows_per_part), resize_part,
                           &run);
  return NULL;
}

CARNOT_CPU_TACTICS(resize_f32, .anchor = CARNOT_OP_RESIZE, .strided_outputs = true,
                   .takes_bf16 = true, .reject = resize_reject,
                   .validate = carnot_cpu_resize_validate, .configure = resize_configure,
                   .run = resize_run_all);
