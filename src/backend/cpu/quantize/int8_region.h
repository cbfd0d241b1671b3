// What the CPU's integer tactics share: quantized regions (tactic/problem/quantized.h) in the form
// that kernels take them, stored in engines.
#ifndef CARNOT_BACKEND_CPU_QUANTIZE_INT8_REGION_H_
#define CARNOT_BACKEND_CPU_QUANTIZE_INT8_REGION_H_

#include "backend/cpu/common/cpu.h"
#include "backend/cpu/quantize/int8_kernel.h"
#include "kernel/cpu/common/epilogue_int8.h"
#include "tactic/problem/quantized.h"

// Stored in engines.
typedef struct carnot_int8_region {
  int32_t x, residual;  // inputs of the step; residual -1: none
  int32_t x_zero, x_signed;
  int32_t residual_type, residual_zero;  // carnot_int8_residual
  float residual_scale;
  int32_t offset;  // of a GEMM behind the inner quantization; likewise
  int32_t is_twice, inner_zero, inner_low, inner_high;
  float inner_scale;
  float inner_factor, residual_factor;  // 0: not found, see carnot_quantized_find_factors
  int32_t activation;                   // carnot_kernel_activation
  float a, b;
  int32_t output;  // carnot_int8_output
  float divisor;
  int32_t zero_point, low, high;
  int32_t is_small;  // set by prepare
} carnot_int8_region;

// Constants of a prepared step.
enum { CARNOT_INT8_WEIGHTS, CARNOT_INT8_BIAS, CARNOT_INT8_SCALES, CARNOT_INT8_CONSTANTS };

// Reads the region of |problem| for reject and prepare, and checks that weights and sums fit.
// |channel_axis| as in carnot_quantized_read. NULL, or the reason; "" for other regions.
const char* carnot_int8_region_read(const carnot_problem* problem, int channel_axis,
                                    const carnot_quantized_shape* weights,
                                    carnot_quantized_region* view, carnot_int8_region* out,
                                    char* reason, size_t size);
// The weights less their zero points go to |centered| (as many as the weights); constants BIAS and
// SCALES of |out| are made, the zero point of x and |shift| (what the kernel adds to it) taken off
// the bias.
carnot_status* carnot_int8_region_prepare(const carnot_problem* problem,
                                          const carnot_quantized_region* view,
                                          carnot_int8_region* region,
                                          const carnot_quantized_shape* weights, int32_t shift,
                                          int8_t* centered, carnot_prepared* out) CARNOT_MUST_USE;

// Checks the stored region and constants BIAS and SCALES of a step. INVALID_MODEL.
carnot_status* carnot_int8_region_validate(const carnot_int8_region* region,
                                           const carnot_step_view* step,
                                           int64_t channels) CARNOT_MUST_USE;
// Checks types, and the sizes and rows of the residual. INVALID_MODEL, INVALID_ARGUMENT.
carnot_status* carnot_int8_region_configure(const carnot_int8_region* region, int channel_axis,
                                            const carnot_operand* inputs,
                                            const carnot_operand* output) CARNOT_MUST_USE;
// Whether the epilogue reads elements of input |input|.
static inline bool carnot_int8_region_uses(const carnot_int8_region* region, uint32_t input) {
  return (int64_t)input == region->residual || (int64_t)input == region->offset;
}
// Whether the result may lie where the residual, input |input|, does: each element is read before
// it is written. For kernels that store each tile once.
bool carnot_int8_region_may_share(const carnot_int8_region* region, const carnot_step_view* step,
                                  uint32_t input, uint32_t output);
// The epilogue of a kernel call; borrows the step's constants and the residual of |inputs|.
carnot_int8_epilogue carnot_int8_region_epilogue(const carnot_int8_region* region, int channel_axis,
                                                 const carnot_step_view* step,
                                                 const carnot_operand* inputs);
// Operations of the GEMM or convolution, and bytes of operands and result.
void carnot_int8_region_work(const carnot_problem* problem, double* out_flops, double* out_bytes);

#endif  // CARNOT_BACKEND_CPU_QUANTIZE_INT8_REGION_H_
