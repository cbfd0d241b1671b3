// The Attention operator of any types in float64 (generic kernel); formula as in ops/attention.c.
#pragma once

#include "kernel/cuda/attention/attention_generic_params.h"
#include "kernel/cuda/common/block_reduce.cuh"
#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/common/numeric.cuh"

// Element |e| of row |t| of the past and new keys (or values) of head |kv| of all batches.
DEVICE f64 cached(const carnot_cuda_attention_generic_params& p, int input, int past, i64 kv, i64 t,
                  i64 e, i64 size) {
  const carnot_cuda_generic_io& io = p.io;
  if (t < p.past) return real_of(io.in_type[past], io.in[past], (kv * p.past + t) * size + e);
  i64 fresh = p.keys - p.past, b = kv / p.kv_heads, h = kv % p.kv_heads;
  i64 row = p.heads_last ? (b * fresh + t - p.past) * p.kv_heads + h : kv * fresh + t - p.past;
  return real_of(io.in_type[input], io.in[input], row * size + e);
}

// The additive bias of query |i| and key |j|: mask, causality, window, sequence length; -inf:
// masked out.
DEVICE f64 attention_bias(const carnot_cuda_attention_generic_params& p, i64 b, i64 h, i64 i,
                          i64 j) {
  const carnot_cuda_generic_io& io = p.io;
  const f64 unseen = limits_of<f64>::low();
  i64 length = io.in[6] ? whole_of(io.in_type[6], io.in[6], b) : p.keys;
  i64 at = i + (io.in[6] ? length - p.queries : p.past);
  if (j >= length || (p.causal && j > at) || (p.left >= 0 && j < at - p.left) ||
      (p.right >= 0 && j > at + p.right))
    return unseen;
  if (!io.in[3]) return 0;
  if (j >= p.mask_length) return unseen;
  f64 m = real_of(io.in_type[3], io.in[3], b * p.mask_s[0] + h * p.mask_s[1] + i * p.mask_s[2] + j);
  return io.in_type[3] != CARNOT_CUDA_BOOL ? m : m != 0 ? 0 : unseen;
}

DEVICE void attention_row(const carnot_cuda_attention_generic_params& p, i64 row, f64* scores) {
  const carnot_cuda_generic_io& io = p.io;
  const f64 low = limits_of<f64>::low();
  i64 i = row % p.queries, h = row / p.queries % p.q_heads, b = row / p.queries / p.q_heads;
  i64 kv = b * p.kv_heads + h / (p.q_heads / p.kv_heads);
  i64 place = p.heads_last ? (b * p.queries + i) * p.q_heads + h : row;
  f64 top = low, sum = 0;
  for (i64 j = threadIdx.x; j < p.keys; j += blockDim.x) {
    f64 s[4] = {0, 0, 0, 0};
    for (i64 e = 0; e < p.size; e++)
      s[0] +=
          real_of(io.in_type[0], io.in[0], place * p.size + e) * cached(p, 1, 4, kv, j, e, p.size);
    s[0] *= p.scale;
    s[1] = p.softcap > 0 ? p.softcap * tanh(s[0] / p.softcap) : s[0];
    s[2] = s[1] + attention_bias(p, b, h, i, j);
    if (io.out[3] && p.mode < 3) store_any(io.out_type[3], io.out[3], row * p.keys + j, s[p.mode]);
    scores[j] = s[2];
    top = hi(s[2], top);
  }
  top = block_reduce<max_of<f64>, f64>(top, low);
  for (i64 j = threadIdx.x; j < p.keys; j += blockDim.x) sum += scores[j] = exp(scores[j] - top);
  sum = block_reduce<add_of<f64>, f64>(sum, 0);
  for (i64 j = threadIdx.x; j < p.keys; j += blockDim.x) {
    scores[j] = top == low ? 0 : scores[j] / sum;  // no key is seen: zeros
    if (io.out[3] && p.mode == 3) store_any(io.out_type[3], io.out[3], row * p.keys + j, scores[j]);
  }
  __syncthreads();
  for (i64 e = threadIdx.x; e < p.value_size; e += blockDim.x) {
    f64 v = 0;
    for (i64 j = 0; j < p.keys; j++) v += scores[j] * cached(p, 2, 5, kv, j, e, p.value_size);
    store_any(io.out_type[0], io.out[0], place * p.value_size + e, v);
  }
  __syncthreads();
}

// Past and new rows as outputs 1 and 2, by the block of a key head's first query.
DEVICE void keep_present(const carnot_cuda_attention_generic_params& p, int output, i64 kv,
                         i64 size) {
  if (!p.io.out[output]) return;
  for (i64 n = threadIdx.x; n < p.keys * size; n += blockDim.x)
    store_any(p.io.out_type[output], p.io.out[output], kv * p.keys * size + n,
              cached(p, output, output + 3, kv, n / size, n % size, size));
}

// Each block computes every io.count-th row; its scores use its part of the workspace.
DEVICE void attention(const carnot_cuda_attention_generic_params& p, i64 item) {
  for (i64 row = item; row < p.rows; row += p.io.count) {
    attention_row(p, row, (f64*)p.io.scratch + item * p.keys);
    i64 head = row / p.queries, share = p.q_heads / p.kv_heads;
    if (row % p.queries || head % share) continue;
    keep_present(p, 1, head / share, p.size);
    keep_present(p, 2, head / share, p.value_size);
  }
}
