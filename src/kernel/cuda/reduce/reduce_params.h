// Parameters of the reduction kernels.
#ifndef CARNOT_KERNEL_CUDA_REDUCE_REDUCE_PARAMS_H_
#define CARNOT_KERNEL_CUDA_REDUCE_REDUCE_PARAMS_H_

#include "kernel/cuda/common/params.h"

enum { CARNOT_CUDA_COLUMN_THREADS = 512 };  // most threads of a reduction by columns

// y[k] = fn over all r of x[k·kept + r·reduced].
typedef struct carnot_cuda_reduce_params {
  const void* x;
  void* y;
  int fn;      // carnot_cuda_reduction
  int widens;  // of half precision: the results are float
  int kept_rank, reduced_rank;
  long long kept_count, reduced_count;
  long long kept_dims[CARNOT_CUDA_RANK], kept[CARNOT_CUDA_RANK];
  long long reduced_dims[CARNOT_CUDA_RANK], reduced[CARNOT_CUDA_RANK];
  int slice,
      parts;  // by columns: vectors of a block, blocks of a cluster that share the reduced elements
} carnot_cuda_reduce_params;

typedef enum carnot_cuda_reduction {
  CARNOT_CUDA_SUM,
  CARNOT_CUDA_MEAN,
  CARNOT_CUDA_MAX,
  CARNOT_CUDA_MIN,
  CARNOT_CUDA_PROD,
  CARNOT_CUDA_L1,
  CARNOT_CUDA_L2,
  CARNOT_CUDA_LOG_SUM,
  CARNOT_CUDA_LOG_SUM_EXP,
  CARNOT_CUDA_SUM_SQUARE,
} carnot_cuda_reduction;

#endif  // CARNOT_KERNEL_CUDA_REDUCE_REDUCE_PARAMS_H_
