// Parameters of the fused squeeze-and-excitation kernel.
#ifndef CARNOT_KERNEL_CUDA_SQUEEZE_EXCITE_SQUEEZE_EXCITE_PARAMS_H_
#define CARNOT_KERNEL_CUDA_SQUEEZE_EXCITE_SQUEEZE_EXCITE_PARAMS_H_

#include "kernel/cuda/common/activation.h"

enum { CARNOT_CUDA_SQUEEZE_EXCITE_THREADS = 512 };  // most threads of a block

// y = x outer(w2 inner(w1 mean(x) + b1) + b2) of NHWC 16-bit floats, x and y [n, pixels,
// channels] dense, mean over pixels. |weights|: w1 [hidden, channels], w2 [channels, hidden],
// b1, b2; |hidden| is padded to a multiple of eight. One cluster per image: block r has slice r
// % slices of the channels and part r / slices of the pixels.
typedef struct carnot_cuda_squeeze_excite_params {
  const void *x, *weights;
  void* y;
  int images, pixels, channels, hidden;
  int slice, slices, parts, per_part;  // channels of a slice, pixels of a part
  int kept, staged;  // vectors that a thread keeps; whether weights are staged in shared memory
  int inner, outer;  // carnot_cuda_activation
  float inner_low, inner_high, outer_low, outer_high;
} carnot_cuda_squeeze_excite_params;

#endif  // CARNOT_KERNEL_CUDA_SQUEEZE_EXCITE_SQUEEZE_EXCITE_PARAMS_H_
