// GEMM of activations in 8 bits over weights of 2, 4 or 8 bits in blocks.
#include "kernel/cpu/gemm/gemm_dequant_s8.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum { kVectorsOfPanel = TILE_PANEL / V_LANES, kMostVectors = 4, kMostRows = 4 };

CARNOT_INLINE int32_t word_of(const int8_t* p) {
  int32_t x;
  memcpy(&x, p, sizeof x);
  return x;
}

// acc + the dot product of four unsigned bytes below 2^bits and four signed ones, in each lane.
#if defined(__AVX512VNNI__)
CARNOT_INLINE vi32 dot(vi32 acc, vi32 q, int32_t r, int bits) {
  (void)bits;
  return _mm512_dpbusd_epi32(acc, q, _mm512_set1_epi32(r));
}
#elif defined(__AVX512F__)
CARNOT_INLINE vi32 dot(vi32 acc, vi32 q, int32_t r, int bits) {
  const __m512i rs = _mm512_set1_epi32(r);
  if (bits < 8) {  // 2 * 15 * 127 fits 16 bits
    const __m512i pairs = _mm512_maddubs_epi16(q, rs);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
  const __m512i low = _mm512_and_si512(q, _mm512_set1_epi16(255)), high = _mm512_srli_epi16(q, 8);
  const __m512i r_low = _mm512_srai_epi16(_mm512_slli_epi16(rs, 8), 8);
  acc = _mm512_add_epi32(acc, _mm512_madd_epi16(low, r_low));
  return _mm512_add_epi32(acc, _mm512_madd_epi16(high, _mm512_srai_epi16(rs, 8)));
}
#elif defined(__AVX2__)
CARNOT_INLINE vi32 dot(vi32 acc, vi32 q, int32_t r, int bits) {
  const __m256i rs = _mm256_set1_epi32(r);
  if (bits < 8) {
    const __m256i pairs = _mm256_maddubs_epi16(q, rs);
    return _mm256_add_epi32(acc, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  const __m256i low = _mm256_and_si256(q, _mm256_set1_epi16(255)), high = _mm256_srli_epi16(q, 8);
  const __m256i r_low = _mm256_srai_epi16(_mm256_slli_epi16(rs, 8), 8);
  acc = _mm256_add_epi32(acc, _mm256_madd_epi16(low, r_low));
  return _mm256_add_epi32(acc, _mm256_madd_epi16(high, _mm256_srai_epi16(rs, 8)));
}
#else
CARNOT_INLINE vi32 dot(vi32 acc, vi32 q, int32_t r, int bits) {
  (void)bits;
  for (int i = 0; i < 4; ++i, q >>= 8) acc += (q & 255) * (int32_t)(int8_t)((uint32_t)r >> 8 * i);
  return acc;
}
#endif

typedef struct tile {
  const int32_t* words[kMostVectors];  // of the group that comes next
  const int8_t* rows[kMostRows];       // likewise
} tile;

CARNOT_INLINE int64_t vector_at(int v, int64_t panel_size) {
  return v / kVectorsOfPanel * panel_size + v % kVectorsOfPanel * V_LANES;
}

// acc += the products of one group.
CARNOT_INLINE void add_group(int rows, int vectors, int bits, tile* t, vi32* acc) {
  vi32 x[kMostVectors];
  const vi32 mask = v_iset((int32_t)(0x01010101U * ((1U << bits) - 1)));
  CARNOT_UNROLL
  for (int v = 0; v < vectors; ++v) x[v] = v_iload(t->words[v]), t->words[v] += TILE_PANEL;
  CARNOT_UNROLL
  for (int s = 0; s < 8 / bits; ++s) {
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) {
      const vi32 q = v_iand(x[v], mask);
      CARNOT_UNROLL
      for (int i = 0; i < rows; ++i)
        acc[i * vectors + v] = dot(acc[i * vectors + v], q, word_of(t->rows[i] + 4 * s), bits);
      x[v] = v_ishr(x[v], bits);
    }
  }
  CARNOT_UNROLL
  for (int i = 0; i < rows; ++i) t->rows[i] += 32 / bits;
}

// The sums of |rows| rows from |m| on by |vectors| vectors of columns from panel |panel| on.
CARNOT_INLINE void sum_tile(const carnot_gemm_dequant_f32* p, const carnot_dequant_rows* a,
                            int64_t m, int64_t panel, int rows, int vectors, int bits, vf32* out) {
  const carnot_dequant_shape* s = &p->shape;
  const int64_t groups = carnot_dequant_groups(s), blocks = carnot_dequant_blocks(s);
  const int64_t each = 32 / bits, row_bytes = carnot_dequant_row_bytes(s);
  tile t;
  for (int v = 0; v < vectors; ++v)
    t.words[v] =
        (const int32_t*)p->gemm.b + panel * groups * TILE_PANEL + vector_at(v, groups * TILE_PANEL);
  for (int i = 0; i < rows; ++i) t.rows[i] = a->numbers + (m + i) * row_bytes;
  CARNOT_UNROLL
  for (int x = 0; x < rows * vectors; ++x) out[x] = v_zero();
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t depth = min_i64(s->block, s->k - b * s->block);
    vi32 acc[kMostRows * kMostVectors];
    CARNOT_UNROLL
    for (int x = 0; x < rows * vectors; ++x) acc[x] = v_iset(0);
    for (int64_t k = 0; k < depth; k += each) add_group(rows, vectors, bits, &t, acc);
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) {
      const int64_t at = (panel * blocks + b) * TILE_PANEL + vector_at(v, blocks * TILE_PANEL);
      const vf32 scale = v_load(p->scales + at);
      const vf32 zero = p->zeros ? v_load_bytes(p->zeros + at, false) : v_set((float)p->zero);
      CARNOT_UNROLL
      for (int i = 0; i < rows; ++i) {
        const int64_t row = (m + i) * blocks + b;
        const vf32 sum = v_fnma(zero, v_set(a->sums[row]), v_of_int(acc[i * vectors + v]));
        out[i * vectors + v] =
            v_fma(sum, v_mul(scale, v_set(a->scales[row])), out[i * vectors + v]);
      }
    }
  }
}

