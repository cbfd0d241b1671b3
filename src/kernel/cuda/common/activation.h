// Activations that kernels apply in registers.
#ifndef CARNOT_KERNEL_CUDA_COMMON_ACTIVATION_H_
#define CARNOT_KERNEL_CUDA_COMMON_ACTIVATION_H_

typedef enum carnot_cuda_activation {
  CARNOT_CUDA_NO_ACTIVATION,
  CARNOT_CUDA_CLAMP,  // to [low, high]
  CARNOT_CUDA_SILU,
  CARNOT_CUDA_HARD_SWISH,
  CARNOT_CUDA_SIGMOID,
  CARNOT_CUDA_GELU,  // x Phi(x)
  CARNOT_CUDA_GELU_TANH,
  CARNOT_CUDA_HARD_SIGMOID,  // low x + high to [0, 1]
} carnot_cuda_activation;

#endif  // CARNOT_KERNEL_CUDA_COMMON_ACTIVATION_H_
