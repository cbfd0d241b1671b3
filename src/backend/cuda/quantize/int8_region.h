// What the integer tactics share: quantized regions (tactic/problem/quantized.h) in the form that
// kernels take them, stored in engines.
#ifndef CARNOT_BACKEND_CUDA_QUANTIZE_INT8_REGION_H_
#define CARNOT_BACKEND_CUDA_QUANTIZE_INT8_REGION_H_

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/quantize/int8_epilogue_params.h"
#include "ops/sliding_window.h"
#include "tactic/problem/quantized.h"

// Stored in engines.
typedef struct carnot_cuda_int8_region {
  int32_t x, residual, offset;  // inputs of the step; -1: no residual, no offset
  int32_t x_zero, x_signed;
  int32_t residual_type, residual_zero;  // carnot_cuda_int8_type
  float residual_scale;
  int32_t is_twice, inner_zero, inner_low, inner_high;
  float inner_scale;
  int32_t activation;  // carnot_cuda_activation
  float a, b;
  int32_t output;  // carnot_cuda_int8_type
  float divisor;
  int32_t zero_point, low, high;
  float bound;  // of |(sum + bias) * scale| in all channels, divided by 2^31: at most the largest
                // scale, which engines of the same format version may hold here instead
  float inner_factor, residual_factor;  // of form TWICE; 0: none give the bytes of the division
} carnot_cuda_int8_region;

// Constants of a prepared step.
enum {
  CARNOT_CUDA_INT8_WEIGHTS,
  CARNOT_CUDA_INT8_BIAS,
  CARNOT_CUDA_INT8_SCALES,
  CARNOT_CUDA_INT8_CONSTANTS
};

// Reads the region of |problem| for reject and prepare, and checks that weights and sums fit.
// |channel_axis| as in carnot_quantized_read. NULL, or the reason; "" for other regions.
const char* carnot_cuda_int8_region_read(const carnot_problem* problem, int channel_axis,
                                         const carnot_quantized_shape* shape,
                                         carnot_quantized_region* view,
                                         carnot_cuda_int8_region* out, char* reason, size_t size);
// The weights less their zero points go to |centered| (as many as the weights); all constants of
// |out| but WEIGHTS are made, the zero point of x taken off the bias.
carnot_status* carnot_cuda_int8_region_prepare(const carnot_problem* problem,
                                               const carnot_quantized_region* view,
                                               const carnot_cuda_int8_region* region,
                                               const carnot_quantized_shape* shape,
                                               int8_t* centered,
                                               carnot_prepared* out) CARNOT_MUST_USE;
// Asks for one layout of activations, residual and result.
void carnot_cuda_int8_region_want(carnot_problem* problem, const carnot_cuda_int8_region* region,
                                  carnot_layout layout);

// Checks the stored region and the constants of a step, whose weights have |weight_bytes|.
// INVALID_MODEL.
carnot_status* carnot_cuda_int8_region_validate(const carnot_cuda_int8_region* region,
                                                const carnot_step_view* step, int64_t channels,
                                                size_t weight_bytes) CARNOT_MUST_USE;
// Checks types, memory, and the sizes of the residual, and that all are dense: x channels last with
// |x_channels_last|, the others with |channels_last|, else row major. INVALID_MODEL,
// INVALID_ARGUMENT.
carnot_status* carnot_cuda_int8_region_configure(const carnot_cuda_int8_region* region,
                                                 bool x_channels_last, bool channels_last,
                                                 const carnot_operand* inputs,
                                                 const carnot_operand* output) CARNOT_MUST_USE;
// Checks a stored window of one or two dimensions. INVALID_MODEL.
carnot_status* carnot_cuda_int8_window_check(const carnot_sliding_window* window) CARNOT_MUST_USE;
// Sets the factors of form TWICE: numbers next to the rounded quotients of both scales and the
// divisor, with which all pairs of an inner byte and a byte of the residual give the bytes of the
// division. They stay 0 where none do.
void carnot_cuda_int8_region_set_factors(carnot_cuda_int8_region* region);
// The form of the epilogue. Others than GENERAL take numbers whose arithmetic stays normal.
carnot_cuda_int8_form carnot_cuda_int8_region_form(const carnot_cuda_int8_region* region);
// The epilogue of a launch; borrows the step's constants and the residual of |inputs|.
carnot_cuda_int8_epilogue carnot_cuda_int8_region_epilogue(const carnot_cuda_int8_region* region,
                                                           const carnot_step_view* step,
                                                           const carnot_operand* inputs);
// Operations of the GEMM or convolution, and bytes of operands and result.
void carnot_cuda_quantized_work(const carnot_problem* problem, double* out_flops,
                                double* out_bytes);

#endif  // CARNOT_BACKEND_CUDA_QUANTIZE_INT8_REGION_H_
