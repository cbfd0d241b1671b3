// Attention with online softmax: tiles of queries against blocks of packed keys and values.
#include "kernel/cpu/attention/attention_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_math.h"
#include "kernel/cpu/common/simd_reduce.h"
#include "kernel/cpu/gemm/gemm_functions.h"

// Keys and values are packed a block at a time and used by all queries of the call. Fewer queries
// than this read them directly, which is what generating a token at a time needs.
enum { kRows = CARNOT_ATTENTION_ROWS, kKeys = CARNOT_ATTENTION_KEYS, kFewQueries = 4 };

// A block of keys [j0, j1) for the queries of one tile.
typedef struct key_block {
  const carnot_attention_f32* p;
  const gemm_functions* functions;
  int64_t j0, j1;
  float* scores;     // [kRows, kKeys]
  float *max, *sum;  // running, by query of the tile
} key_block;

// How many keys of the block query |i| sees.
static int64_t visible(const key_block* b, int64_t i) {
  const int64_t keys = b->j1 - b->j0;
  if (!b->p->causal) return keys;
  return max_i64(0, min_i64(keys, i + b->p->past + 1 - b->j0));
}

static void scale_row(float* x, int64_t n, float factor) {
  const vf32 f = v_set(factor);
  for (int64_t j = 0; j < n; j += V_LANES) {
    v_store_upto(x + j, v_mul(v_load_upto(x + j, n - j), f), n - j);
  }
}

// Scores of a row times scale plus mask; returns their maximum.
static float mask_row(const carnot_attention_f32* p, const float* mask, float* s, int64_t n) {
  const vf32 scale = v_set(p->scale);
  vf32 max = v_set(-INFINITY);
  for (int64_t j = 0; j < n; j += V_LANES) {
    const int64_t left = n - j;
    vf32 x = v_mul(v_load_upto(s + j, left), scale);
    if (mask) {
      __builtin_prefetch(mask + 4 * p->mask_ld + j);
      x = v_add(x, v_load_upto(mask + j, left));
    }
    v_store_upto(s + j, x, left);
    if (left >= V_LANES) max = v_max(max, x);
  }
  float m = v_max_lane(max);
  for (int64_t j = n / V_LANES * V_LANES; j < n; ++j) m = max_nan(m, s[j]);
  return m;
}

// exp(s * scale - max) in place, the sum returned.
static float exp_row(float* s, int64_t n, float scale, float max) {
  const vf32 m = v_set(-max), by = v_set(scale);
  vf32 sum = v_zero();
  int64_t j = 0;
  for (; j + V_LANES <= n; j += V_LANES) {
    const vf32 e = v_exp_normal(v_fma(v_load(s + j), by, m));
    v_store(s + j, e);
    sum = v_add(sum, e);
  }
  float total = v_sum(sum);
  if (j < n) {
    v_store_n(s + j, v_exp_normal(v_fma(v_load_n(s + j, n - j), by, m)), n - j);
    for (; j < n; ++j) total += s[j];
  }
  return total;
}

// Turns the scores of query |i| into weights relative to the new maximum and rescales the sums
// so far to it.
static void soften_row(const key_block* b, int64_t i, int64_t r) {
  const carnot_attention_f32* p = b->p;
  float* s = b->scores + r * kKeys;
  const int64_t n = visible(b, i);
  const float* mask = p->mask ? p->mask + i * p->mask_ld + b->j0 : NULL;
  const float old = b->j0 > 0 ? b->max[r] : -INFINITY;
  // Without a mask the scores are scaled as their exponentials are taken.
  const bool plain = !mask && p->scale > 0;
  const float most = plain ? extreme_of(s, n, /*max=*/true) * p->scale : mask_row(p, mask, s, n);
  const float max = max_nan(old, most), base = max == -INFINITY ? 0 : max;
  const float sum = exp_row(s, n, plain ? p->scale : 1, base);
  if (n < b->j1 - b->j0) memset(s + n, 0, (size_t)(b->j1 - b->j0 - n) * sizeof *s);
  b->max[r] = max;
  if (b->j0 == 0) {
    b->sum[r] = sum;
    return;
  }
  float lanes[V_LANES];
  v_store(lanes, v_exp(v_set(old - base)));
  b->sum[r] = b->sum[r] * lanes[0] + sum;
  if (lanes[0] != 1) scale_row(p->dst + i * p->dst_ld, p->dv, lanes[0]);
}

// One tile of queries against one block of packed keys and values.
static void tile_of_block(const key_block* b, const float* keys, const float* values, int64_t i0,
                          int64_t i1) {
  const carnot_attention_f32* p = b->p;
  const int64_t count = b->j1 - b->j0;
  const carnot_gemm_f32 score = {.m = i1 - i0,
                                 .n = count,
                                 .k = p->d,
                                 .a = p->q + i0 * p->q_ld,
                                 .lda = p->q_ld,
                                 .b = keys,
                                 .c = b->scores,
                                 .ldc = kKeys};
  b->functions->gemm(&score, 0, i1 - i0, 0, count);
  for (int64_t i = i0; i < i1; ++i) soften_row(b, i, i - i0);
  float* dst = p->dst + i0 * p->dst_ld;
  const carnot_gemm_f32 mix = {
      .m = i1 - i0,
      .n = p->dv,
      .k = count,
      .a = b->scores,
      .lda = kKeys,
      .b = values,
      .c = dst,
      .ldc = p->dst_ld,
      .epilogue = {.residual = b->j0 > 0 ? dst : NULL, .residual_ld = p->dst_ld}};
  b->functions->gemm(&mix, 0, i1 - i0, 0, p->dv);
}

