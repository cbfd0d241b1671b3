// Parameters of attention whose heads are mixed, and of the mix alone.
#ifndef CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_MIXED_PARAMS_H_
#define CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_MIXED_PARAMS_H_

#include "kernel/cuda/attention/attention_params.h"

enum { CARNOT_CUDA_MIXED_THREADS = 512, CARNOT_CUDA_MIXED_HEADS = 16 };

// y = mix1(softmax(mix0(scale q k^T))) v, mix(s)[g] = bias[g] + sum_h s[h] w[h,g] over the |inner|
// heads of |call|, at most 16. A block computes some queries of all heads of an outer batch.
typedef struct carnot_cuda_attention_mixed_params {
  carnot_cuda_attention_params call;  // without a mask
  const void *weights[2], *bias[2];   // of the scores and of the softmax; NULL: none
  int pitch;                          // of a row of scores in shared memory: at least |keys|
} carnot_cuda_attention_mixed_params;
// X(queries of a block) of each kernel.
#define CARNOT_CUDA_ATTENTION_MIXED_QUERIES(X) X(2) X(4) X(8)

// y[b,g,i] = bias[g] + sum_h x[b,h,i] w[h,g]; |inner| elements of i.
typedef struct carnot_cuda_mix_heads_params {
  const void *x, *w, *bias;  // bias may be NULL
  void *y;
  long long count, inner;  // count: batches * inner
  int heads, results;
} carnot_cuda_mix_heads_params;

#endif  // CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_MIXED_PARAMS_H_
