// Quantization of float32 to uint8 by the range that a run finds.
#ifndef CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_QUANTIZE_H_
#define CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_QUANTIZE_H_

#include "backend/cpu/common/cpu.h"

// Bytes of workspace for |count| elements.
size_t carnot_dynamic_quantize_workspace(int64_t count);
// |count| dense elements of |x| -> |y|, with their scale and zero point, as DynamicQuantizeLinear
// gives them. NaN counts for no range.
void carnot_dynamic_quantize(const carnot_cpu_kernels* kernels, const float* x, int64_t count,
                             void* workspace, carnot_executor* executor, uint8_t* y, float* scale,
                             uint8_t* zero);

#endif  // CARNOT_BACKEND_CPU_QUANTIZE_DYNAMIC_QUANTIZE_H_
