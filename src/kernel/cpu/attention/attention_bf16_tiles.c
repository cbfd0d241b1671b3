// Attention by AMX tiles: all keys and values of the head are packed once, then steps of 32 queries
// meet blocks of keys with an online softmax.
#include "kernel/cpu/attention/attention_bf16_tiles.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_math.h"
#include "kernel/cpu/common/simd_reduce.h"
#include "kernel/cpu/gemm/amx_tiles.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"
#include "kernel/cpu/gemm/load_bf16.h"

enum {
  kRows = CARNOT_ATTENTION_TILES_ROWS,
  kKeys = CARNOT_ATTENTION_TILES_KEYS,
  kDepth = 32,       // elements of a tile's row
  kTileBytes = 1024  // of a tile
};

// A call with its workspace. A tile of keys: 32 elements of 16 keys, pairs of elements of a key
// side by side; those of 16 keys are together. A tile of values: 16 elements of 32 keys, pairs of
// keys of an element side by side; those of 16 elements are together.
typedef struct tiles_call {
  const carnot_attention_bf16_tiles* p;
  int64_t depth_tiles;  // of the elements of q and k
  int64_t key_tiles;    // of the keys of v
  int64_t columns;      // of a row of |sums|: dv in whole pairs of tiles
  char *keys, *values;
  uint16_t* queries;  // [kRows, 32 depth_tiles]
  float* scores;      // [kRows, kKeys]
  uint16_t* weights;  // [kRows, kKeys]: softmax's numerators
  float* sums;        // [kRows, columns]
  float max[kRows], sum[kRows];
} tiles_call;

static void find_workspace(const carnot_attention_bf16_tiles* p, tiles_call* c) {
  *c = (tiles_call){.p = p,
                    .depth_tiles = (p->d + kDepth - 1) / kDepth,
                    .key_tiles = (p->kv_len + kDepth - 1) / kDepth,
                    .columns = (p->dv + 31) / 32 * 32};
  c->keys = p->workspace;
  c->values = c->keys + 2 * c->key_tiles * c->depth_tiles * kTileBytes;
  c->queries = (uint16_t*)(void*)(c->values + c->columns / 16 * c->key_tiles * kTileBytes);
  c->scores = (float*)(void*)(c->queries + kRows * kDepth * c->depth_tiles);
  c->weights = (uint16_t*)(void*)(c->scores + kRows * kKeys);
  c->sums = (float*)(void*)(c->weights + kRows * kKeys);
}

// ---- packing ----

// 32 elements of row |row| of |rows|, from element |at| of |n| on; zeros where there are none.
CARNOT_INLINE __m512i load_row(const carnot_attention_operand* x, int64_t row, int64_t rows,
                               int64_t at, int64_t n) {
  if (row >= rows || at >= n) return _mm512_setzero_si512();
  return x->is_bf16 ? load_bf16_32(true, x->data, row * x->ld + at, n - at)
                    : load_bf16_32(false, x->data, row * x->ld + at, n - at);
}

// 16 rows of 16 pairs.
CARNOT_INLINE void transpose_pairs(__m512i* r) {
  __m512i t[16];
  CARNOT_UNROLL
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  CARNOT_UNROLL
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  CARNOT_UNROLL
  for (int j = 0; j < 4;
       ++j) {  // quarter i of r[4 k + j] holds pair 4 i + j of rows 4 k to 4 k + 3
    const __m512i even0 = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88),
                  even1 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88),
                  odd0 = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xdd),
                  odd1 = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xdd);
    t[j] = _mm512_shuffle_i32x4(even0, even1, 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(even0, even1, 0xdd);
    t[12 + j] = _mm512_shuffle_i32x4(odd0, odd1, 0xdd);
  }
  CARNOT_UNROLL
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

static void pack_keys(const tiles_call* c) {
  char* to = c->keys;
  for (int64_t key = 0; key < c->key_tiles * kDepth; key += 16)
    for (int64_t at = 0; at < c->depth_tiles * kDepth; at += kDepth, to += kTileBytes) {
      __m512i rows[16];
      for (int i = 0; i < 16; ++i) rows[i] = load_row(&c->p->k, key + i, c->p->kv_len, at, c->p->d);
      transpose_pairs(rows);
      for (int i = 0; i < 16; ++i) _mm512_store_si512(to + 64 * i, rows[i]);
    }
}

