// Parameters of the gather kernels.
#ifndef CARNOT_KERNEL_CUDA_GATHER_GATHER_PARAMS_H_
#define CARNOT_KERNEL_CUDA_GATHER_GATHER_PARAMS_H_

#include "kernel/cuda/common/params.h"

// y[o,i,n] = x[o, index[i], n], negative indices from the end, those outside give 0.
typedef struct carnot_cuda_gather_params {
  const void *x, *index;
  void* y;
  long long outer, count, inner, size;
  int index_bytes;  // 4 or 8
} carnot_cuda_gather_params;

// y[b, q, n] = x[b, index[b, q, ..], n], |depth| indices a query, negative ones from the end; those
// outside give 0.
typedef struct carnot_cuda_gather_nd_params {
  const void* x;
  const long long* index;
  void* y;
  long long count, queries, inner,
      batch;  // of all results, a batch, a slice; elements of x a batch
  int depth;
  long long dims[CARNOT_CUDA_RANK];
} carnot_cuda_gather_nd_params;

#endif  // CARNOT_KERNEL_CUDA_GATHER_GATHER_PARAMS_H_
