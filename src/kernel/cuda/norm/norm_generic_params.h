// Parameters of the generic normalization kernels.
#ifndef CARNOT_KERNEL_CUDA_NORM_NORM_GENERIC_PARAMS_H_
#define CARNOT_KERNEL_CUDA_NORM_NORM_GENERIC_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// Layer, RMS, group and instance normalization of any types: groups of |size| elements. Scale and
// bias by the distances of a broadcast over |dims|, or by channel.
typedef struct carnot_cuda_norm_generic_params {
  carnot_cuda_generic_io io;
  long long size, spatial, channels;
  int rms, per_element, rank;
  long long dims[CARNOT_CUDA_RANK], scale_s[CARNOT_CUDA_RANK], bias_s[CARNOT_CUDA_RANK];
  double epsilon;
} carnot_cuda_norm_generic_params;

// Batch normalization by the batch, or by given numbers: x [images, channels, size].
typedef struct carnot_cuda_batch_norm_generic_params {
  carnot_cuda_generic_io io;
  long long images, channels, size;
  int given;
  double epsilon, momentum;
} carnot_cuda_batch_norm_generic_params;

#endif  // CARNOT_KERNEL_CUDA_NORM_NORM_GENERIC_PARAMS_H_
