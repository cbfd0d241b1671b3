// ArgMax, ArgMin, TopK, Hardmax, LpNormalization, LRN and CumSum along one axis, by generic
// kernels.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/reduce/axis_ops_params.h"

static double real_attr(const carnot_step_view* step, const char* name) {
  return carnot_attr_float(carnot_op_get(carnot_cuda_node_of(step)->op),
                           &carnot_cuda_node_of(step)->attrs, name);
}
static bool fn_is(const carnot_step_view* step, const char* name) {
  return carnot_attr_is(carnot_op_get(carnot_cuda_node_of(step)->op),
                        &carnot_cuda_node_of(step)->attrs, "fn", name);
}

static int64_t set_axis(const carnot_operand* x, int axis, carnot_cuda_axis_params* out) {
  out->length = x->rank ? x->dims[axis] : 1;
  out->inner = x->rank ? carnot_dims_count(x->dims + axis + 1, x->rank - axis - 1) : 1;
  return carnot_dims_count(x->dims, x->rank) / carnot_max_i64(1, out->length);
}

static carnot_status* shape_axis(const carnot_step_view* step, const carnot_operand* inputs,
                                 const carnot_operand* outputs, carnot_cuda_kernel_id kernel,
                                 int64_t count, const carnot_cuda_axis_params* lanes, bool blocks,
                                 void* state) {
  CARNOT_TRY(carnot_cuda_on_device(inputs, 1));
  CARNOT_TRY(carnot_cuda_generic_shape(step, inputs, outputs, kernel, count, lanes, sizeof(*lanes),
                                       state));
  ((carnot_cuda_generic_state*)state)->blocks = blocks;
  return NULL;
}

// ---- ArgMax and ArgMin ----

static carnot_status* arg_reduce_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_axis_params lanes = {.largest = fn_is(step, "max"),
                                   .last = carnot_cuda_step_attr(step, "select_last_index") != 0};
  int axis;
  CARNOT_TRY(carnot_cuda_axis(step, "axis", inputs[0].rank, &axis));
  int64_t count = set_axis(&inputs[0], axis, &lanes);
  CARNOT_CHECK(count == carnot_dims_count(outputs[0].dims, outputs[0].rank) &&
                   outputs[0].format.dtype == CARNOT_DTYPE_I64,
               INVALID_ARGUMENT, "%lld indices of extremes; another count is required",
               (long long)count);
  return shape_axis(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_arg_reduce, count, &lanes,
                    true, state);
}
CARNOT_CUDA_GENERIC_OP_TACTIC(arg_reduce, "cuda_arg_reduce", ARG_REDUCE);

// ---- TopK ----

static carnot_status* top_k_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                  const carnot_operand* outputs, void* state,
                                  size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_axis_params lanes = {.largest = carnot_cuda_step_attr(step, "largest") != 0};
  lanes.io.bytes = carnot_cuda_bytes(&inputs[0]);
  int axis;
  double k;
  CARNOT_TRY(carnot_cuda_axis(step, "axis", inputs[0].rank, &axis));
  CARNOT_TRY(carnot_cuda_host_number(&inputs[1], 0, &k));
  int64_t count = set_axis(&inputs[0], axis, &lanes);
  lanes.k = (int64_t)k;
  CARNOT_CHECK(k >= 0 && lanes.k <= lanes.length, INVALID_ARGUMENT,
               "k is %g; dimension %d has %lld elements", k, axis, (long long)lanes.length);
  for (uint32_t i = 0; i < 2; i++) {
    const carnot_operand* y = carnot_cuda_output(step, outputs, i);
    CARNOT_CHECK(
        !y->format.dtype || (carnot_dims_count(y->dims, y->rank) == count * lanes.k &&
                             y->format.dtype == (i ? CARNOT_DTYPE_I64 : inputs[0].format.dtype)),
        INVALID_ARGUMENT, "result %u of the largest elements has another size or type", i);
  }
  return shape_axis(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_top_k, lanes.k ? count : 0,
                    &lanes, true, state);
}
CARNOT_CUDA_GENERIC_HOST_OP_TACTIC(top_k, "cuda_top_k", TOP_K, 1u << 1);

// ---- Hardmax, LpNormalization, LRN, CumSum ----

static carnot_status* same_shape(const carnot_operand* x, const carnot_operand* y) {
  CARNOT_CHECK(x->format.dtype == y->format.dtype &&
                   carnot_dims_count(x->dims, x->rank) == carnot_dims_count(y->dims, y->rank),
               INVALID_ARGUMENT, "input and result differ in size or type");
  return NULL;
}

