// Division of rows by their Euclidean norm.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/norm/norm_params.h"

enum { kThreads = 128, kShort = 32 };  // elements of a row for which eight lanes do

static const carnot_cuda_kernel_id kL2Norm[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, l2_norm_32)};
static const carnot_cuda_kernel_id kL2NormShort[CARNOT_DTYPE_COUNT] = {
    CARNOT_CUDA_FLOAT_TYPES(CARNOT_CUDA_BY_TYPE, l2_norm_8)};

typedef struct l2_norm_state {
  CUfunction function;
  int lanes;
  carnot_cuda_l2_norm_params params;
} l2_norm_state;
_Static_assert(sizeof(l2_norm_state) <= CARNOT_STATE_BYTES, "the state has its size");

static const char* l2_norm_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_LP_NORM)) return "";
  const carnot_plan_node* node = &problem->region->nodes[0];
  const carnot_op_row* row = carnot_op_get(node->op);
  const carnot_operand_desc* x = &problem->inputs[0];
  const int64_t axis = carnot_attr_int(row, &node->attrs, "axis"),
                power = carnot_attr_int(row, &node->attrs, "p");
  carnot_cuda_want_row_major(problem);
  if (power != 2 || (axis != -1 && axis != x->rank - 1))
    return carnot_cuda_reject_reason(reason, size, "p %lld along axis %lld, takes 2 and the last",
                                     (long long)power, (long long)axis);
  return carnot_cuda_not_float(x, reason, size);
}

static carnot_status* l2_norm_configure(const carnot_step_view* step, const carnot_operand* inputs,
                                        const carnot_operand* outputs, void* state,
                                        size_t* out_workspace_bytes) {
  const carnot_operand* x = &inputs[0];
  const carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  int axis;
  *out_workspace_bytes = 0;
  CARNOT_TRY(carnot_cuda_on_device(inputs, 1));
  CARNOT_TRY(carnot_cuda_on_device(outputs, 1));
  CARNOT_TRY(carnot_cuda_axis(step, "axis", x->rank, &axis));
  const int64_t count = carnot_dims_count(x->dims, x->rank);
  CARNOT_CHECK(axis == x->rank - 1 && carnot_cuda_attr(&a, "p") == 2 &&
                   carnot_cuda_is_float(x->format.dtype) &&
                   outputs[0].format.dtype == x->format.dtype &&
                   carnot_dims_count(outputs[0].dims, outputs[0].rank) == count,
               INVALID_MODEL, "the step does not divide rows of floats by their norm");
  l2_norm_state* s = state;
  *s = (l2_norm_state){.lanes = x->dims[axis] <= kShort ? 8 : 32,
                       .params = {.size = x->dims[axis],
                                  .count = count / carnot_max_i64(1, x->dims[axis]),
                                  .eps = (float)carnot_attr_float(a.row, a.attrs, "epsilon")}};
  return carnot_cuda_kernel_for(carnot_cuda_of_step(step), s->lanes == 8 ? kL2NormShort : kL2Norm,
                                x->format.dtype, &s->function);
}

static carnot_status* l2_norm_run(const carnot_step_view* step, void* state,
                                  const carnot_operand* inputs, const carnot_operand* outputs,
                                  void* workspace, carnot_executor* executor) {
  (void)workspace, (void)executor;
  l2_norm_state* s = state;
  s->params.x = inputs[0].data, s->params.y = outputs[0].data;
  const int64_t grid[3] = {carnot_ceildiv(s->params.count, kThreads / s->lanes), 1, 1};
  return grid[0] ? carnot_cuda_launch(step, s->function, grid, kThreads, &s->params) : NULL;
}

const carnot_tactic carnot_cuda_l2_norm = {.name = "cuda_l2_norm",
                                           .anchor = CARNOT_OP_LP_NORM,
                                           .numerics = CARNOT_NUMERICS_EXACT,
                                           .device = true,
                                           .reject = l2_norm_reject,
                                           .configure = l2_norm_configure,
                                           .run = l2_norm_run};
