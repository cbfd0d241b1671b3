// Parameters of the generic recurrent layers.
#ifndef CARNOT_KERNEL_CUDA_RECURRENT_RECURRENT_PARAMS_H_
#define CARNOT_KERNEL_CUDA_RECURRENT_RECURRENT_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// in [x, w, r, bias, lengths, initial h, initial c, peepholes], one block a sequence of a
// direction; scratch: (3 + 2 gates) * hidden float64 numbers for each.
typedef struct carnot_cuda_recurrent_params {
  carnot_cuda_generic_io io;
  long long time, batch, input, hidden;
  int directions, gates, batch_first, reverse, flag;  // flag: input_forget, linear_before_reset
  double clip;
} carnot_cuda_recurrent_params;

#endif  // CARNOT_KERNEL_CUDA_RECURRENT_RECURRENT_PARAMS_H_
