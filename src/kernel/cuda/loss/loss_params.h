// Parameters of the generic loss kernel.
#ifndef CARNOT_KERNEL_CUDA_LOSS_LOSS_PARAMS_H_
#define CARNOT_KERNEL_CUDA_LOSS_LOSS_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// Scores [.., classes, size], a target for each of |positions|.
typedef struct carnot_cuda_loss_params {
  carnot_cuda_generic_io io;
  long long positions, classes, size, ignored;
  int softmax, ignores, none, mean;
} carnot_cuda_loss_params;

#endif  // CARNOT_KERNEL_CUDA_LOSS_LOSS_PARAMS_H_
