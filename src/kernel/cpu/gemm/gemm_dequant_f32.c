// GEMM over weights of 2, 4 or 8 bits in blocks: one kernel for few rows, which reads the packed
// weights once a row, and dequantization in front of the float32 GEMM for many.
#include "kernel/cpu/gemm/gemm_dequant_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum { kMostEach = 16, kVectorsOfPanel = TILE_PANEL / V_LANES, kMostVectors = 4 };

// The exponent bits of 2^(23 - n): or-ed to a number that begins at bit n of the mantissa they make
// the float 2^(23 - n) + number, exactly.
#define EXPONENT_BITS(n) ((127 + 23 - (n)) << 23)

// One or more vectors of columns, all in the block that is being read.
typedef struct lanes {
  const int32_t* words[kMostVectors];                    // of the group that comes next
  vf32 low_zero[kMostVectors], high_zero[kMostVectors];  // zero point + what the exponent adds
} lanes;

// The number in the lowest |bits| of each word, and the one above it, plus what the exponent adds.
CARNOT_INLINE vf32 low_number(vi32 x, int bits) {
  return v_of_bits(v_iand_or(x, v_iset((1 << bits) - 1), v_iset(EXPONENT_BITS(0))));
}

CARNOT_INLINE vf32 high_number(vi32 x, int bits) {
  return v_of_bits(v_iand_or(x, v_iset(((1 << bits) - 1) << bits), v_iset(EXPONENT_BITS(bits))));
}

CARNOT_INLINE void set_zeros(const carnot_gemm_dequant_f32* p, int64_t at, int vectors, int bits,
                             lanes* l) {
  const int64_t blocks = carnot_dequant_blocks(&p->shape);
  const vf32 low = v_of_bits(v_iset(EXPONENT_BITS(0)));
  const vf32 high = v_of_bits(v_iset(EXPONENT_BITS(bits)));
  CARNOT_UNROLL
  for (int v = 0; v < vectors; ++v) {
    const int64_t offset =
        at + v / kVectorsOfPanel * blocks * TILE_PANEL + v % kVectorsOfPanel * V_LANES;
    const vf32 zero = p->zeros ? v_load_bytes(p->zeros + offset, false) : v_set((float)p->zero);
    l->low_zero[v] = v_add(low, zero);
    l->high_zero[v] = v_add(high, zero);
  }
}

// acc[2 v], acc[2 v + 1] += the products of one group.
CARNOT_INLINE void add_group(const float* a, int vectors, int bits, lanes* l, vf32* acc) {
  vi32 x[kMostVectors];
  CARNOT_UNROLL
  for (int v = 0; v < vectors; ++v) x[v] = v_iload(l->words[v]), l->words[v] += TILE_PANEL;
  CARNOT_UNROLL
  for (int j = 0; j < 32 / bits; j += 2) {
    const vf32 first = v_set(a[carnot_dequant_place(j, bits)]);
    const vf32 second = v_set(a[carnot_dequant_place(j + 1, bits)]);
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) {
      acc[2 * v] = v_fma(first, v_sub(low_number(x[v], bits), l->low_zero[v]), acc[2 * v]);
      acc[2 * v + 1] =
          v_fma(second, v_sub(high_number(x[v], bits), l->high_zero[v]), acc[2 * v + 1]);
      x[v] = v_ishr(x[v], 2 * bits);
    }
  }
}

// The last group of a block that does not fill it: what lies behind |left| elements is not read.
CARNOT_INLINE void add_rest(const float* a, int64_t left, int vectors, int bits, lanes* l,
                            vf32* acc) {
  float padded[kMostEach] = {0};
  for (int64_t i = 0; i < left; ++i) padded[i] = a[i];
  add_group(padded, vectors, bits, l, acc);
}

// The sums of one row by |vectors| vectors of columns from panel |panel| on.
CARNOT_INLINE void sum_row(const carnot_gemm_dequant_f32* p, const float* a, int64_t panel,
                           int vectors, int bits, vf32* out) {
  const carnot_dequant_shape* s = &p->shape;
  const int64_t groups = carnot_dequant_groups(s), blocks = carnot_dequant_blocks(s),
                each = 32 / bits;
  lanes l;
  CARNOT_UNROLL
  for (int v = 0; v < vectors; ++v) {
    l.words[v] = (const int32_t*)p->gemm.b + (panel + v / kVectorsOfPanel) * groups * TILE_PANEL +
                 v % kVectorsOfPanel * V_LANES;
    out[v] = v_zero();
  }
  set_zeros(p, panel * blocks * TILE_PANEL, vectors, bits, &l);
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t depth = min_i64(s->block, s->k - b * s->block);
    const int64_t at = (panel * blocks + b) * TILE_PANEL;
    vf32 acc[2 * kMostVectors];
    CARNOT_UNROLL
    for (int x = 0; x < 2 * vectors; ++x) acc[x] = v_zero();
    if (p->zeros && b > 0) set_zeros(p, at, vectors, bits, &l);
    int64_t k = 0;
    for (; k + each <= depth; k += each) add_group(a + k, vectors, bits, &l, acc);
    if (k < depth) add_rest(a + k, depth - k, vectors, bits, &l, acc);
    a += depth;
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) {
      const vf32 scale = v_load(p->scales + at + v / kVectorsOfPanel * blocks * TILE_PANEL +
                                v % kVectorsOfPanel * V_LANES);
      out[v] = v_fma(v_add(acc[2 * v], acc[2 * v + 1]), scale, out[v]);
    }
  }
}

