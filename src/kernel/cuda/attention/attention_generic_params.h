// Parameters of the generic attention, rotary embedding and linear attention kernels.
#ifndef CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_GENERIC_PARAMS_H_
#define CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_GENERIC_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// Heads [batch, heads, rows, size], or [batch, rows, heads * size] with heads_last. attention:
// |rows| queries of all heads, keys of the past first; |mode|: what output 3 shows. rotary: |rows|
// of the caches. linear_attention: |queries| steps.
typedef struct carnot_cuda_attention_generic_params {
  carnot_cuda_generic_io io;
  long long rows, q_heads, kv_heads, queries, keys, past, size, value_size;
  long long mask_s[3], mask_length;   // of batch, head and query; later keys are masked out
  long long left, right;              // widths of the window; -1: none
  long long turned;                   // rotary: elements of a head
  long long decay_width, beta_width;  // linear_attention
  int heads_last, causal, mode, interleaved;
  double scale, softcap;
} carnot_cuda_attention_generic_params;

#endif  // CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_GENERIC_PARAMS_H_
