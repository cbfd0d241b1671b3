// Parameters of the mean of NHWC bytes (tactic/problem/quantized_mean.h).
#ifndef CARNOT_KERNEL_CUDA_REDUCE_MEAN_BYTES_PARAMS_H_
#define CARNOT_KERNEL_CUDA_REDUCE_MEAN_BYTES_PARAMS_H_

// x [images, pixels, channels] to y [images, channels]; channels a multiple of 4. The grid is
// (channels / 32, images), rounded up.
typedef struct carnot_cuda_mean_bytes_params {
  const void* x;
  void* y;
  int images, pixels, channels;
  int x_zero, y_zero, y_signed;
  float scale;
} carnot_cuda_mean_bytes_params;

enum { CARNOT_CUDA_MEAN_BYTES_CHANNELS = 32, CARNOT_CUDA_MEAN_BYTES_THREADS = 1024 };

#endif  // CARNOT_KERNEL_CUDA_REDUCE_MEAN_BYTES_PARAMS_H_