// One row of |vectors| vectors of columns from |n| on, with bias and residual.
CARNOT_INLINE void store_row(const carnot_gemm_dequant_f32* p, int64_t m, int64_t n, int64_t n1,
                             int vectors, int bits) {
  const carnot_epilogue_f32* e = &p->gemm.epilogue;
  float* c = p->gemm.c + m * p->gemm.ldc;
  vf32 sums[kMostVectors];
  sum_row(p, p->gemm.a + m * p->gemm.lda, n / TILE_PANEL, vectors, bits, sums);
  for (int v = 0; v < vectors && n < n1; ++v, n += V_LANES) {
    vf32 x = sums[v];
    if (e->bias) x = v_add(x, v_load_upto(e->bias + n, n1 - n));
    if (e->residual) x = v_add(x, v_load_upto(e->residual + m * e->residual_ld + n, n1 - n));
    v_store_upto(c + n, x, n1 - n);
  }
}

CARNOT_INLINE void few_rows_of(const carnot_gemm_dequant_f32* p, int64_t m0, int64_t m1, int64_t n0,
                               int64_t n1, int bits) {
  const carnot_epilogue_f32* e = &p->gemm.epilogue;
  for (int64_t n = n0; n < n1;) {
    const bool wide = n1 - n > (kMostVectors - 1) * V_LANES;
    const int64_t columns = wide ? kMostVectors * V_LANES : TILE_PANEL;
    for (int64_t m = m0; m < m1; ++m) {
      if (wide)
        store_row(p, m, n, n1, kMostVectors, bits);
      else
        store_row(p, m, n, n1, kVectorsOfPanel, bits);
    }
    n += columns;
  }
  if (e->activation == CARNOT_KERNEL_ACTIVATION_NONE) return;
  CARNOT_KERNEL(activate_f32)
  (e->activation, e->a, e->b, p->gemm.c + m0 * p->gemm.ldc + n0, p->gemm.ldc, m1 - m0, n1 - n0);
}

// ---- many rows ----

// A group of one panel as float32: rows of 16 columns, |count| of them.
CARNOT_INLINE void dequantize_group(const lanes* l, const vf32* scale, int64_t count, int bits,
                                    float* out) {
  CARNOT_UNROLL
  for (int v = 0; v < kVectorsOfPanel; ++v) {
    vi32 x = v_iload(l->words[v]);
    CARNOT_UNROLL
    for (int j = 0; j < 32 / bits; ++j, x = v_ishr(x, bits)) {
      const int place = carnot_dequant_place(j, bits);
      const vf32 w = v_mul(v_sub(low_number(x, bits), l->low_zero[v]), scale[v]);
      if (place < count) v_store(out + place * TILE_PANEL + v * V_LANES, w);
    }
  }
}

CARNOT_INLINE void dequantize_panel_of(const carnot_gemm_dequant_f32* p, int64_t panel, int bits,
                                       float* out) {
  const carnot_dequant_shape* s = &p->shape;
  const int64_t blocks = carnot_dequant_blocks(s), each = 32 / bits;
  const int32_t* words = (const int32_t*)p->gemm.b + panel * carnot_dequant_groups(s) * TILE_PANEL;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t at = (panel * blocks + b) * TILE_PANEL;
    const int64_t depth = min_i64(s->block, s->k - b * s->block);
    lanes l;
    vf32 scale[kMostVectors];
    set_zeros(p, at, kVectorsOfPanel, bits, &l);
    for (int v = 0; v < kVectorsOfPanel; ++v) scale[v] = v_load(p->scales + at + v * V_LANES);
    for (int64_t k = 0; k < depth; k += each, words += TILE_PANEL) {
      for (int v = 0; v < kVectorsOfPanel; ++v) l.words[v] = words + v * V_LANES;
      dequantize_group(&l, scale, min_i64(each, depth - k), bits, out);
      out += min_i64(each, depth - k) * TILE_PANEL;
    }
  }
}

static void dequantize_panel(const carnot_gemm_dequant_f32* p, int64_t panel, float* out) {
  switch (p->shape.bits) {
    case 2: dequantize_panel_of(p, panel, 2, out); break;
    case 4: dequantize_panel_of(p, panel, 4, out); break;
    default: dequantize_panel_of(p, panel, 8, out); break;
  }
}

static void many_rows(const carnot_gemm_dequant_f32* p, int64_t m0, int64_t m1, int64_t n0,
                      int64_t n1) {
  const int64_t k = p->shape.k, step = carnot_dequant_columns(k);
  for (int64_t n = n0; n < n1; n += step) {
    carnot_gemm_f32 part = p->gemm;
    part.n = min_i64(step, n1 - n);
    part.b = p->workspace;
    part.c += n;
    if (part.epilogue.bias) part.epilogue.bias += n;
    if (part.epilogue.residual) part.epilogue.residual += n;
    for (int64_t i = 0; i < part.n; i += TILE_PANEL) {
      dequantize_panel(p, (n + i) / TILE_PANEL, p->workspace + i * k);
    }
    CARNOT_KERNEL(gemm_f32)(&part, m0, m1, 0, part.n);
  }
}

void CARNOT_KERNEL(gemm_dequant_f32)(const carnot_gemm_dequant_f32* p, int64_t m0, int64_t m1,
                                     int64_t n0, int64_t n1) {
  if (p->gemm.m > CARNOT_DEQUANT_FEW_ROWS) {
    many_rows(p, m0, m1, n0, n1);
    return;
  }
  switch (p->shape.bits) {
    case 2: few_rows_of(p, m0, m1, n0, n1, 2); break;
    case 4: few_rows_of(p, m0, m1, n0, n1, 4); break;
    default: few_rows_of(p, m0, m1, n0, n1, 8); break;
  }
}
