// Parameters of the layer, RMS, instance and batch normalization kernels.
#ifndef CARNOT_KERNEL_CUDA_NORM_NORM_PARAMS_H_
#define CARNOT_KERNEL_CUDA_NORM_NORM_PARAMS_H_

typedef enum carnot_cuda_norm_quantized {
  CARNOT_CUDA_NORM_FLOAT,  // not quantized
  CARNOT_CUDA_NORM_U8,
  CARNOT_CUDA_NORM_S8,
  CARNOT_CUDA_NORM_FP8,  // E4M3FN
  CARNOT_CUDA_NORM_QUANTIZED
} carnot_cuda_norm_quantized;

// Groups of |size| elements, dense; y = (x - mean) / sqrt(var + eps) * scale + bias.
// Element i of group g has channel: per_element ? i : (g % groups) * (size / spatial) + i /
// spatial.
typedef struct carnot_cuda_norm_params {
  const void *x, *scale, *bias;  // scale and bias may be NULL
  void *y;
  void *mean_out, *inv_out;  // NULL or results of type float
  long long count, size, spatial, groups;
  long long period;  // per_element: elements after which scale and bias begin again
  float eps;
  int rms, per_element;
  // Of kernels by warp: q = quantize(y) in |q_type|, and |y| may be NULL.
  void *q;
  int q_type, q_zero;  // carnot_cuda_norm_quantized; zero point
  float q_scale;
} carnot_cuda_norm_params;

// y = (x - mean[c]) / sqrt(var[c] + eps) * scale[c] + bias[c], x as [n, channels, spatial].
typedef struct carnot_cuda_batch_norm_params {
  const void *x, *scale, *bias, *mean, *var;
  void *y;
  long long count, channels, spatial;
  float eps;
} carnot_cuda_batch_norm_params;

// y = x / max(|x|, eps) of |count| dense rows of |size| elements; 0 where that is 0.
typedef struct carnot_cuda_l2_norm_params {
  const void *x;
  void *y;
  long long count, size;
  float eps;
} carnot_cuda_l2_norm_params;

#endif  // CARNOT_KERNEL_CUDA_NORM_NORM_PARAMS_H_
