// GEMMs of FP8 operands (E4M3FN) with constant weights, for the tensor core GEMMs by TMA: the
// region of tactic/problem/quantized.h,
//   y = activation(sum_k x[m,k] w[n,k] * x_scale w_scale[n] + bias[n] + residual[m,n])
// of FP16, BF16 or float32, or quantized to FP8. Sums, bias and activation are float32 and rounded
// once, so results are nearer to float64 than those of the region's single operators; no bits are
// promised.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_FP8_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_FP8_H_

#include "backend/cuda/gemm/gemm_tile_step.h"

// The constants of a step: weights [filters, channels], scales and biases of the filters.
enum {
  CARNOT_CUDA_FP8_WEIGHTS,
  CARNOT_CUDA_FP8_SCALES,
  CARNOT_CUDA_FP8_BIAS,
  CARNOT_CUDA_FP8_CONSTANTS
};

// Stored in engines.
typedef struct carnot_cuda_gemm_fp8_params {
  int64_t channels, filters;
  int32_t x, residual;  // inputs of the step; residual -1: none
  int32_t types;        // carnot_cuda_gemm_tile_types
  int32_t activation;   // carnot_cuda_activation
  float low, high, factor;
  int32_t reserved;
} carnot_cuda_gemm_fp8_params;

// True for a region whose anchor has FP8 operands.
bool carnot_cuda_is_fp8_region(const carnot_region* region, const carnot_operand_desc* inputs,
                               uint32_t input_count);
// Reads the region for reject. NULL, or the reason.
const char* carnot_cuda_gemm_fp8_reject(carnot_problem* problem, carnot_cuda_gemm_tile_region* out,
                                        char* reason, size_t size);
carnot_status* carnot_cuda_gemm_fp8_prepare(const carnot_problem* problem,
                                            carnot_prepared* out) CARNOT_MUST_USE;
// True for a step of the tiles that carnot_cuda_gemm_fp8_prepare made.
bool carnot_cuda_is_fp8_step(const carnot_step_view* step);
// Its parameters, which may be followed by others, and constants; |bias_bytes|: of one bias.
carnot_status* carnot_cuda_gemm_fp8_check(const carnot_step_view* step,
                                          size_t bias_bytes) CARNOT_MUST_USE;
bool carnot_cuda_gemm_fp8_uses_input(const carnot_step_view* step, uint32_t input);
carnot_status* carnot_cuda_gemm_fp8_shape(const carnot_step_view* step,
                                          const carnot_operand* inputs,
                                          const carnot_operand* outputs,
                                          carnot_cuda_gemm_tile_step* out) CARNOT_MUST_USE;
void carnot_cuda_gemm_fp8_bind(const carnot_step_view* step, carnot_cuda_gemm_tile_params* out);

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_FP8_H_
