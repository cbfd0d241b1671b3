// Parameters of the NHWC group normalization kernels.
#ifndef CARNOT_KERNEL_CUDA_NORM_GROUP_NORM_PARAMS_H_
#define CARNOT_KERNEL_CUDA_NORM_GROUP_NORM_PARAMS_H_

#include "kernel/cuda/common/activation.h"

// Most threads of a block; 16-byte vectors that a thread keeps in the first of two passes; most
// channels of a slice.
enum {
  CARNOT_CUDA_GROUP_THREADS = 512,
  CARNOT_CUDA_GROUP_KEEP = 8,
  CARNOT_CUDA_GROUP_SLICE = 1024
};

// NHWC group normalization of 16-bit floats, x and y [n, pixels, channels] dense, by slices of
// whole groups. One pass: the |parts| blocks of a cluster load a slice of an image once and keep
// it. Two passes: |parts| blocks write count, mean and sum of squared differences of each group,
// and as many of a second kernel apply them.
typedef struct carnot_cuda_group_norm_params {
  const void *x, *scale, *bias;  // scale and bias may be NULL
  void* y;
  float* partial;  // two passes: [n, groups, parts, 3]
  long long pixels;
  int channels, groups, slice, parts, per_part;  // channels of a slice, pixels of a part
  int images, kept;  // kept: one pass: 16-byte vectors that a thread keeps
  float eps;
  int activation;  // carnot_cuda_activation
} carnot_cuda_group_norm_params;

#endif  // CARNOT_KERNEL_CUDA_NORM_GROUP_NORM_PARAMS_H_
