// The region and the step of the tensor core GEMMs with constant weights.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_TILE_STEP_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_TILE_STEP_H_

#include "backend/cuda/conv/conv.h"
#include "backend/cuda/pointwise/chain.h"
#include "kernel/cuda/gemm/gemm_tile_params.h"

// The types of operands and result: one kernel each.
typedef enum carnot_cuda_gemm_tile_types {
  CARNOT_CUDA_TILE_F16,
  CARNOT_CUDA_TILE_BF16,
  CARNOT_CUDA_TILE_FP8_F16,      // FP8 operands, FP16 residual and result
  CARNOT_CUDA_TILE_FP8_BF16,     // BF16 residual and result
  CARNOT_CUDA_TILE_FP8_F16_FP8,  // FP16 residual, FP8 result
  CARNOT_CUDA_TILE_FP8_BF16_FP8,
  CARNOT_CUDA_TILE_FP8_F32,  // float32 result
  CARNOT_CUDA_TILE_TYPES
} carnot_cuda_gemm_tile_types;

// The kernels of FP8 operands of a tile, for an array by types.
#define CARNOT_CUDA_TILE_FP8_KERNELS(name)                                 \
  [CARNOT_CUDA_TILE_FP8_F16] = CARNOT_CUDA_KERNEL_##name##_f16_f16,        \
  [CARNOT_CUDA_TILE_FP8_BF16] = CARNOT_CUDA_KERNEL_##name##_bf16_bf16,     \
  [CARNOT_CUDA_TILE_FP8_F16_FP8] = CARNOT_CUDA_KERNEL_##name##_f16_e4m3,   \
  [CARNOT_CUDA_TILE_FP8_BF16_FP8] = CARNOT_CUDA_KERNEL_##name##_bf16_e4m3, \
  [CARNOT_CUDA_TILE_FP8_F32] = CARNOT_CUDA_KERNEL_##name##_f16_f32

// The matched region, the same at build and when shapes are set.
typedef struct carnot_cuda_gemm_tile_region {
  uint32_t x, weights, bias, residual;  // inputs of the step; NONE
  carnot_cuda_epilogue activation;
  carnot_cuda_chain chain;  // the rest
  int64_t rows, columns;    // of the result, at build; columns of a (joined) group
  int64_t channels;         // of a (joined) group of a convolution, at build
  bool is_fp8;
} carnot_cuda_gemm_tile_region;

// A step whose shapes are set.
typedef struct carnot_cuda_gemm_tile_step {
  carnot_cuda_gemm_tile_params params;
  uint32_t x, bias, residual;  // inputs of the step; NONE
  int images, taps;            // of a convolution; 1 and 1
  bool is_window;              // a convolution that is more than a GEMM of rows
  carnot_dtype operand;        // type of x and the weights
  carnot_cuda_gemm_tile_types types;
  carnot_cuda_chain_state chain;
} carnot_cuda_gemm_tile_step;

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_TILE_STEP_H_
