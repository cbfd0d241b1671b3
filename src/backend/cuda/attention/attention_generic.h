// Parameters that all kernels of the Attention operator share.
#ifndef CARNOT_BACKEND_CUDA_ATTENTION_ATTENTION_GENERIC_H_
#define CARNOT_BACKEND_CUDA_ATTENTION_ATTENTION_GENERIC_H_

#include "backend/cuda/common/generic.h"
#include "kernel/cuda/attention/attention_generic_params.h"

// |out| without types and addresses of the operands, which are checked.
carnot_status* carnot_cuda_attention_generic_read(
    const carnot_step_view* step, const carnot_operand* inputs, const carnot_operand* outputs,
    carnot_cuda_attention_generic_params* out) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_ATTENTION_ATTENTION_GENERIC_H_
