// Parameters of the NHWC depthwise convolution of 8-bit integers.
#ifndef CARNOT_KERNEL_CUDA_CONV_DEPTHWISE_INT8_PARAMS_H_
#define CARNOT_KERNEL_CUDA_CONV_DEPTHWISE_INT8_PARAMS_H_

#include "kernel/cuda/quantize/int8_epilogue_params.h"

// x of uint8 or int8, weights [taps, channels] of int8, sums int32; eight channels per thread.
// Outside of the image x has its zero point.
typedef struct carnot_cuda_depthwise_int8_params {
  const void *x, *w;
  void* y;
  long long count;  // n * rows * columns * channels / 8
  int channels, rows, columns, in_rows, in_columns;
  int kernel[2], step[2], dilation[2], begin[2];
  int x_zero;
  carnot_cuda_int8_epilogue epilogue;
} carnot_cuda_depthwise_int8_params;

// X(kernel): kernels for square windows of this size without dilation; 0: any window.
#define CARNOT_CUDA_DEPTHWISE_INT8_KERNELS(X) X(0) X(3) X(5)

#endif  // CARNOT_KERNEL_CUDA_CONV_DEPTHWISE_INT8_PARAMS_H_