CARNOT_INLINE void store_tile(const carnot_gemm_dequant_f32* p, const carnot_dequant_rows* a,
                              int64_t m, int64_t n, int64_t n1, int rows, int vectors, int bits) {
  const carnot_epilogue_f32* e = &p->gemm.epilogue;
  vf32 sums[kMostRows * kMostVectors];
  sum_tile(p, a, m, n / TILE_PANEL, rows, vectors, bits, sums);
  for (int i = 0; i < rows; ++i) {
    float* c = p->gemm.c + (m + i) * p->gemm.ldc;
    const float* residual = e->residual ? e->residual + (m + i) * e->residual_ld : NULL;
    int64_t j = n;
    for (int v = 0; v < vectors && j < n1; ++v, j += V_LANES) {
      vf32 x = sums[i * vectors + v];
      if (e->bias) x = v_add(x, v_load_upto(e->bias + j, n1 - j));
      if (residual) x = v_add(x, v_load_upto(residual + j, n1 - j));
      v_store_upto(c + j, x, n1 - j);
    }
  }
}

// Some rows at a time, so that a group of weights is unpacked once for them.
CARNOT_INLINE void rows_of(const carnot_gemm_dequant_f32* p, const carnot_dequant_rows* a,
                           int64_t m0, int64_t m1, int64_t n0, int64_t n1, int bits) {
  for (int64_t n = n0; n < n1;) {
    const bool wide = n1 - n > (kMostVectors - 1) * V_LANES;
    const int64_t columns = wide ? kMostVectors * V_LANES : TILE_PANEL;
    int64_t m = m0;
    for (; m + kMostRows <= m1; m += kMostRows)
      for (int64_t j = n; j < min_i64(n + columns, n1); j += TILE_PANEL)
        store_tile(p, a, m, j, min_i64(j + TILE_PANEL, n1), kMostRows, kVectorsOfPanel, bits);
    for (; m < m1; ++m) {
      if (wide)
        store_tile(p, a, m, n, n1, 1, kMostVectors, bits);
      else
        store_tile(p, a, m, n, n1, 1, kVectorsOfPanel, bits);
    }
    n += columns;
  }
}

void CARNOT_KERNEL(gemm_dequant_s8)(const carnot_gemm_dequant_f32* p, const carnot_dequant_rows* a,
                                    int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const carnot_epilogue_f32* e = &p->gemm.epilogue;
  switch (p->shape.bits) {
    case 2: rows_of(p, a, m0, m1, n0, n1, 2); break;
    case 4: rows_of(p, a, m0, m1, n0, n1, 4); break;
    default: rows_of(p, a, m0, m1, n0, n1, 8); break;
  }
  if (e->activation == CARNOT_KERNEL_ACTIVATION_NONE) return;
  CARNOT_KERNEL(activate_f32)
  (e->activation, e->a, e->b, p->gemm.c + m0 * p->gemm.ldc + n0, p->gemm.ldc, m1 - m0, n1 - n0);
}
