// Einsum by the generic kernel.
#include "ops/einsum.h"
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/gemm/einsum_params.h"

static const char* einsum_reject(carnot_problem* problem, char* reason, size_t size) {
  if (!carnot_cuda_is_single(problem, CARNOT_OP_EINSUM)) return "";
  if (problem->input_count > 3)
    return carnot_cuda_reject_reason(reason, size, "%u operands, takes up to 3",
                                     problem->input_count);
  int axes = 0;
  for (uint32_t i = 0; i < problem->input_count; i++)
    axes += (int)carnot_max_i64(0, problem->inputs[i].rank);
  if (axes - problem->outputs[0].rank > CARNOT_CUDA_RANK) return "too many axes";
  return carnot_cuda_generic_reject(problem, CARNOT_OP_EINSUM, 0, reason, size);
}

static carnot_status* einsum_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                   const carnot_operand* outputs, void* state,
                                   size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  carnot_cuda_attrs a = carnot_cuda_attrs_of(step);
  int ranks[3], count = (int)step->input_count;
  const int64_t* dims[3];
  carnot_einsum plan;
  CARNOT_CHECK(count <= 3, INVALID_MODEL, "%d operands", count);
  CARNOT_TRY(carnot_cuda_on_device(inputs, step->input_count));
  for (int i = 0; i < count; i++) ranks[i] = inputs[i].rank, dims[i] = inputs[i].dims;
  CARNOT_TRY(
      carnot_einsum_plan(carnot_attr_text(a.row, a.attrs, "equation"), count, ranks, dims, &plan));
  CARNOT_CHECK(plan.out_rank <= CARNOT_CUDA_RANK && plan.sum_rank <= CARNOT_CUDA_RANK &&
                   plan.out_count == carnot_cuda_count(&outputs[0]),
               INVALID_MODEL, "%d axes are summed", plan.sum_rank);
  carnot_cuda_einsum_params p = {.operands = count,
                                 .kept_rank = plan.out_rank,
                                 .summed_rank = plan.sum_rank,
                                 .summed_count = plan.sum_count};
  for (int d = 0; d < plan.out_rank; d++) {
    p.kept[d] = plan.out_dims[d];
    for (int k = 0; k < count; k++) p.kept_s[k][d] = plan.out_strides[k][d];
  }
  for (int d = 0; d < plan.sum_rank; d++) {
    p.summed[d] = plan.sum_dims[d];
    for (int k = 0; k < count; k++) p.summed_s[k][d] = plan.sum_strides[k][d];
  }
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_einsum,
                                   plan.out_count, &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_TACTIC(einsum, "cuda_einsum", CARNOT_OP_EINSUM, einsum_reject, einsum_shape);
