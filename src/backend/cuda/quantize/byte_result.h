// Results that kernels of 16-bit floats store as bytes.
#ifndef CARNOT_BACKEND_CUDA_QUANTIZE_BYTE_RESULT_H_
#define CARNOT_BACKEND_CUDA_QUANTIZE_BYTE_RESULT_H_

#include "kernel/cuda/quantize/byte_result_params.h"
#include "tactic/problem/quantized_ends.h"

// The known scale, a normal number, and zero point of a conversion, 0 where it has none: NULL, or
// why not.
const char* carnot_cuda_end_read(const carnot_problem* problem, const carnot_quantized_end* end,
                                 float* out_scale, int* out_zero);
// How output |output| of the step is quantized by |end|: NULL, or why the kernels do not.
const char* carnot_cuda_byte_result_read(const carnot_problem* problem,
                                         const carnot_quantized_end* end, uint32_t output,
                                         carnot_cuda_byte_result* out);
// Whether a stored |result| is of values of |dtype|.
bool carnot_cuda_byte_result_fits(const carnot_cuda_byte_result* result, carnot_dtype dtype);

#endif  // CARNOT_BACKEND_CUDA_QUANTIZE_BYTE_RESULT_H_