static const char* cumulative_reject(carnot_problem* problem, char* reason, size_t size) {
  bool known = carnot_cuda_is_single(problem, CARNOT_OP_CUMULATIVE) && problem->input_count > 1 &&
               problem->inputs[1].is_constant;
  return carnot_cuda_generic_reject(problem, CARNOT_OP_CUMULATIVE, known ? 1u << 1 : 0, reason,
                                    size);
}

static carnot_status* hardmax_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_axis_params lanes = {.largest = true};
  int axis;
  CARNOT_TRY(same_shape(&inputs[0], &outputs[0]));
  CARNOT_TRY(carnot_cuda_axis(step, "axis", inputs[0].rank, &axis));
  int64_t count = set_axis(&inputs[0], axis, &lanes);
  return shape_axis(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_hardmax, count, &lanes, true,
                    state);
}

static carnot_status* lp_norm_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                    const carnot_operand* outputs, void* state,
                                    size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  carnot_cuda_axis_params lanes = {.power = (int)carnot_cuda_attr(&a, "p"),
                                   .epsilon = carnot_attr_float(a.row, a.attrs, "epsilon")};
  int axis;
  CARNOT_TRY(same_shape(&inputs[0], &outputs[0]));
  CARNOT_TRY(carnot_cuda_axis(step, "axis", inputs[0].rank, &axis));
  int64_t count = set_axis(&inputs[0], axis, &lanes);
  return shape_axis(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_lp_norm, count, &lanes, true,
                    state);
}

static carnot_status* lrn_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* state,
                                size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_axis_params lanes = {.size = carnot_cuda_step_attr(step, "size"),
                                   .alpha = real_attr(step, "alpha"),
                                   .beta = real_attr(step, "beta"),
                                   .bias = real_attr(step, "bias")};
  CARNOT_TRY(same_shape(&inputs[0], &outputs[0]));
  CARNOT_CHECK(inputs[0].rank >= 2 && lanes.size > 0, INVALID_MODEL, "rank %d, %lld neighbours",
               inputs[0].rank, (long long)lanes.size);
  set_axis(&inputs[0], 1, &lanes);
  int64_t count = carnot_dims_count(inputs[0].dims, inputs[0].rank);
  return shape_axis(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_lrn, count, &lanes, false,
                    state);
}

static carnot_status* cumulative_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                       const carnot_operand* outputs, void* state,
                                       size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_axis_params lanes = {.product = fn_is(step, "prod"),
                                   .exclusive = carnot_cuda_step_attr(step, "exclusive") != 0,
                                   .reverse = carnot_cuda_step_attr(step, "reverse") != 0};
  double axis;
  int rank = inputs[0].rank;
  CARNOT_TRY(same_shape(&inputs[0], &outputs[0]));
  CARNOT_CHECK(
      step->input_count == 2 && rank <= CARNOT_CUDA_RANK && carnot_cuda_count(&inputs[1]) == 1,
      INVALID_MODEL, "%u operands, x of rank %d", step->input_count, rank);
  if (inputs[1].format.memory == CARNOT_MEMORY_DEVICE) {
    lanes.rank = rank;
    for (int d = 0; d < rank; d++) lanes.dims[d] = inputs[0].dims[d];
    return shape_axis(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_cumulative,
                      carnot_cuda_count(&inputs[0]), &lanes, false, state);
  }
  CARNOT_TRY(carnot_cuda_host_number(&inputs[1], 0, &axis));
  if (axis < 0) axis += rank;
  CARNOT_CHECK((axis >= 0 && axis < rank) || rank == 0, INVALID_MODEL, "axis %g of rank %d", axis,
               rank);
  int64_t count = set_axis(&inputs[0], (int)axis, &lanes);
  return shape_axis(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_cumulative, count, &lanes,
                    false, state);
}
CARNOT_CUDA_GENERIC_OP_TACTIC(hardmax, "cuda_hardmax", HARDMAX);
CARNOT_CUDA_GENERIC_OP_TACTIC(lp_norm, "cuda_lp_norm", LP_NORM);
CARNOT_CUDA_GENERIC_OP_TACTIC(lrn, "cuda_lrn", LRN);
CARNOT_CUDA_GENERIC_TACTIC(cumulative, "cuda_cumulative", CARNOT_OP_CUMULATIVE, cumulative_reject,
                           cumulative_shape);
