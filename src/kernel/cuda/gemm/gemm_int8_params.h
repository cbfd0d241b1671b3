// Parameters and tile sizes of the tensor core GEMMs of 8-bit integers with constant weights.
#ifndef CARNOT_KERNEL_CUDA_GEMM_GEMM_INT8_PARAMS_H_
#define CARNOT_KERNEL_CUDA_GEMM_GEMM_INT8_PARAMS_H_

#include "kernel/cuda/gemm/gemm_tile_params.h"
#include "kernel/cuda/quantize/int8_epilogue_params.h"

// The GEMM of gemm_tile_params.h with x of uint8 or int8 and w of int8, whose rows are
// |w_pitch| bytes apart, a multiple of 16; its sums are int32, and |epilogue| is what follows.
// |gemm.channels| and |gemm.pixel| are multiples of the kernel's load (16, 8 or 4 bytes),
// |gemm.filters| is one of 8. bias, residual and activation of |gemm| are unused.
typedef struct carnot_cuda_gemm_int8_params {
  carnot_cuda_gemm_tile_params gemm;
  int w_pitch;
  unsigned outside;  // x's zero point in each byte: what a window reads outside of the image
  carnot_cuda_int8_epilogue epilogue;
} carnot_cuda_gemm_int8_params;

// clang-format off
// X(rows, columns, stages, load) of each tile: |load| bytes of x at a time.
#define CARNOT_CUDA_GEMM_INT8_SIZES(X) \
  X(16, 64, 8, 16) X(32, 64, 6, 16) X(64, 32, 6, 16) X(64, 64, 6, 16) X(64, 128, 5, 16) X(128, 32, 6, 16) \
  X(128, 64, 5, 16) X(128, 128, 5, 16) X(128, 256, 4, 16) \
  X(64, 32, 6, 8) X(64, 64, 6, 8) X(128, 64, 5, 8) X(64, 32, 6, 4) X(64, 64, 6, 4) X(128, 32, 6, 4) \
  X(128, 64, 5, 4)
// clang-format on

#endif  // CARNOT_KERNEL_CUDA_GEMM_GEMM_INT8_PARAMS_H_
