// Parameters of kernels that slide a window over up to three spatial dimensions.
#ifndef CARNOT_KERNEL_CUDA_COMMON_SLIDING_WINDOW_H_
#define CARNOT_KERNEL_CUDA_COMMON_SLIDING_WINDOW_H_

// Windows over up to three spatial dimensions, any strides.
typedef struct carnot_cuda_sliding_window {
  const void *x, *w, *bias;
  void* y;
  long long n, channels, filters, groups;  // pooling: filters = channels
  long long in[3], out[3], kernel[3], step[3], dilation[3], begin[3], end[3];
  long long x_n, x_c, x_s[3], y_n, y_c, y_s[3];
  int average, count_padding;
  int power;           // pooling: of the norm over a window; 0: none
  long long* indices;  // of the maxima, flat over [n, channels, in..]; NULL: not required
  int column_major;    // the indices count spatial dimensions in column-major order
} carnot_cuda_sliding_window;

#endif  // CARNOT_KERNEL_CUDA_COMMON_SLIDING_WINDOW_H_
