// Parameters of the kernels that copy elements.
#ifndef CARNOT_KERNEL_CUDA_COPY_COPY_PARAMS_H_
#define CARNOT_KERNEL_CUDA_COPY_COPY_PARAMS_H_

#include "kernel/cuda/common/params.h"

// y[i·dst] = x[i·src] for every position i of |dims|; kernels copy_<bytes of an element>.
typedef struct carnot_cuda_copy_params {
  const void* x;
  void* y;
  long long count;
  int rank;
  long long dims[CARNOT_CUDA_RANK], src[CARNOT_CUDA_RANK], dst[CARNOT_CUDA_RANK];
} carnot_cuda_copy_params;

// As a copy along |rank| dimensions of y, but positions outside x (shifted by |begin|) give |value|
// (mode 0), the nearest (1), the mirrored (2) or the wrapped (3) element.
typedef struct carnot_cuda_pad_params {
  const void* x;
  void* y;
  const void* value;  // NULL: zero bits
  long long count;
  int rank, mode;
  long long dims[CARNOT_CUDA_RANK], begin[CARNOT_CUDA_RANK], size[CARNOT_CUDA_RANK],
      src[CARNOT_CUDA_RANK];
} carnot_cuda_pad_params;

#endif  // CARNOT_KERNEL_CUDA_COPY_COPY_PARAMS_H_
