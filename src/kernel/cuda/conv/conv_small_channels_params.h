// Parameters of the convolutions that read few channels: stem layers and small 1x1 convolutions.
#ifndef CARNOT_KERNEL_CUDA_CONV_CONV_SMALL_CHANNELS_PARAMS_H_
#define CARNOT_KERNEL_CUDA_CONV_CONV_SMALL_CHANNELS_PARAMS_H_

#include "kernel/cuda/common/activation.h"
#include "kernel/cuda/quantize/int8_epilogue_params.h"

enum {
  CARNOT_CUDA_CONV_STEM_THREADS = 128,
  CARNOT_CUDA_CONV_STEM_TILE = 128,  // most results of a tile
  CARNOT_CUDA_CONV_STEM_PATCH = 896  // most pixels of a patch
};
// Blocks on a multiprocessor, by the chunks of 32 filters that each computes.
#define CARNOT_CUDA_CONV_STEM_BLOCKS(chunks) ((chunks) == 1 ? 4 : 3)
// clang-format off
// X(type of y, type of x, chunks, groups of four columns of the window) of each kernel.
#define CARNOT_CUDA_CONV_STEM_SIZES(X, T, U) \
  X(T, U, 1, 1) X(T, U, 1, 2) X(T, U, 1, 3) X(T, U, 2, 1) X(T, U, 2, 2) X(T, U, 2, 3)
#define CARNOT_CUDA_CONV_STEMS(X) \
  CARNOT_CUDA_CONV_STEM_SIZES(X, f16, f32) CARNOT_CUDA_CONV_STEM_SIZES(X, f16, f16) \
  CARNOT_CUDA_CONV_STEM_SIZES(X, bf16, f32) CARNOT_CUDA_CONV_STEM_SIZES(X, bf16, bf16)
// clang-format on

// y[n,p,q,f] = activation(sum over taps and channels of x w + bias[f]) with up to four channels.
// x: any strides; y: NHWC, 16-bit floats; weights packed as in conv_small_channels.cuh. A block
// computes tiles of the output, each from a patch of x.
typedef struct carnot_cuda_conv_stem_params {
  const void *x, *w, *bias;  // bias may be NULL
  void* y;
  long long x_n;
  int x_c, x_row, x_column, channels, filters;
  int in_rows, in_columns, out_rows, out_columns;
  int kernel[2], step[2], begin[2];
  int tile_rows, tile_columns, patch_rows, patch_columns;
  int tiles_down, tiles_across, tiles;  // of an image; of all
  int activation;                       // carnot_cuda_activation
  float low, high;
} carnot_cuda_conv_stem_params;

// The same of bytes: x in planes, y NHWC bytes. Weights are chunks of 32 filters, filter rows of
// eight columns, in the order of the B fragments of the integer mma: lane 4g + t holds, of columns
// t and t + 4, four channels each, of the filters that conv_small_channels.cuh names. bias,
// activation, low and high of |stem| are unused.
typedef struct carnot_cuda_conv_stem_int8_params {
  carnot_cuda_conv_stem_params stem;
  int x_zero;
  carnot_cuda_int8_epilogue epilogue;  // of form REQUANTIZE
} carnot_cuda_conv_stem_int8_params;
// X(chunks, type of x) of each kernel.
#define CARNOT_CUDA_CONV_STEMS_INT8(X) X(1, u8) X(1, i8) X(2, u8) X(2, i8)

// y[m,n] = activation(sum_k x[m,k] w[n,k] + bias[n] + residual[m,n]) of 16-bit floats with small
// K; weights packed as in conv_small_channels.cuh. Rows of x and y are |x_pitch| and |y_pitch|
// elements apart, multiples of 8; the residual is dense.
typedef struct carnot_cuda_conv1x1_small_params {
  const void *x, *w, *bias, *residual;  // bias and residual may be NULL
  void* y;
  int rows, channels, filters, x_pitch, y_pitch;
  int activation;
  float low, high;
} carnot_cuda_conv1x1_small_params;

// clang-format off
enum { CARNOT_CUDA_CONV1X1_SMALL_THREADS = 256 };
// X(channels / 32, blocks on a multiprocessor) of each kernel.
#define CARNOT_CUDA_CONV1X1_SMALL_SIZES(X) X(1, 3) X(2, 3) X(3, 2) X(4, 2)
// Bytes of packed weights: chunks of 32 filters, steps of 16 along K.
#define CARNOT_CUDA_PACKED_CHUNK_BYTES(chunks, steps) ((chunks) * (steps) * 1024)
// clang-format on

#endif  // CARNOT_KERNEL_CUDA_CONV_CONV_SMALL_CHANNELS_PARAMS_H_