// Divides a finished row by its sum of weights.
static void finish_row(const carnot_attention_f32* p, int64_t i, float sum) {
  float* dst = p->dst + i * p->dst_ld;
  if (p->zero_empty && !(sum > 0)) {
    memset(dst, 0, (size_t)p->dv * sizeof *dst);
  } else {
    scale_row(dst, p->dv, 1 / sum);
  }
}

static void by_blocks(const carnot_attention_f32* p, const gemm_functions* functions, int64_t q0,
                      int64_t q1) {
  float* keys = p->workspace;
  float* values = keys + p->d * kKeys;
  key_block b = {.p = p, .functions = functions, .scores = values + (p->dv + 15) / 16 * 16 * kKeys};
  float* stats = b.scores + kRows * kKeys;
  for (b.j0 = 0; b.j0 < p->kv_len; b.j0 = b.j1) {
    b.j1 = min_i64(p->kv_len, b.j0 + kKeys);
    functions->pack(p->d, b.j1 - b.j0, p->k + b.j0 * p->k_ld, 1, p->k_ld, keys);
    functions->pack(b.j1 - b.j0, p->dv, p->v + b.j0 * p->v_ld, p->v_ld, 1, values);
    for (int64_t i = q0; i < q1; i += kRows) {
      // Blocks that no query of the whole tile sees are left out, wherever the call ends.
      const int64_t tile_end = min_i64(i + kRows, p->q_len);
      if (b.j0 > 0 && visible(&b, tile_end - 1) == 0) continue;
      b.max = stats + 2 * (i - q0), b.sum = b.max + min_i64(kRows, q1 - i);
      tile_of_block(&b, keys, values, i, min_i64(i + kRows, q1));
    }
  }
  for (int64_t i = q0; i < q1; ++i) {
    const int64_t tile = (i - q0) / kRows * kRows, rows = min_i64(kRows, q1 - q0 - tile);
    finish_row(p, i, stats[2 * tile + rows + (i - q0 - tile)]);
  }
}

// ---- few queries ----

static float dot(const float* x, const float* y, int64_t n) {
  vf32 sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
  int64_t i = 0;
  for (; i + 4 * V_LANES <= n; i += 4 * V_LANES) {
    for (int j = 0; j < 4; ++j) {
      sum[j] = v_fma(v_load(x + i + j * V_LANES), v_load(y + i + j * V_LANES), sum[j]);
    }
  }
  for (; i < n; i += V_LANES) {
    sum[0] = v_fma(v_load_upto(x + i, n - i), v_load_upto(y + i, n - i), sum[0]);
  }
  return v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
}

// dst += sum_j weight[j] * v[j], four vectors of columns at a time so that sums stay in registers.
// The sum of the block's keys starts from zero.
static void mix_values(const carnot_attention_f32* p, const float* weights, int64_t j0, int64_t n,
                       float* dst) {
  for (int64_t c = 0; c < p->dv; c += 4 * V_LANES) {
    const float* v = p->v + j0 * p->v_ld + c;
    const int64_t left = p->dv - c;
    vf32 sum[4];
    for (int u = 0; u < 4; ++u) sum[u] = v_zero();
    for (int64_t j = 0; j < n; ++j) {
      const vf32 w = v_set(weights[j]);
      for (int u = 0; u < 4; ++u) {
        const int64_t rest = left - u * V_LANES;
        if (rest <= 0) continue;
        sum[u] = v_fma(w, v_load_upto(v + j * p->v_ld + u * V_LANES, rest), sum[u]);
      }
    }
    for (int u = 0; u < 4; ++u) {
      const int64_t rest = left - u * V_LANES;
      if (rest <= 0) continue;
      if (j0 > 0) sum[u] = v_add(v_load_upto(dst + c + u * V_LANES, rest), sum[u]);
      v_store_upto(dst + c + u * V_LANES, sum[u], rest);
    }
  }
}

static void by_rows(const carnot_attention_f32* p, int64_t q0, int64_t q1) {
  float max = 0, sum = 0;
  key_block b = {.p = p, .scores = p->workspace, .max = &max, .sum = &sum};
  for (int64_t i = q0; i < q1; ++i) {
    float* dst = p->dst + i * p->dst_ld;
    for (b.j0 = 0; b.j0 < p->kv_len; b.j0 = b.j1) {
      b.j1 = min_i64(p->kv_len, b.j0 + kKeys);
      const int64_t n = visible(&b, i);
      for (int64_t j = 0; j < n; ++j) {
        b.scores[j] = dot(p->q + i * p->q_ld, p->k + (b.j0 + j) * p->k_ld, p->d);
      }
      if (b.j0 > 0 && n == 0) continue;
      soften_row(&b, i, 0);
      mix_values(p, b.scores, b.j0, n, dst);
    }
    finish_row(p, i, sum);
  }
}

void CARNOT_KERNEL(attention_by)(const carnot_attention_f32* p, const gemm_functions* functions,
                                 int64_t q0, int64_t q1) {
  if (p->q_len < kFewQueries) {
    by_rows(p, q0, q1);
  } else {
    by_blocks(p, functions, q0, q1);
  }
}

void CARNOT_KERNEL(attention_f32)(const carnot_attention_f32* p, int64_t q0, int64_t q1) {
  const gemm_functions functions = {CARNOT_KERNEL(gemm_f32), CARNOT_KERNEL(gemm_pack_f32)};
  CARNOT_KERNEL(attention_by)(p, &functions, q0, q1);
}
