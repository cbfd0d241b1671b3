// Parameters of the linear recurrence.
#ifndef CARNOT_KERNEL_CUDA_RECURRENT_LINEAR_SCAN_PARAMS_H_
#define CARNOT_KERNEL_CUDA_RECURRENT_LINEAR_SCAN_PARAMS_H_

// y[t] = a[t] y[t-1] + b[t] of [lanes / inner, steps, inner], y[-1] = initial [lanes].
typedef struct carnot_cuda_linear_scan_params {
  const void *a, *b, *initial;
  void* y;
  long long lanes, inner;
  int steps;
} carnot_cuda_linear_scan_params;

#endif  // CARNOT_KERNEL_CUDA_RECURRENT_LINEAR_SCAN_PARAMS_H_
