// Attention of few queries over a block of keys, in parts that are combined afterwards: a long past
// is cut over threads ("flash decoding"), and the query heads that share a key head read it once.
//   s[r,j] = softcap * tanh(scale * q[r] . k[j] / softcap) + mask[r,j] for low[r] <= j < high[r]
//   max[r] = max_j s[r,j];  w[r,j] = exp(s[r,j] - max[r]);  sum[r] = sum_j w[r,j]
//   acc[r] = sum_j w[r,j] v[j]
// |softcap| 0: none. |k| [count,d] and |v| [count,dv] hold keys [first, first + count), count at
// most CARNOT_DECODE_KEYS; |low|, |high| and |mask| count keys from 0. |q| and |mask| (NULL: none)
// are pointers to rows. A row that sees no key of the block has max -inf and sum 0, and its acc is
// not written. attention_combine_f32 joins |parts| blocks of a row, |stride| floats apart:
//   dst = sum_p exp(max_p - max) acc_p / sum_p exp(max_p - max) sum_p; zeros without a key
// A part is [max, sum, acc[dv]]. Source: Dao et al., Flash-Decoding, 2023. Any thread.
#ifndef CARNOT_KERNEL_CPU_ATTENTION_ATTENTION_DECODE_F32_H_
#define CARNOT_KERNEL_CPU_ATTENTION_ATTENTION_DECODE_F32_H_

#include <stdint.h>

enum {
  CARNOT_DECODE_KEYS = 256,  // of a block, at most
  CARNOT_DECODE_ROWS = 16,   // of a call, at most
};

typedef struct carnot_attention_decode_f32 {
  int64_t rows, d, dv;
  const float* q[CARNOT_DECODE_ROWS];
  const float* mask[CARNOT_DECODE_ROWS];
  int64_t low[CARNOT_DECODE_ROWS], high[CARNOT_DECODE_ROWS];
  const float* k;
  int64_t k_ld;
  const float* v;
  int64_t v_ld;
  int64_t first, count;
  float scale, softcap;
  float* parts[CARNOT_DECODE_ROWS];  // of each row: [max, sum, acc[dv]]
} carnot_attention_decode_f32;

typedef void carnot_attention_decode_f32_fn(const carnot_attention_decode_f32* decode);
typedef void carnot_attention_combine_f32_fn(int64_t parts, const float* part, int64_t stride,
                                             int64_t dv, float* dst);

#endif
