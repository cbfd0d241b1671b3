// Parameters of the generic Fourier transform.
#ifndef CARNOT_KERNEL_CUDA_DFT_DFT_PARAMS_H_
#define CARNOT_KERNEL_CUDA_DFT_DFT_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// |bins| of a transform of |n| elements, |inner| apart, of sequences of |length| elements of
// |parts| (1: real, 2: complex); |frames| of a sequence begin |frame_step| apart and are
// multiplied by input 2.
typedef struct carnot_cuda_dft_params {
  carnot_cuda_generic_io io;
  long long n, bins, inner, length, frames, frame_step;
  int parts, inverse, to_real;
} carnot_cuda_dft_params;

#endif  // CARNOT_KERNEL_CUDA_DFT_DFT_PARAMS_H_