static void pack_values(const tiles_call* c) {
  static const uint16_t low[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                   8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
  const __m512i first = _mm512_loadu_si512(low),
                second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  for (int64_t at = 0; at < c->columns; at += 32) {
    char* to = c->values + at / 16 * c->key_tiles * kTileBytes;
    for (int64_t key = 0; key < c->key_tiles * kDepth; key += 2, to += 64) {
      const __m512i even = load_row(&c->p->v, key, c->p->kv_len, at, c->p->dv),
                    odd = load_row(&c->p->v, key + 1, c->p->kv_len, at, c->p->dv);
      _mm512_store_si512(to, _mm512_permutex2var_epi16(even, first, odd));
      _mm512_store_si512(to + c->key_tiles * kTileBytes,
                         _mm512_permutex2var_epi16(even, second, odd));
    }
  }
}

static void copy_queries(const tiles_call* c, int64_t i0, int64_t i1) {
  uint16_t* to = c->queries;
  for (int64_t i = i0; i < i1; ++i)
    for (int64_t at = 0; at < c->depth_tiles * kDepth; at += kDepth, to += kDepth)
      _mm512_store_si512(to, load_row(&c->p->q, i, c->p->q_len, at, c->p->d));
}

// ---- products ----

// Accumulators 0 to 3: 32 rows by 32 columns, from memory or zero.
CARNOT_INLINE void begin_sums(bool adds, int groups, const float* sums, int64_t ld) {
  AMX_BARRIER();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (!adds) return;
  _tile_loadd(0, sums, ld * 4);
  _tile_loadd(1, sums + 16, ld * 4);
  if (groups == 1) return;
  _tile_loadd(2, sums + 16 * ld, ld * 4);
  _tile_loadd(3, sums + 16 * ld + 16, ld * 4);
}

CARNOT_INLINE void add_product(int groups, const uint16_t* a, int64_t lda, const char* b0,
                               const char* b1) {
  _tile_loadd(6, b0, 64);
  _tile_loadd(7, b1, 64);
  _tile_loadd(4, a, lda * 2);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  if (groups == 1) return;
  _tile_loadd(5, a + 16 * lda, lda * 2);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

CARNOT_INLINE void end_sums(int groups, float* sums, int64_t ld) {
  _tile_stored(0, sums, ld * 4);
  _tile_stored(1, sums + 16, ld * 4);
  if (groups == 2) {
    _tile_stored(2, sums + 16 * ld, ld * 4);
    _tile_stored(3, sums + 16 * ld + 16, ld * 4);
  }
  AMX_BARRIER();
}

// Scores of the step's queries and keys [j0,j1), filled up to whole pairs of tiles.
CARNOT_INLINE void multiply_keys(int groups, const tiles_call* c, int64_t j0, int64_t j1) {
  const int64_t panel = c->depth_tiles * kTileBytes;
  for (int64_t j = j0; j < j1; j += 32) {
    const char* b = c->keys + j / 16 * panel;
    begin_sums(/*adds=*/false, groups, NULL, 0);
    for (int64_t t = 0; t < c->depth_tiles; ++t, b += kTileBytes)
      add_product(groups, c->queries + t * kDepth, c->depth_tiles * kDepth, b, b + panel);
    end_sums(groups, c->scores + (j - j0), kKeys);
  }
}

CARNOT_INLINE void multiply_values(int groups, const tiles_call* c, int64_t j0, int64_t j1) {
  const int64_t panel = c->key_tiles * kTileBytes;
  for (int64_t at = 0; at < c->columns; at += 32) {
    const char* b = c->values + at / 16 * panel + j0 / kDepth * kTileBytes;
    begin_sums(/*adds=*/j0 > 0, groups, c->sums + at, c->columns);
    for (int64_t j = j0; j < j1; j += kDepth, b += kTileBytes)
      add_product(groups, c->weights + (j - j0), kKeys, b, b + panel);
    end_sums(groups, c->sums + at, c->columns);
  }
}

// ---- softmax ----

// Scores of a row times scale plus mask, -inf behind |n| up to whole tiles; returns their maximum.
CARNOT_INLINE float mask_row(const tiles_call* c, const float* mask, float* s, int64_t n) {
  const vf32 scale = v_set(c->p->scale), none = v_set(-INFINITY);
  vf32 max = none;
  for (int64_t j = 0; j < (n + 31) / 32 * 32; j += V_LANES) {
    const int64_t left = max_i64(0, n - j);
    vf32 x = v_mul(v_load(s + j), scale);
    if (mask) x = v_add(x, v_load_upto(mask + j, left));
    if (left < V_LANES) x = v_select(v_lanes(left), x, none);
    v_store(s + j, x);
    max = v_max_to(max, x);
  }
  return _mm512_reduce_max_ps(max);
}

// The maximum of a row as it is, -inf behind |n| up to whole tiles.
CARNOT_INLINE float max_row(float* s, int64_t n) {
  vf32 max = v_set(-INFINITY);
  int64_t j = 0;
  for (; j + V_LANES <= n; j += V_LANES) max = v_max_to(max, v_load(s + j));
  for (; j < (n + 31) / 32 * 32; j += V_LANES) {
    const vf32 x = v_select(v_lanes(max_i64(0, n - j)), v_load(s + j), v_set(-INFINITY));
    v_store(s + j, x);
    max = v_max_to(max, x);
  }
  return _mm512_reduce_max_ps(max);
}

// 2^y for y <= 0 as v_exp2_roughly; zero where that would be subnormal, which costs a hundred
// cycles.
CARNOT_INLINE vf32 exp2_roughly(vf32 y) {
  vf32 n;
  const vf32 p = v_exp2_fraction(y, &n);
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(y, v_set(-125), _CMP_NLT_UQ), p, n);
}

// Numerators 2^(scale (s - base)) of a row, as BF16; returns their sum. The subtraction comes
// first: scale s overflows where a mask holds the least float32.
CARNOT_INLINE float exp_row(const float* s, float scale, float base, int64_t n, uint16_t* weights) {
  const vf32 by = v_set(scale), m = v_set(base);
  vf32 sum[2] = {v_zero(), v_zero()};
  for (int64_t j = 0; j < n; j += 32) {
    const vf32 a = exp2_roughly(v_mul(v_sub(v_load(s + j), m), by)),
               b = exp2_roughly(v_mul(v_sub(v_load(s + j + V_LANES), m), by));
    sum[0] = v_add(sum[0], a);
    sum[1] = v_add(sum[1], b);
    _mm512_store_si512(weights + j, (__m512i)_mm512_cvtne2ps_pbh(b, a));
  }
  return v_sum(v_add(sum[0], sum[1]));
}

CARNOT_INLINE void scale_sums(const tiles_call* c, int64_t r, float factor) {
  float* sums = c->sums + r * c->columns;
  for (int64_t at = 0; at < c->columns; at += V_LANES)
    v_store(sums + at, v_mul(v_load(sums + at), v_set(factor)));
}

// Turns the scores of queries [i0,i1) and |n| keys from |j0| on into weights relative to the new
// maximum of a row, and rescales the sums so far to it. The maxima of all rows come first: the
// processor overlaps rows that do not wait for one another.
static void soften(tiles_call* c, int64_t i0, int64_t i1, int64_t j0, int64_t n) {
  const carnot_attention_bf16_tiles* p = c->p;
  const float log2e = 1.44269504f;
  // Scores that are only scaled, upwards, have their maximum where they have it before.
  const bool plain = !p->mask && p->scale > 0;
  const float scale = plain ? p->scale * log2e : log2e;
  float base[kRows], factor[kRows];
  for (int64_t i = i0, r = 0; i < i1; ++i, ++r) {
    float* s = c->scores + r * kKeys;
    const float most =
        plain ? max_row(s, n) : mask_row(c, p->mask ? p->mask + i * p->mask_ld + j0 : NULL, s, n);
    const float old = j0 > 0 ? c->max[r] : -INFINITY;
    c->max[r] = max_nan(old, most);
    base[r] = c->max[r] == -INFINITY ? 0 : c->max[r];
    if (j0 > 0) {
      float lanes[V_LANES];
      v_store(lanes, exp2_roughly(v_set((old - base[r]) * scale)));
      factor[r] = lanes[0];
    }
  }
  for (int64_t r = 0; r < i1 - i0; ++r) {
    const float sum = exp_row(c->scores + r * kKeys, scale, base[r], n, c->weights + r * kKeys);
    c->sum[r] = j0 > 0 ? c->sum[r] * factor[r] + sum : sum;
    if (j0 > 0 && factor[r] != 1) scale_sums(c, r, factor[r]);
  }
}

// Divides a finished row by its sum of weights.
static void finish_row(const tiles_call* c, int64_t i, int64_t r) {
  const carnot_attention_bf16_tiles* p = c->p;
  const bool empty = p->zero_empty && !(c->sum[r] > 0);
  const vf32 factor = v_set(empty ? 0 : 1 / c->sum[r]);
  const float* sums = c->sums + r * c->columns;
  for (int64_t at = 0; at < p->dv; at += V_LANES) {
    const vf32 y = empty ? v_zero() : v_mul(v_load(sums + at), factor);
    v_store_stored(p->dst_is_bf16, p->dst, i * p->dst_ld + at, y, p->dv - at);
  }
}

// ---- steps ----

CARNOT_INLINE void step_of(int groups, tiles_call* c, int64_t i0, int64_t i1) {
  copy_queries(c, i0, i1);
  for (int64_t j0 = 0, j1; j0 < c->p->kv_len; j0 = j1) {
    j1 = min_i64(c->p->kv_len, j0 + kKeys);
    multiply_keys(groups, c, j0, j1);
    soften(c, i0, i1, j0, j1 - j0);
    multiply_values(groups, c, j0, j1);
  }
  for (int64_t i = i0; i < i1; ++i) finish_row(c, i, i - i0);
}

void CARNOT_KERNEL(attention_bf16_tiles)(const carnot_attention_bf16_tiles* p, int64_t q0,
                                         int64_t q1) {
  tiles_call c;
  find_workspace(p, &c);
  pack_keys(&c);
  pack_values(&c);
  amx_begin();
  for (int64_t i = q0; i < q1; i += kRows) {
    const int64_t end = min_i64(i + kRows, q1);
    if (end - i > 16)
      step_of(2, &c, i, end);
    else
      step_of(1, &c, i, end);
  }
  amx_end();
}
