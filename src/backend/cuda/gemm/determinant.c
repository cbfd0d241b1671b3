// Det by the generic kernel.
#include "backend/cuda/common/generic.h"
#include "kernel/cuda/reduce/axis_ops_params.h"

static carnot_status* det_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, void* state,
                                size_t* out_workspace_bytes) {
  const carnot_operand* x = &inputs[0];
  int64_t n = x->rank >= 2 ? x->dims[x->rank - 1] : -1, count = carnot_cuda_count(&outputs[0]);
  CARNOT_CHECK(n >= 0 && x->dims[x->rank - 2] == n, INVALID_MODEL, "x of rank %d is not square",
               x->rank);
  CARNOT_TRY(carnot_cuda_expect(x, "x", count * n * n));
  const carnot_cuda_axis_params p = {.length = n};
  *out_workspace_bytes = (size_t)(count * n * n) * sizeof(double);
  return carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_generic_determinant,
                                   count, &p, sizeof(p), state);
}
CARNOT_CUDA_GENERIC_OP_TACTIC(det, "cuda_det", DET);
