// GEMM regions as cuBLASLt describes them, and the choice of its algorithm.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_CUBLASLT_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_CUBLASLT_H_

#include "backend/cuda/gemm/gemm_batches.h"
#include "backend/cuda/gemm/gemm_epilogue.h"
#include "backend/cuda/library/cublaslt.h"

// The library's activation of an epilogue; NONE where it has none. cuBLASLt's GELU is the tanh
// form, at most 4.8e-4 from the exact one: less than 16-bit rounding at magnitude 1. So 16-bit
// results use it for both forms.
carnot_cuda_cublaslt_activation carnot_cuda_gemm_cublaslt_activation(const carnot_cuda_epilogue* e);

// The library's description of the GEMM of |a| and |b| to |y|. |added|: the residual, or NULL.
// |batches| keeps the batch axes that the caller walks by one call each. UNSUPPORTED where these
// are too many.
carnot_status* carnot_cuda_gemm_cublaslt_key(const carnot_gemm_sizes* sizes,
                                             const carnot_cuda_gemm_region* region, bool fast_fp32,
                                             carnot_cuda_gemm_batches* batches,
                                             const carnot_operand* a, const carnot_operand* b,
                                             const carnot_operand* y, const carnot_operand* added,
                                             carnot_cuda_cublaslt_gemm* key) CARNOT_MUST_USE;

// Chooses the fastest algorithm at the optimum sizes. What cannot be timed goes by the library's
// heuristic.
void carnot_cuda_gemm_cublaslt_choose(const carnot_problem* problem,
                                      const carnot_cuda_gemm_region* region,
                                      carnot_cuda_cublaslt_choice* out);

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_CUBLASLT_H_
