// The operands of the GEMMs and convolutions of 8-bit integers by TMA (sm_90).
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_INT8_OPERANDS_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_INT8_OPERANDS_H_

#include "backend/cuda/gemm/gemm_int8_common.h"
#include "backend/cuda/gemm/tma_descriptor.h"

// NULL, or why TMA does not load x as the convolution reads it, or bytes of the result.
const char* carnot_cuda_gemm_int8_unfit(const carnot_cuda_gemm_int8* p);
// The same of the window of |problem|, whose region is |view|, and of the device.
const char* carnot_cuda_gemm_int8_window_reject(const carnot_problem* problem,
                                                const carnot_quantized_region* view,
                                                const carnot_cuda_gemm_int8* p);
// Channels of a box that channels fill: 128, else 64, of which less is zero fill.
int carnot_cuda_gemm_int8_pitch(int64_t channels);
// Whether a step of |taps| is more than a GEMM of rows, and if so, UNSUPPORTED unless its windows
// are within the reach of TMA.
carnot_status* carnot_cuda_gemm_int8_window(const carnot_cuda_gemm_tile_params* params, int taps,
                                            bool* out_is_window) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_INT8_OPERANDS_H_
