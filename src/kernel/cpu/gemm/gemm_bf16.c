// GEMM over weights packed k2n16 bf16: a lane holds two weights of a column, at even k in its
// lower half. Levels with BF16 dot products take rows rounded to BF16, the others convert the
// weights to float32.
#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/convert_a_bf16.h"
#include "kernel/cpu/gemm/gemm_functions.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

#if defined(__AMX_BF16__)
#include "kernel/cpu/gemm/gemm_ukernel_amx.h"
#else

#define TILE_TABLE gemm_ukernels_bf16
#define TILE_IN_ONE_PART  // BF16 rounds far more than the sum does
#if defined(__AVX512BF16__)
#define TILE_FORMAT .weight_bytes = 2, .depth_unit = 2, .convert_a = convert_a_bf16
#else
#define TILE_FORMAT .weight_bytes = 2, .depth_unit = 2
#endif
#include "kernel/cpu/gemm/gemm_ukernel_body.h"

CARNOT_INLINE void load_pairs(int width, const gemm_ukernel_f32* t, const int32_t* b, vi32* pairs) {
  const int64_t panel = t->b_panel / (int64_t)sizeof *b;
  CARNOT_UNROLL
  for (int j = 0; j < width; ++j) {
    pairs[j] = v_iload(b + j / VECTORS * panel + j % VECTORS * V_LANES);
  }
}

#if defined(__AVX512BF16__)

CARNOT_INLINE const void* tile_accumulate(int row_count, int width, const gemm_ukernel_f32* t,
                                          const tile_part* part, vf32* acc) {
  const int32_t* b = part->b;
  const uint16_t* a[TILE_MAX_ROWS];
  CARNOT_UNROLL
  for (int i = 0; i < row_count; ++i) a[i] = t->rows[i];
  for (int64_t k = part->k0; k < part->k1; k += 2, b += TILE_PANEL) {
    vi32 pairs[16];
    load_pairs(width, t, b, pairs);
    CARNOT_UNROLL
    for (int x = 0; x < row_count * width; ++x) {
      int32_t pair;
      memcpy(&pair, a[x / width] + k, sizeof pair);
      acc[x] = _mm512_dpbf16_ps(acc[x], (__m512bh)v_iset(pair), (__m512bh)pairs[x % width]);
    }
  }
  return b;
}

#else

CARNOT_INLINE vf32 even_weights(vi32 pairs) { return v_of_bits(v_ishl(pairs, 16)); }
CARNOT_INLINE vf32 odd_weights(vi32 pairs) {
  return v_of_bits(v_iand(pairs, v_iset((int32_t)0xffff0000)));
}

CARNOT_INLINE const void* tile_accumulate(int row_count, int width, const gemm_ukernel_f32* t,
                                          const tile_part* part, vf32* acc) {
  const int32_t* b = part->b;
  for (int64_t tap = part->t0; tap < part->t1; ++tap) {
    const float* a[TILE_MAX_ROWS];
    CARNOT_UNROLL
    for (int i = 0; i < row_count; ++i) a[i] = t->rows[tap * row_count + i];
    vi32 pairs[16];
    vf32 bv[16];
    int64_t k = part->k0;
    for (; k + 1 < part->k1; k += 2, b += TILE_PANEL) {
      load_pairs(width, t, b, pairs);
      if (row_count == 1) {  // wide: even and odd weights of all columns would not fit in registers
        CARNOT_UNROLL
        for (int x = 0; x < width; ++x) {
          acc[x] = v_fma(v_set(a[0][k]), even_weights(pairs[x]), acc[x]);
          acc[x] = v_fma(v_set(a[0][k + 1]), odd_weights(pairs[x]), acc[x]);
        }
        continue;
      }
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
    if (k == part->k1) continue;
    load_pairs(width, t, b, pairs);
    b += TILE_PANEL;
    CARNOT_UNROLL
    for (int x = 0; x < row_count * width; ++x) {
      acc[x] = v_fma(v_set(a[x / width][k]), even_weights(pairs[x % width]), acc[x]);
    }
  }
  return b;
}

#endif
#endif  // __AMX_BF16__

void CARNOT_KERNEL(gemm_bf16)(const carnot_gemm_f32* p, int64_t m0, int64_t m1, int64_t n0,
                              int64_t n1) {
  GEMM_MACRO_KERNEL(gemm_with_ukernels_f32)(p, &CARNOT_KERNEL(gemm_ukernels_bf16), m0, m1, n0, n1);
}

void CARNOT_KERNEL(conv2d_bf16)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                int64_t n1) {
#if defined(__AMX_BF16__)
  if (CARNOT_KERNEL(conv2d_rounded)(p, m0, m1, n0, n1)) return;
#endif
  GEMM_MACRO_KERNEL(conv2d_tiled_f32)(p, &CARNOT_KERNEL(gemm_ukernels_bf16), m0, m1, n0, n1);
}

#if defined(__AVX512BF16__)

carnot_gemm_pack_f32_fn GEMM_MACRO_KERNEL(gemm_pack_f32), CARNOT_KERNEL(gemm_pack_bf16);

// Two rows of 16 as pairs of bf16, the first one in the lower halves.
CARNOT_INLINE __m512i pairs_of(vf32 even, vf32 odd) {
  static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i rows = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
  return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), rows);
}

// k2n16 bf16 by way of k1n16 f32 in the same memory: what is written lies behind what is read.
void CARNOT_KERNEL(gemm_pack_bf16)(int64_t k, int64_t n, const float* b, int64_t rs, int64_t cs,
                                   float* packed) {
  GEMM_MACRO_KERNEL(gemm_pack_f32)(k, n, b, rs, cs, packed);
  char* dst = (char*)packed;
  for (int64_t j = 0; j < n; j += TILE_PANEL, packed += k * TILE_PANEL) {
    for (int64_t i = 0; i < k; i += 2, dst += 64) {
      const vf32 even = v_load(packed + i * TILE_PANEL);
      const vf32 odd = i + 1 < k ? v_load(packed + (i + 1) * TILE_PANEL) : v_zero();
      _mm512_storeu_si512(dst, pairs_of(even, odd));
    }
  }
}

void CARNOT_KERNEL(matmul_bf16)(const carnot_matmul_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                int64_t n1) {
  const gemm_functions functions = {CARNOT_KERNEL(gemm_bf16), CARNOT_KERNEL(gemm_pack_bf16)};
  GEMM_MACRO_KERNEL(matmul_by)(p, &functions, m0, m1, n0, n1);
}

#else

void CARNOT_KERNEL(matmul_bf16)(const carnot_matmul_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                int64_t n1) {
  CARNOT_KERNEL(matmul_f32)(p, m0, m1, n0, n1);
}

#endif
