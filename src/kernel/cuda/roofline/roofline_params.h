// Parameters of the device microbenchmarks.
#ifndef CARNOT_KERNEL_CUDA_ROOFLINE_ROOFLINE_PARAMS_H_
#define CARNOT_KERNEL_CUDA_ROOFLINE_ROOFLINE_PARAMS_H_

// |rounds| of multiply-adds in registers, which never write |out|, or of copies from its second
// half to its first.
typedef struct carnot_cuda_roofline_params {
  float* out;
  int rounds;
} carnot_cuda_roofline_params;

#endif  // CARNOT_KERNEL_CUDA_ROOFLINE_ROOFLINE_PARAMS_H_
