// Limits that the parameter structs of all kernels share. Included by C and by device code.
#ifndef CARNOT_KERNEL_CUDA_COMMON_PARAMS_H_
#define CARNOT_KERNEL_CUDA_COMMON_PARAMS_H_

enum {
  CARNOT_CUDA_RANK = 8,      // most dimensions of a strided operand
  CARNOT_CUDA_THREADS = 256  // threads of a block of kernels that run one thread per element
};

#endif  // CARNOT_KERNEL_CUDA_COMMON_PARAMS_H_
