// What the tensor core GEMMs with constant weights share: the region (a GEMM or an NHWC convolution
// as implicit GEMM, bias, residual, activation, pointwise chain), packed weights, kernel
// parameters.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_TILE_COMMON_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_TILE_COMMON_H_

#include "backend/cuda/conv/conv.h"
#include "backend/cuda/pointwise/chain.h"
#include "kernel/cuda/gemm/gemm_tile_params.h"

// The matched region, the same at build and when shapes are set.
typedef struct carnot_cuda_gemm_tile_region {
  uint32_t x, weights, bias, residual;  // inputs of the step; NONE
  carnot_cuda_epilogue activation;
  carnot_cuda_chain chain;  // the rest
  int64_t rows, columns;    // of the result, at build
} carnot_cuda_gemm_tile_region;

// A step whose shapes are set.
typedef struct carnot_cuda_gemm_tile_step {
  carnot_cuda_gemm_tile_params params;
  uint32_t x, bias, residual;  // inputs of the step; NONE
  int images, taps;            // of a convolution; 1 and 1
  bool is_window;              // a convolution that is more than a GEMM of rows
  carnot_cuda_chain_state chain;
} carnot_cuda_gemm_tile_step;

// NULL, or the reason; sets the layouts that the kernels read.
const char* carnot_cuda_gemm_tile_reject(carnot_problem* problem, carnot_cuda_gemm_tile_region* out,
                                         char* reason, size_t size);
carnot_status* carnot_cuda_gemm_tile_prepare(const carnot_problem* problem,
                                             carnot_prepared* out) CARNOT_MUST_USE;
carnot_status* carnot_cuda_gemm_tile_check(const carnot_step_view* step) CARNOT_MUST_USE;
carnot_status* carnot_cuda_gemm_tile_shape(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs,
                                           carnot_cuda_gemm_tile_step* out) CARNOT_MUST_USE;
// Addresses, before a launch.
void carnot_cuda_gemm_tile_bind(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, carnot_cuda_gemm_tile_step* t);
void carnot_cuda_gemm_tile_work(const carnot_problem* problem, double* out_flops,
                                double* out_bytes);

// A tactic by functions <kind>_reject, _shape and _run, whose config is a <kind>_config: the
// further arguments are its members. |symbol| and |text| name the tactic.
#define CARNOT_CUDA_GEMM_TILE_TACTIC(kind, symbol, text, height, width, ...) \
  const carnot_tactic carnot_cuda_##symbol##_##height##x##width = {          \
      .name = text "_" #height "x" #width,                                   \
      .anchor = CARNOT_OP_COUNT,                                             \
      .config = &(const kind##_config){__VA_ARGS__},                         \
      .numerics = CARNOT_NUMERICS_EXACT,                                     \
      .device = true,                                                        \
      .reject = kind##_reject,                                               \
      .prepare = carnot_cuda_gemm_tile_prepare,                              \
      .validate = carnot_cuda_gemm_tile_check,                               \
      .uses_input = carnot_cuda_conv_packed_reads,                           \
      .configure = kind##_shape,                                             \
      .run = kind##_run,                                                     \
      .work = carnot_cuda_gemm_tile_work};

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_TILE_COMMON_H_
