// What the tactics of depthwise convolution of NHWC 16-bit floats share.
#ifndef CARNOT_BACKEND_CUDA_CONV_DEPTHWISE_H_
#define CARNOT_BACKEND_CUDA_CONV_DEPTHWISE_H_

#include "backend/cuda/conv/conv.h"
#include "kernel/cuda/conv/depthwise_params.h"

// The region for reject: NULL, or the reason; "" for other operators. Asks for channels last.
const char* carnot_cuda_depthwise_read(carnot_problem* problem, carnot_cuda_conv* out, char* reason,
                                       size_t size);
// Packs the weights [C,1,taps] as [taps,C].
carnot_status* carnot_cuda_depthwise_prepare(const carnot_problem* problem,
                                             carnot_prepared* out) CARNOT_MUST_USE;
// Sizes and activation of the step, *out_bias the input that is its bias or NONE, and the chain
// behind it.
carnot_status* carnot_cuda_depthwise_shape(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs,
                                           carnot_cuda_depthwise_params* out, uint32_t* out_bias,
                                           carnot_cuda_chain_state* out_chain) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_CONV_DEPTHWISE_H_
