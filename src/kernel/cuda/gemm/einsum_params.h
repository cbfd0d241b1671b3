// Parameters of the generic Einsum.
#ifndef CARNOT_KERNEL_CUDA_GEMM_EINSUM_PARAMS_H_
#define CARNOT_KERNEL_CUDA_GEMM_EINSUM_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// y[kept] = sum over |summed| of the product of all operands; strides may be 0.
typedef struct carnot_cuda_einsum_params {
  carnot_cuda_generic_io io;
  int operands, kept_rank, summed_rank;
  long long kept[CARNOT_CUDA_RANK], summed[CARNOT_CUDA_RANK], summed_count;
  long long kept_s[3][CARNOT_CUDA_RANK], summed_s[3][CARNOT_CUDA_RANK];
} carnot_cuda_einsum_params;

#endif  // CARNOT_KERNEL_CUDA_GEMM_EINSUM_PARAMS_H_
