// Parameters of the layer, RMS, instance and batch normalization kernels.
#ifndef CARNOT_KERNEL_CUDA_NORM_NORM_PARAMS_H_
#define CARNOT_KERNEL_CUDA_NORM_NORM_PARAMS_H_

#include "kernel/cuda/quantize/byte_result_params.h"

// 16-byte vectors of a thread of kernels by row: rows of up to 1024 times as many.
enum { CARNOT_CUDA_NORM_ROW_PIECES = 2 };

// Groups of |size| elements; y = (x - mean) / sqrt(var + eps) * scale + bias. y is dense. Element i
// of group g has channel: per_element ? i : (g % groups) * (size / spatial) + i / spatial.
typedef struct carnot_cuda_norm_params {
  const void *x, *scale, *bias;  // scale and bias may be NULL
  void *y;
  void *mean_out, *inv_out;  // NULL or results of type float
  long long count, size, spatial, groups;
  long long period;       // per_element: elements after which scale and bias begin again
  long long group_pitch;  // of x: elements from one group to the next
  int row, pitch;         // of x: groups of several rows that are |pitch| apart; 0: dense groups
  float eps;
  int rms, per_element;
  // Of kernels by warp and by vectors: q = quantize(y) by |bytes|, and |y| may be NULL.
  void *q;
  carnot_cuda_byte_result bytes;
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
