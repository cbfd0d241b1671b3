// A tensor map of the Tensor Memory Accelerator, as kernels take it.
#ifndef CARNOT_KERNEL_CUDA_COMMON_TMA_DESCRIPTOR_H_
#define CARNOT_KERNEL_CUDA_COMMON_TMA_DESCRIPTOR_H_

// As the driver makes it.
typedef struct carnot_cuda_tma_descriptor {
  unsigned long long bits[16];
} __attribute__((aligned(64))) carnot_cuda_tma_descriptor;

#endif  // CARNOT_KERNEL_CUDA_COMMON_TMA_DESCRIPTOR_H_
