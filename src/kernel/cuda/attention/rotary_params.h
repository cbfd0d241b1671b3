// Parameters of RotaryEmbedding of pairs that lie side by side.
#ifndef CARNOT_KERNEL_CUDA_ATTENTION_ROTARY_PARAMS_H_
#define CARNOT_KERNEL_CUDA_ATTENTION_ROTARY_PARAMS_H_

#include "kernel/cuda/common/params.h"

// x [row, head, 8 * eights]: |turned| eights of a head turn by cosines and sines [rows, 4 * turned]
// of their row, which repeat.
typedef struct carnot_cuda_rotary_params {
  const void *x, *cosines, *sines;
  void* y;
  int count, eights, turned, heads, rows;  // count: eights in all
} carnot_cuda_rotary_params;

#endif  // CARNOT_KERNEL_CUDA_ATTENTION_ROTARY_PARAMS_H_
