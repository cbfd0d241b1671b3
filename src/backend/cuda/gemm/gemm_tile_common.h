// What the tensor core GEMMs with constant weights share: the region (a GEMM or an NHWC convolution
// as implicit GEMM, bias, residual, activation, pointwise chain; or a GEMM of FP8 operands,
// gemm_fp8.h), packed weights, kernel parameters.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_TILE_COMMON_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_TILE_COMMON_H_

#include "backend/cuda/gemm/gemm_tile_step.h"

// NULL, or the reason; sets the layouts that the kernels read. |columns|: of a tile, which groups
// of a convolution are joined to fill; 0: all groups become one.
const char* carnot_cuda_gemm_tile_reject(carnot_problem* problem, int columns,
                                         carnot_cuda_gemm_tile_region* out, char* reason,
                                         size_t size);
carnot_status* carnot_cuda_gemm_tile_prepare(const carnot_problem* problem, int columns,
                                             carnot_prepared* out) CARNOT_MUST_USE;
carnot_status* carnot_cuda_gemm_tile_check(const carnot_step_view* step) CARNOT_MUST_USE;
bool carnot_cuda_gemm_tile_uses_input(const carnot_step_view* step, uint32_t input);
carnot_status* carnot_cuda_gemm_tile_shape(const carnot_step_view* step,
                                           const carnot_operand* inputs,
                                           const carnot_operand* outputs,
                                           carnot_cuda_gemm_tile_step* out) CARNOT_MUST_USE;
// Addresses, before a launch.
void carnot_cuda_gemm_tile_bind(const carnot_step_view* step, const carnot_operand* inputs,
                                const carnot_operand* outputs, carnot_cuda_gemm_tile_step* t);
void carnot_cuda_gemm_tile_work(const carnot_problem* problem, double* out_flops,
                                double* out_bytes);

// A tactic by functions <kind>_reject, _prepare, _shape and _run, whose config is a <kind>_config:
// the further arguments are its members. |symbol| and |text| name the tactic.
#define CARNOT_CUDA_GEMM_TILE_TACTIC(kind, symbol, text, height, width, ...) \
  const carnot_tactic carnot_cuda_##symbol##_##height##x##width = {          \
      .name = text "_" #height "x" #width,                                   \
      .anchor = CARNOT_OP_COUNT,                                             \
      .config = &(const kind##_config){__VA_ARGS__},                         \
      .numerics = CARNOT_NUMERICS_EXACT,                                     \
      .device = true,                                                        \
      .pitched_inputs = 1,                                                   \
      .pitched_outputs = true,                                               \
      .reject = kind##_reject,                                               \
      .prepare = kind##_prepare,                                             \
      .validate = carnot_cuda_gemm_tile_check,                               \
      .uses_input = carnot_cuda_gemm_tile_uses_input,                        \
      .configure = kind##_shape,                                             \
      .run = kind##_run,                                                     \
      .work = carnot_cuda_gemm_tile_work};

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_TILE_COMMON_H_
