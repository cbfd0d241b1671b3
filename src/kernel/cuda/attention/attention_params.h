// Parameters of the attention kernels.
#ifndef CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_PARAMS_H_
#define CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_PARAMS_H_

#include "kernel/cuda/quantize/byte_result_params.h"

// y = softmax(scale q k^T + mask) v for |batch| = outer * inner heads. Strides in elements: [0]
// of the outer batch, [1] of the inner batch, [2] of rows; the elements of a head are
// contiguous.
typedef struct carnot_cuda_attention_params {
  const void *q, *k, *v, *mask;  // mask may be NULL
  void* y;
  int queries, keys, size, value_size;  // sizes of a head, multiples of 8
  int outer, inner;
  long long q_s[3], k_s[3], v_s[3], y_s[3], mask_s[3];
  float scale;
  int mask_is_float, zero_empty;  // zero_empty: a query whose keys are all masked out gives zeros
  int mask_in_pairs;              // pairs of mask elements from an even key on are aligned
  // Classification of the mask's tiles (attention_mask_kinds), bytes [masks, tiles of queries,
  // tiles of keys]; NULL: none.
  unsigned char* kinds;
  int kinds_s[2];  // strides of the classification: masks of the outer and of the inner batch
  int tile_rows, tile_keys;
  carnot_cuda_byte_result result;  // y holds bytes where it has a type
} carnot_cuda_attention_params;

#endif  // CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_PARAMS_H_
