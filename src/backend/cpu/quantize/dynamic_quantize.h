// Quantization of float32 to uint8 by the range that a run finds.
#ifndef CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_QUANTIZE_H_
#define CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_QUANTIZE_H_

#include "backend/cpu/common/cpu.h"
#include "kernel/cpu/pointwise/convert.h"

// Bytes of workspace for |count| elements.
size_t carnot_dynamic_quantize_workspace(int64_t count);
// |count| dense elements of |x| -> |y|, with their scale and zero point, as DynamicQuantizeLinear
// gives them. NaN counts for no range.
void carnot_dynamic_quantize(const carnot_cpu_kernels* kernels, const float* x, int64_t count,
                             void* workspace, carnot_executor* executor, uint8_t* y, float* scale,
                             uint8_t* zero);
// The scale and zero point of elements in |range| [2], which holds 0.
void carnot_dynamic_scale(const float* range, float* scale, uint8_t* zero);
// |rows| rows of |quantize->n| elements of |x|, |x_ld| apart -> |y|, |y_ld| apart.
void carnot_dynamic_quantize_rows(const carnot_cpu_kernels* kernels,
                                  const carnot_quantize* quantize, int64_t rows, const float* x,
                                  int64_t x_ld, uint8_t* y, int64_t y_ld,
                                  carnot_executor* executor);

#endif  // CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_QUANTIZE_H_
