// Scaled dot-product attention of one batch entry and head, without the score matrix in memory.
//   dst[i] = sum_j softmax_j(scale * q[i] . k[j] + mask[i,j]) * v[j]
// |q| [q_len,d]  |k| [kv_len,d]  |v| [kv_len,dv]  |dst| [q_len,dv], rows *_ld floats apart
// |mask| [q_len,kv_len] added to the scores, rows |mask_ld| apart (0: one row for all), or NULL
// With |causal|, query i sees keys j <= i + past only.
// A call computes queries [q0,q1), q0 a multiple of CARNOT_ATTENTION_ROWS; disjoint calls may run
// at once, each with carnot_attention_f32_workspace floats, with the same bits however they are
// cut. A query that sees no key gives NaN (0 / 0), or zeros with |zero_empty|. dst overlaps
// nothing. attention_bf16 rounds q, k, softmax's numerators and v to bf16 on levels with BF16
// dot products, from four queries on; it accumulates in float32. Any thread. Source: ONNX
// Attention-23; online softmax after Milakov and Gimelshein 2018, Dao et al. 2022.
#ifndef CARNOT_KERNEL_CPU_ATTENTION_ATTENTION_F32_H_
#define CARNOT_KERNEL_CPU_ATTENTION_ATTENTION_F32_H_

#include <stdbool.h>
#include <stdint.h>

enum {
  CARNOT_ATTENTION_ROWS = 64,   // queries of a tile
  CARNOT_ATTENTION_KEYS = 128,  // keys of a block
};

typedef struct carnot_attention_f32 {
  int64_t q_len, kv_len, d, dv;
  const float* q;
  int64_t q_ld;
  const float* k;
  int64_t k_ld;
  const float* v;
  int64_t v_ld;
  float* dst;
  int64_t dst_ld;
  float scale;
  bool causal;
  int64_t past;
  bool zero_empty;  // a query that sees no key gives zeros
  const float* mask;
  int64_t mask_ld;
  float* workspace;
} carnot_attention_f32;

// Floats for a call of |rows| queries.
static inline int64_t carnot_attention_f32_workspace(int64_t d, int64_t dv, int64_t rows) {
  return (d + (dv + 15) / 16 * 16 + CARNOT_ATTENTION_ROWS) * CARNOT_ATTENTION_KEYS + 2 * rows;
}

typedef void carnot_attention_f32_fn(const carnot_attention_f32* attention, int64_t q0, int64_t q1);
typedef carnot_attention_f32_fn carnot_attention_bf16_fn;

#endif
