// Parameters of the kernels whose elements follow from their position.
#ifndef CARNOT_KERNEL_CUDA_GENERATORS_GENERATORS_PARAMS_H_
#define CARNOT_KERNEL_CUDA_GENERATORS_GENERATORS_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// Elements that follow from their position: one value, triangles, one-hot rows, ranges,
// diagonals, reversed sequences.
typedef struct carnot_cuda_generator_params {
  carnot_cuda_generic_io io;
  long long rows, columns, inner, k;
  int flag;  // trilu: upper; reverse_sequence: time is the second axis
  double start, delta;
  long long start_int, delta_int;
  unsigned long long bits;  // fill: of the value
} carnot_cuda_generator_params;

#endif  // CARNOT_KERNEL_CUDA_GENERATORS_GENERATORS_PARAMS_H_
