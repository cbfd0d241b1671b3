// Parameters of the generic causal convolution.
#ifndef CARNOT_KERNEL_CUDA_CONV_CAUSAL_CONV_PARAMS_H_
#define CARNOT_KERNEL_CUDA_CONV_CAUSAL_CONV_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// y[row, t] = sum_j w[c, j] s[row, t + j], s: the |taps| - 1 elements of the state followed by
// x.
typedef struct carnot_cuda_causal_conv_params {
  carnot_cuda_generic_io io;
  long long length, taps, channels;
  int silu;
} carnot_cuda_causal_conv_params;

#endif  // CARNOT_KERNEL_CUDA_CONV_CAUSAL_CONV_PARAMS_H_
