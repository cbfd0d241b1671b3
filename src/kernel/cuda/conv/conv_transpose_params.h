// Parameters of the generic transposed convolution.
#ifndef CARNOT_KERNEL_CUDA_CONV_CONV_TRANSPOSE_PARAMS_H_
#define CARNOT_KERNEL_CUDA_CONV_CONV_TRANSPOSE_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// y[.., o] = sum over taps and channels of the group; x [n, channels, in..], w [channels, filters /
// groups, kernel..].
typedef struct carnot_cuda_conv_transpose_params {
  carnot_cuda_generic_io io;
  long long channels, filters, groups, in[3], out[3], kernel[3], step[3], dilation[3], begin[3];
} carnot_cuda_conv_transpose_params;

#endif  // CARNOT_KERNEL_CUDA_CONV_CONV_TRANSPOSE_PARAMS_H_
