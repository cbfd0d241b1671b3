// Element types that kernels are instantiated for: X(type in device code, dtype, argument).
// Included by the kernel lists (*.def) and by host code, which builds its tables of kernels by
// dtype from them.
#ifndef CARNOT_KERNEL_CUDA_COMMON_KERNEL_TYPES_H_
#define CARNOT_KERNEL_CUDA_COMMON_KERNEL_TYPES_H_

#define CARNOT_CUDA_HALF_TYPES(X, argument) X(f16, F16, argument) X(bf16, BF16, argument)
#define CARNOT_CUDA_FLOAT_TYPES(X, argument) \
  X(f32, F32, argument) CARNOT_CUDA_HALF_TYPES(X, argument)
#define CARNOT_CUDA_REAL_TYPES(X, argument) \
  CARNOT_CUDA_FLOAT_TYPES(X, argument) X(f64, F64, argument)

#endif  // CARNOT_KERNEL_CUDA_COMMON_KERNEL_TYPES_H_
