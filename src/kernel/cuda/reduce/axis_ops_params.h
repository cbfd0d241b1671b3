// Parameters of the generic kernels over one axis.
#ifndef CARNOT_KERNEL_CUDA_REDUCE_AXIS_OPS_PARAMS_H_
#define CARNOT_KERNEL_CUDA_REDUCE_AXIS_OPS_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// Slices of |length| elements |inner| apart.
typedef struct carnot_cuda_axis_params {
  carnot_cuda_generic_io io;
  long long length, inner;
  long long k;                      // top_k: how many
  int largest, last;                // arg_reduce, top_k: the largest; of equal ones the last
  int product, exclusive, reverse;  // cumulative
  int power;                        // lp_norm: 1 or 2
  double epsilon;                   // lp_norm: the least norm
  long long size;                   // lrn: neighbours
  double alpha, beta, bias;
  int rank;  // cumulative along the axis that input 1 names: of x
  long long dims[CARNOT_CUDA_RANK];
} carnot_cuda_axis_params;

#endif  // CARNOT_KERNEL_CUDA_REDUCE_AXIS_OPS_PARAMS_H_
