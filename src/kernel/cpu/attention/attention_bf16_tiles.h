// Scaled dot-product attention of one batch entry and head by the tiles of AMX.
//   dst[i] = sum_j softmax_j(scale * q[i] . k[j] + mask[i,j]) * v[j]
// |q| [q_len,d]  |k| [kv_len,d]  |v| [kv_len,dv]  |dst| [q_len,dv]: float32 or BF16, rows |ld|
// elements apart  |mask| [q_len,kv_len] float32, added to the scores, rows |mask_ld| apart (0: one
// row for all), or NULL
// q, k, v and softmax's numerators are rounded to BF16 (nearest even, subnormal numbers to zero);
// scores, softmax and sums are float32, the result is rounded once. A query that sees no key gives
// NaN (0 / 0), or zeros with |zero_empty|.
// |workspace| carnot_attention_bf16_tiles_workspace bytes at a multiple of 64, for this call alone.
// A call computes queries [q0,q1), q0 a multiple of CARNOT_ATTENTION_TILES_ROWS; disjoint calls may
// run at once, with the same bits however they are cut. dst overlaps nothing. Any thread. Source:
// ONNX Attention-23; online softmax after Milakov and Gimelshein 2018, Dao et al. 2022.
#ifndef CARNOT_KERNEL_CPU_ATTENTION_ATTENTION_BF16_TILES_H_
#define CARNOT_KERNEL_CPU_ATTENTION_ATTENTION_BF16_TILES_H_

#include <stdbool.h>
#include <stdint.h>

enum {
  CARNOT_ATTENTION_TILES_ROWS = 32,   // queries of a step
  CARNOT_ATTENTION_TILES_KEYS = 256,  // keys of a block
};

typedef struct carnot_attention_operand {
  const void* data;
  int64_t ld;
  bool is_bf16;  // else float32
} carnot_attention_operand;

typedef struct carnot_attention_bf16_tiles {
  int64_t q_len, kv_len, d, dv;
  carnot_attention_operand q, k, v;
  void* dst;
  int64_t dst_ld;
  bool dst_is_bf16;
  float scale;
  bool zero_empty;  // a query that sees no key gives zeros
  const float* mask;
  int64_t mask_ld;
  void* workspace;
} carnot_attention_bf16_tiles;

// Bytes: packed keys and values, and the operands of a step.
static inline int64_t carnot_attention_bf16_tiles_workspace(int64_t kv_len, int64_t d, int64_t dv) {
  const int64_t keys = (kv_len + 31) / 32 * 32, depth = (d + 31) / 32 * 32,
                columns = (dv + 31) / 32 * 32;
  return 2 * keys * (depth + columns) +
         CARNOT_ATTENTION_TILES_ROWS * (2 * depth + 6 * CARNOT_ATTENTION_TILES_KEYS + 4 * columns);
}

typedef void carnot_attention_bf16_tiles_fn(const carnot_attention_bf16_tiles* attention,
                                            int64_t q0, int64_t q1);

#endif
