// Parameters of the NHWC depthwise convolution.
#ifndef CARNOT_KERNEL_CUDA_CONV_DEPTHWISE_PARAMS_H_
#define CARNOT_KERNEL_CUDA_CONV_DEPTHWISE_PARAMS_H_

#include "kernel/cuda/common/activation.h"

// NHWC depthwise convolution of 16-bit floats, weights [taps, channels]; eight channels per
// thread, or two. Pixels of x and y are |x_pitch| and |y_pitch| elements apart, multiples of as
// many.
typedef struct carnot_cuda_depthwise_params {
  const void *x, *w, *bias;  // bias may be NULL
  void* y;
  long long count;  // n * rows * columns * channels / 8
  unsigned images;
  int channels, x_pitch, y_pitch, rows, columns, in_rows, in_columns;
  int kernel[2], step[2], dilation[2], begin[2];
  int activation;
  float low, high;
  int tile_rows, spans;  // tiles: rows of a block's results, and warps along a row
} carnot_cuda_depthwise_params;

// X(kernel, step, results per thread) of the kernels for square windows.
#define CARNOT_CUDA_DEPTHWISE_SPANS(X) \
  X(3, 1, 1) X(3, 1, 4) X(3, 2, 1) X(3, 2, 4) X(5, 1, 1) X(5, 1, 4) X(5, 2, 1) X(5, 2, 4)

// Tiles: channels of a block, results of a warp in a row.
enum { CARNOT_CUDA_DEPTHWISE_CHANNELS = 64, CARNOT_CUDA_DEPTHWISE_SPAN = 4 };
// X(columns of the window, step of its columns) of the kernels by tiles; rows are of any number.
#define CARNOT_CUDA_DEPTHWISE_TILES(X) \
  X(1, 1) X(3, 1) X(3, 2) X(5, 1) X(5, 2) X(7, 1) X(7, 2) X(9, 1) X(9, 2) X(11, 1) X(11, 2)

#endif  // CARNOT_KERNEL_CUDA_CONV_DEPTHWISE_PARAMS_H_
