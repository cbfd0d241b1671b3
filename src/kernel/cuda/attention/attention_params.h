// Parameters of the attention kernels.
#ifndef CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_PARAMS_H_
#define CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_PARAMS_H_

// y = softmax(scale q kT + mask) v for |batch| = outer * inner heads; strides in elements, [0] of
// the outer, [1] of the inner batch, [2] of rows; the elements of a head stand next to one another.
typedef struct carnot_cuda_attention_params {
  const void *q, *k, *v, *mask;  // mask may be NULL
  void* y;
  int queries, keys, size, value_size;  // sizes of a head, multiples of 8
  int inner;
  long long q_s[3], k_s[3], v_s[3], y_s[3], mask_s[3];
  float scale;
  int mask_is_float, zero_empty;  // a query without any key gives zeros
  int mask_in_pairs;              // two numbers of the mask from an even key on are aligned
  // What the tiles of the mask need (attention_kinds), bytes [masks, tiles of queries, of keys];
  // NULL: unknown.
  unsigned char* kinds;
  int kinds_s[2];  // masks of the outer and of the inner batch apart
  int tile_rows, tile_keys;
} carnot_cuda_attention_params;

#endif  // CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_PARAMS_H_
