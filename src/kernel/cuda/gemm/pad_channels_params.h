// Parameters of the kernel that pads the channels of NHWC bytes.
#ifndef CARNOT_KERNEL_CUDA_GEMM_PAD_CHANNELS_PARAMS_H_
#define CARNOT_KERNEL_CUDA_GEMM_PAD_CHANNELS_PARAMS_H_

// y[row, c] = x[row, c] for c < channels, 0 up to |padded|, a multiple of 4.
typedef struct carnot_cuda_pad_channels_params {
  const void* x;    // [rows, channels]
  void* y;          // [rows, padded]
  long long count;  // rows * padded / 4
  int channels, padded;
} carnot_cuda_pad_channels_params;

#endif  // CARNOT_KERNEL_CUDA_GEMM_PAD_CHANNELS_PARAMS_H_
