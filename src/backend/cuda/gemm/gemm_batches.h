// Sizes and batch axes of a GEMM when shapes are set.
#ifndef CARNOT_BACKEND_CUDA_GEMM_GEMM_BATCHES_H_
#define CARNOT_BACKEND_CUDA_GEMM_GEMM_BATCHES_H_

#include "backend/cuda/common/tactic.h"
#include "tactic/problem/gemm.h"

// The batch axes of the result with the strides of A, B and the result, in elements; axes that all
// three walk as one are joined.
typedef struct carnot_cuda_gemm_batches {
  int rank;
  int64_t dims[CARNOT_MAX_RANK], a[CARNOT_MAX_RANK], b[CARNOT_MAX_RANK], c[CARNOT_MAX_RANK];
} carnot_cuda_gemm_batches;

// Sizes of the matrices of |a| and |b|, checked against the result |y|. INVALID_ARGUMENT where they
// do not fit.
carnot_status* carnot_cuda_gemm_sizes_of(const carnot_gemm_problem* problem,
                                         const carnot_operand* a, const carnot_operand* b,
                                         const carnot_operand* y,
                                         carnot_gemm_sizes* out) CARNOT_MUST_USE;
// The batch axes of these operands. INVALID_ARGUMENT where they do not broadcast.
carnot_status* carnot_cuda_gemm_batches_of(const carnot_operand* a, const carnot_operand* b,
                                           const carnot_operand* y, const carnot_gemm_sizes* sizes,
                                           carnot_cuda_gemm_batches* out) CARNOT_MUST_USE;

#endif  // CARNOT_BACKEND_CUDA_GEMM_GEMM_BATCHES_H_
