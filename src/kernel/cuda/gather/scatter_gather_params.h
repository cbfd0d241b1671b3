// Parameters of the generic kernels whose element positions are data.
#ifndef CARNOT_KERNEL_CUDA_GATHER_SCATTER_GATHER_PARAMS_H_
#define CARNOT_KERNEL_CUDA_GATHER_SCATTER_GATHER_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// in [x, index, updates] or [x, index]; |dims| of the index, |stride| of x.
typedef struct carnot_cuda_gather_elements_params {
  carnot_cuda_generic_io io;
  int rank, axis, reduction;  // carnot_cuda_scatter_reduction
  long long size, dims[CARNOT_CUDA_RANK], stride[CARNOT_CUDA_RANK];
} carnot_cuda_gather_elements_params;

typedef enum carnot_cuda_scatter_reduction {
  CARNOT_CUDA_KEEP,
  CARNOT_CUDA_ADD,
  CARNOT_CUDA_MUL,
  CARNOT_CUDA_HIGH,
  CARNOT_CUDA_LOW,
} carnot_cuda_scatter_reduction;

// Rows of |inner| updates go where |depth| indices each say.
typedef struct carnot_cuda_scatter_nd_params {
  carnot_cuda_generic_io io;
  int depth, reduction;
  long long rows, inner, dims[CARNOT_CUDA_RANK];
} carnot_cuda_scatter_nd_params;

// A cache [.., before, inner] becomes [.., size, inner] and takes |steps| of updates at the index
// of each sample of |per_sample|. |inner| counts chunks of |chunk| elements: 16 bytes, or 1.
typedef struct carnot_cuda_tensor_scatter_params {
  carnot_cuda_generic_io io;
  long long size, before, steps, inner, per_sample;
  int circular, chunk;
} carnot_cuda_tensor_scatter_params;

#endif  // CARNOT_KERNEL_CUDA_GATHER_SCATTER_GATHER_PARAMS_H_
