// Parameters of the generic casts, quantization and quantized GEMM and convolution.
#ifndef CARNOT_KERNEL_CUDA_QUANTIZE_QUANTIZE_PARAMS_H_
#define CARNOT_KERNEL_CUDA_QUANTIZE_QUANTIZE_PARAMS_H_

#include "kernel/cuda/common/generic.h"

typedef struct carnot_cuda_cast_params {
  carnot_cuda_generic_io io;
  int saturate;    // of floating types of a byte
  int round_mode;  // of F8E8M0: 0 up, 1 down, 2 nearest
} carnot_cuda_cast_params;

// y = round(x / scale) + zero, or (x - zero) * scale; one scale, one along the axis, or by blocks.
typedef struct carnot_cuda_quantize_params {
  carnot_cuda_generic_io io;
  long long inner, length, blocks, block_size;
  int per_tensor, precision, saturate;
} carnot_cuda_quantize_params;

// Which inputs hold what, -1: none; and how many numbers the lists have.
typedef struct carnot_cuda_quantized_operands {
  int w, x_scale, x_zero, w_scale, w_zero, y_scale, y_zero, bias;
  long long x_scales, x_zeros, w_scales, w_zeros;
} carnot_cuda_quantized_operands;

// y = sum over k of (x - x_zero) (w - w_zero), rescaled where y has a scale; input 0 is x. Batches
// of |dims| with the distances of both operands in matrices.
typedef struct carnot_cuda_quantized_matmul_params {
  carnot_cuda_generic_io io;
  carnot_cuda_quantized_operands scales;
  long long m, n, k, dims[CARNOT_CUDA_RANK], a_s[CARNOT_CUDA_RANK], b_s[CARNOT_CUDA_RANK];
  int rank;
} carnot_cuda_quantized_matmul_params;

// The same over windows; w [filters, channels / groups, kernel..].
typedef struct carnot_cuda_quantized_conv_params {
  carnot_cuda_generic_io io;
  carnot_cuda_quantized_operands scales;
  long long channels, filters, groups, in[3], out[3], kernel[3], step[3], dilation[3], begin[3];
} carnot_cuda_quantized_conv_params;

#endif  // CARNOT_KERNEL_CUDA_QUANTIZE_QUANTIZE_PARAMS_H_
