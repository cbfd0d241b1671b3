// Scores of up to four rows against each key, softmax of a row, then the mix of values: keys and
// values are read once for every four rows.
#include "kernel/cpu/attention/attention_decode_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_math.h"
#include "kernel/cpu/common/simd_reduce.h"

enum { kGroup = 4, kVectors = 4 };  // rows at a time; vectors of their values in registers

// Scores of |n| rows, which is constant: q . k[j] for all keys of the block.
CARNOT_INLINE void score_rows(const carnot_attention_decode_f32* p, int64_t r0, int n,
                              float* scores) {
  for (int64_t j = 0; j < p->count; ++j) {
    const float* k = p->k + j * p->k_ld;
    vf32 sum[kGroup];
    for (int r = 0; r < n; ++r) sum[r] = v_zero();
    int64_t c = 0;
    for (; c + V_LANES <= p->d; c += V_LANES) {
      const vf32 x = v_load(k + c);
      for (int r = 0; r < n; ++r) sum[r] = v_fma(v_load(p->q[r0 + r] + c), x, sum[r]);
    }
    if (c < p->d) {
      const vf32 x = v_load_n(k + c, p->d - c);
      for (int r = 0; r < n; ++r) {
        sum[r] = v_fma(v_load_n(p->q[r0 + r] + c, p->d - c), x, sum[r]);
      }
    }
    for (int r = 0; r < n; ++r) scores[r * CARNOT_DECODE_KEYS + j] = v_sum(sum[r]);
  }
}

// The scores [low, high) of a row to weights, those outside to 0. *sum is theirs; the maximum is
// returned.
static float soften(const carnot_attention_decode_f32* p, int64_t r, int64_t low, int64_t high,
                    float* s, float* sum) {
  const vf32 scale = v_set(p->scale), cap = v_set(p->softcap);
  const vf32 into = v_set(p->softcap > 0 ? p->scale / p->softcap : p->scale);
  const float* mask = p->mask[r] ? p->mask[r] + p->first : NULL;
  float max = -INFINITY;
  for (int64_t j = low; j < high; j += V_LANES) {
    const int64_t left = high - j;
    vf32 x = v_load_upto(s + j, left);
    x = p->softcap > 0 ? v_mul(cap, v_tanh(v_mul(x, into))) : v_mul(x, scale);
    if (mask) x = v_add(x, v_load_upto(mask + j, left));
    v_store_upto(s + j, x, left);
  }
  for (int64_t j = low; j < high; ++j) max = max_nan(max, s[j]);
  const vf32 base = v_set(max == -INFINITY ? 0 : max);
  float total = 0;
  for (int64_t j = 0; j < low; ++j) s[j] = 0;
  for (int64_t j = high; j < p->count; ++j) s[j] = 0;
  for (int64_t j = low; j < high; j += V_LANES) {
    const int64_t left = high - j;
    v_store_upto(s + j, v_exp_normal(v_sub(v_load_upto(s + j, left), base)), left);
  }
  for (int64_t j = low; j < high; ++j) total += s[j];
  *sum = total;
  return max;
}

// Values [c, c + kVectors * V_LANES) of |n| rows, which is constant, over keys [low, high).
CARNOT_INLINE void mix_columns(const carnot_attention_decode_f32* p, int64_t r0, int n, int64_t low,
                               int64_t high, const float* weights, int64_t c) {
  vf32 sum[kGroup][kVectors];
  for (int r = 0; r < n; ++r) {
    for (int u = 0; u < kVectors; ++u) sum[r][u] = v_zero();
  }
  for (int64_t j = low; j < high; ++j) {
    const float* v = p->v + j * p->v_ld + c;
    for (int u = 0; u < kVectors; ++u) {
      const vf32 x = v_load(v + u * V_LANES);
      for (int r = 0; r < n; ++r) {
        sum[r][u] = v_fma(v_set(weights[r * CARNOT_DECODE_KEYS + j]), x, sum[r][u]);
      }
    }
  }
  for (int r = 0; r < n; ++r) {
    for (int u = 0; u < kVectors; ++u) v_store(p->parts[r0 + r] + 2 + c + u * V_LANES, sum[r][u]);
  }
}

