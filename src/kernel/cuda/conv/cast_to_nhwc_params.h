// Parameters of the cast in front of a convolution.
#ifndef CARNOT_KERNEL_CUDA_CONV_CAST_TO_NHWC_PARAMS_H_
#define CARNOT_KERNEL_CUDA_CONV_CAST_TO_NHWC_PARAMS_H_

#include "kernel/cuda/common/params.h"

// y[n,p,q,c] = x[n,c,p,q] as a half; x of any strides. |count| pixels.
typedef struct carnot_cuda_cast_to_nhwc_params {
  const void* x;
  void* y;
  long long count, channels, x_c;
  long long dims[CARNOT_CUDA_RANK], src[CARNOT_CUDA_RANK];  // n and spatial axes
  int rank;
} carnot_cuda_cast_to_nhwc_params;

#endif  // CARNOT_KERNEL_CUDA_CONV_CAST_TO_NHWC_PARAMS_H_
