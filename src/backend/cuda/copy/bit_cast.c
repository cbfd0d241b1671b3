// BitCast: a copy of the bytes.
#include "backend/cuda/common/generic.h"

static carnot_status* bit_cast_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                     const carnot_operand* outputs, void* state,
                                     size_t* out_workspace_bytes) {
  *out_workspace_bytes = 0;
  const carnot_operand *x = &inputs[0], *y = &outputs[0];
  int bytes = carnot_cuda_bytes(x);
  CARNOT_TRY(carnot_cuda_on_device(x, 1));
  CARNOT_CHECK(carnot_cuda_count(x) * bytes == carnot_cuda_count(y) * carnot_cuda_bytes(y),
               INVALID_ARGUMENT, "%lld bytes as %lld", (long long)(carnot_cuda_count(x) * bytes),
               (long long)(carnot_cuda_count(y) * carnot_cuda_bytes(y)));
  const carnot_cuda_generic_io p = {.count = 0};
  CARNOT_TRY(carnot_cuda_generic_shape(step, inputs, outputs, CARNOT_CUDA_KERNEL_NONE, /*count=*/0,
                                       &p, sizeof(p), state));
  ((carnot_cuda_generic_state*)state)->copied = (size_t)(carnot_cuda_count(x) * bytes);
  return NULL;
}
CARNOT_CUDA_GENERIC_OP_TACTIC(bit_cast, "cuda_bit_cast", BIT_CAST);