// The same of one vector of columns, of which |left| are there.
CARNOT_INLINE void mix_last(const carnot_attention_decode_f32* p, int64_t r0, int n, int64_t low,
                            int64_t high, const float* weights, int64_t c) {
  const int64_t left = p->dv - c;
  vf32 sum[kGroup];
  for (int r = 0; r < n; ++r) sum[r] = v_zero();
  for (int64_t j = low; j < high; ++j) {
    const vf32 x = v_load_upto(p->v + j * p->v_ld + c, left);
    for (int r = 0; r < n; ++r) {
      sum[r] = v_fma(v_set(weights[r * CARNOT_DECODE_KEYS + j]), x, sum[r]);
    }
  }
  for (int r = 0; r < n; ++r) v_store_upto(p->parts[r0 + r] + 2 + c, sum[r], left);
}

CARNOT_INLINE void decode_rows(const carnot_attention_decode_f32* p, int64_t r0, int n) {
  float scores[kGroup * CARNOT_DECODE_KEYS];
  int64_t first = p->count, last = 0;
  score_rows(p, r0, n, scores);
  for (int r = 0; r < n; ++r) {
    const int64_t low = max_i64(0, min_i64(p->count, p->low[r0 + r] - p->first)),
                  high = max_i64(low, min_i64(p->count, p->high[r0 + r] - p->first));
    float* part = p->parts[r0 + r];
    part[0] = soften(p, r0 + r, low, high, scores + r * CARNOT_DECODE_KEYS, &part[1]);
    first = min_i64(first, low), last = max_i64(last, high);
  }
  int64_t c = 0;
  for (; c + kVectors * V_LANES <= p->dv; c += kVectors * V_LANES) {
    mix_columns(p, r0, n, first, last, scores, c);
  }
  for (; c < p->dv; c += V_LANES) mix_last(p, r0, n, first, last, scores, c);
}

void CARNOT_KERNEL(attention_decode_f32)(const carnot_attention_decode_f32* p) {
  int64_t r = 0;
  for (; r + kGroup <= p->rows; r += kGroup) decode_rows(p, r, kGroup);
  switch (p->rows - r) {
    case 3: decode_rows(p, r, 3); break;
    case 2: decode_rows(p, r, 2); break;
    case 1: decode_rows(p, r, 1); break;
    default: break;
  }
}

void CARNOT_KERNEL(attention_combine_f32)(int64_t parts, const float* part, int64_t stride,
                                          int64_t dv, float* dst) {
  float max = -INFINITY, sum = 0;
  for (int64_t i = 0; i < parts; ++i) max = max_nan(max, part[i * stride]);
  memset(dst, 0, (size_t)dv * sizeof *dst);
  if (max == -INFINITY) return;
  for (int64_t i = 0; i < parts; ++i) {
    const float* from = part + i * stride;
    if (from[0] == -INFINITY) continue;
    float lanes[V_LANES];
    v_store(lanes, v_exp(v_set(from[0] - max)));
    sum += lanes[0] * from[1];
    const vf32 factor = v_set(lanes[0]);
    for (int64_t c = 0; c < dv; c += V_LANES) {
      const vf32 x = v_load_upto(dst + c, dv - c);
      v_store_upto(dst + c, v_fma(factor, v_load_upto(from + 2 + c, dv - c), x), dv - c);
    }
  }
  const vf32 factor = v_set(1 / sum);
  for (int64_t c = 0; c < dv; c += V_LANES) {
    v_store_upto(dst + c, v_mul(factor, v_load_upto(dst + c, dv - c)), dv - c);
  }
}
