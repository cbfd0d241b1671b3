// Products over weights packed k2n16 bf16: a lane holds two weights of a column, at even k in its
// lower half. Levels with bf16 products take rows rounded to bf16, the others widen the weights.
#include "kernel/cpu/gemm_loop_f32.h"
#include "kernel/cpu/kernels_isa.h"
#include "kernel/cpu/narrow_bf16.h"

#if defined(__AMX_BF16__)
#include "kernel/cpu/gemm_tile_amx.h"
#else

#define TILE_TABLE gemm_tiles_bf16
#if defined(__AVX512BF16__)
#define TILE_FORMAT .weight_bytes = 2, .depth_unit = 2, .narrow = narrow_bf16
#else
#define TILE_FORMAT .weight_bytes = 2, .depth_unit = 2
#endif
#include "kernel/cpu/gemm_tile_body.h"

CARNOT_INLINE void load_pairs(int width, const gemm_tile_f32* t, const int32_t* b, vi32* pairs) {
  const int64_t panel = t->b_panel / (int64_t)sizeof *b;
  CARNOT_UNROLL
  for (int j = 0; j < width; ++j) {
    pairs[j] = v_iload(b + j / VECTORS * panel + j % VECTORS * V_LANES);
  }
}

#if defined(__AVX512BF16__)

CARNOT_INLINE void tile_products(int row_count, int width, const gemm_tile_f32* t, vf32* acc) {
  const int32_t* b = t->b;
  const uint16_t* a[TILE_MAX_ROWS];
  CARNOT_UNROLL
  for (int i = 0; i < row_count; ++i) a[i] = t->rows[i];
  for (int64_t k = 0; k < t->depth; k += 2, b += TILE_PANEL) {
    vi32 pairs[16];
    load_pairs(width, t, b, pairs);
    CARNOT_UNROLL
    for (int x = 0; x < row_count * width; ++x) {
      int32_t pair;
      memcpy(&pair, a[x / width] + k, sizeof pair);
      acc[x] = _mm512_dpbf16_ps(acc[x], (__m512bh)v_iset(pair), (__m512bh)pairs[x % width]);
    }
  }
}

#else

CARNOT_INLINE vf32 even_weights(vi32 pairs) { return v_of_bits(v_ishl(pairs, 16)); }
CARNOT_INLINE vf32 odd_weights(vi32 pairs) {
  return v_of_bits(v_iand(pairs, v_iset((int32_t)0xffff0000)));
}

CARNOT_INLINE void tile_products(int row_count, int width, const gemm_tile_f32* t, vf32* acc) {
  const int32_t* b = t->b;
  for (int64_t tap = 0; tap < t->taps; ++tap) {
    const float* a[TILE_MAX_ROWS];
    CARNOT_UNROLL
    for (int i = 0; i < row_count; ++i) a[i] = t->rows[tap * row_count + i];
    vi32 pairs[16];
    vf32 bv[16];
    int64_t k = 0;
    for (; k + 1 < t->depth; k += 2, b += TILE_PANEL) {
      load_pairs(width, t, b, pairs);
      CARNOT_UNROLL
      for (int j = 0; j < width; ++j) bv[j] = even_weights(pairs[j]);
      CARNOT_UNROLL
      for (int x = 0; x < row_count * width; ++x) {
        acc[x] = v_fma(v_set(a[x / width][k]), bv[x % width], acc[x]);
      }
      CARNOT_UNROLL
      for (int j = 0; j < width; ++j) bv[j] = odd_weights(pairs[j]);
      CARNOT_UNROLL
      for (int x = 0; x < row_count * width; ++x) {
        acc[x] = v_fma(v_set(a[x / width][k + 1]), bv[x % width], acc[x]);
      }
    }
    if (k == t->depth) continue;
    load_pairs(width, t, b, pairs);
    b += TILE_PANEL;
    CARNOT_UNROLL
    for (int x = 0; x < row_count * width; ++x) {
      acc[x] = v_fma(v_set(a[x / width][k]), even_weights(pairs[x % width]), acc[x]);
    }
  }
}

#endif
#endif  // __AMX_BF16__

void CARNOT_KERNEL(gemm_bf16)(const carnot_gemm_f32* p, int64_t m0, int64_t m1, int64_t n0,
                              int64_t n1) {
  GEMM_LOOP(gemm_tiled_f32)(p, &CARNOT_KERNEL(gemm_tiles_bf16), m0, m1, n0, n1);
}

void CARNOT_KERNEL(conv2d_bf16)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                int64_t n1) {
  GEMM_LOOP(conv2d_tiled_f32)(p, &CARNOT_KERNEL(gemm_tiles_bf16), m0, m1, n0, n1);
}
