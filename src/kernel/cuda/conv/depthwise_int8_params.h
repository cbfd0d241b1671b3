// Parameters of the NHWC depthwise convolution of 8-bit integers.
#ifndef CARNOT_KERNEL_CUDA_CONV_DEPTHWISE_INT8_PARAMS_H_
#define CARNOT_KERNEL_CUDA_CONV_DEPTHWISE_INT8_PARAMS_H_

#include "kernel/cuda/quantize/int8_epilogue_params.h"

// x of uint8 or int8, weights int8, sums int32; eight channels per thread. Weights are words of
// four adjacent taps of a filter row, [kernel[0], ceil(kernel[1] / 4), channels], zero beyond the
// row. Outside of the image x has its zero point.
typedef struct carnot_cuda_depthwise_int8_params {
  const void *x, *w;
  void* y;
  long long count;  // n * rows * columns * channels / 8
  unsigned images;
  int channels, rows, columns, in_rows, in_columns;
  int kernel[2], step[2], dilation[2], begin[2];
  int x_zero;
  carnot_cuda_int8_epilogue epilogue;
} carnot_cuda_depthwise_int8_params;

// X(kernel, step, results per thread) of the kernels for square windows without dilation.
#define CARNOT_CUDA_DEPTHWISE_INT8_SPANS(X) \
  X(3, 1, 1) X(3, 1, 4) X(3, 2, 1) X(3, 2, 4) X(5, 1, 1) X(5, 1, 4) X(5, 2, 1) X(5, 2, 4)

#endif  // CARNOT_KERNEL_CUDA_CONV_DEPTHWISE_INT8_PARAMS_H_
