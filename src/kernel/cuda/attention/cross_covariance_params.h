// Parameters of cross-covariance attention.
#ifndef CARNOT_KERNEL_CUDA_ATTENTION_CROSS_COVARIANCE_PARAMS_H_
#define CARNOT_KERNEL_CUDA_ATTENTION_CROSS_COVARIANCE_PARAMS_H_

enum { CARNOT_CUDA_CROSS_THREADS = 256, CARNOT_CUDA_CROSS_POSITIONS = 64 };

// x [batch, positions, 3, heads, size], temperature [heads], y [batch, positions, heads, size]. The
// blocks of a head share out its positions.
typedef struct carnot_cuda_cross_covariance_params {
  const void *x, *temperature;
  void* y;
  int batch, positions, heads, size, blocks;  // blocks: of a head
  float epsilon;
} carnot_cuda_cross_covariance_params;
// X(most elements of a head) of each kernel; multiples of 8, at most 64.
#define CARNOT_CUDA_CROSS_SIZES(X) X(16) X(32) X(48) X(64)

#endif  // CARNOT_KERNEL_CUDA_ATTENTION_CROSS_COVARIANCE_PARAMS_H_
