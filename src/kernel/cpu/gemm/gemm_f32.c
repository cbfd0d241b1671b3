// GEMM with packed weights, and matmul of two activations, which packs B in panels.
#include "kernel/cpu/gemm/gemm_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_functions.h"

static void rows_of_a(const void* problem, int64_t m, int count, int64_t t0, int64_t t1,
                      const void** out_rows) {
  const carnot_gemm_f32* p = problem;
  (void)t0, (void)t1;  // a matrix is one tap
  for (int i = 0; i < count; ++i) out_rows[i] = p->a + (m + i) * p->lda;
}

void CARNOT_KERNEL(gemm_with_ukernels_f32)(const carnot_gemm_f32* p, const gemm_ukernels_f32* tiles,
                                           int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const gemm_macro_kernel_f32 loop = {.rows = rows_of_a,
                                      .problem = p,
                                      .taps = 1,
                                      .depth = p->k,
                                      .tiles = tiles,
                                      .weights = p->b,
                                      .dst = p->c,
                                      .ld = p->ldc,
                                      .epilogue = &p->epilogue};
  CARNOT_KERNEL(gemm_macro_kernel_f32)(&loop, m0, m1, n0, n1);
}

void CARNOT_KERNEL(gemm_f32)(const carnot_gemm_f32* p, int64_t m0, int64_t m1, int64_t n0,
                             int64_t n1) {
  CARNOT_KERNEL(gemm_with_ukernels_f32)(p, &CARNOT_KERNEL(gemm_ukernels_f32), m0, m1, n0, n1);
}

// Whole panels whose rows lie side by side in B: a row of all of them at a time, so that a page of
// B is entered once and not once a panel. In L1 that is no faster.
CARNOT_INLINE void pack_panels(int panels, int64_t k, const float* b, int64_t rs, float* packed) {
  enum { kAhead = 12 };  // rows
  for (int64_t i = 0; i < k; ++i, b += rs, packed += TILE_PANEL) {
    CARNOT_UNROLL
    for (int p = 0; p < panels; ++p) {
      __builtin_prefetch(b + kAhead * rs + p * TILE_PANEL);
      CARNOT_UNROLL
      for (int j = 0; j < TILE_PANEL; j += V_LANES)
        v_store(packed + p * k * TILE_PANEL + j, v_load(b + p * TILE_PANEL + j));
    }
  }
}

// The last panel, of |columns| columns whose rows lie side by side.
static void pack_rest(int64_t columns, int64_t k, const float* b, int64_t rs, float* packed) {
  for (int64_t i = 0; i < k; ++i, b += rs, packed += TILE_PANEL)
    for (int j = 0; j < TILE_PANEL; j += V_LANES)
      v_store(packed + j, j < columns ? v_load_upto(b + j, columns - j) : v_zero());
}

void CARNOT_KERNEL(gemm_pack_f32)(int64_t k, int64_t n, const float* b, int64_t rs, int64_t cs,
                                  float* packed) {
  const bool near = k * rs <= 8 << 10;
  for (int64_t n0 = 0, panels = 1; n0 < n;
       n0 += panels * TILE_PANEL, packed += panels * k * TILE_PANEL, panels = 1) {
    const int64_t columns = min_i64(TILE_PANEL, n - n0);
    if (cs == 1 && !near && n - n0 >= 4 * TILE_PANEL) {
      pack_panels(4, k, b + n0, rs, packed);
      panels = 4;
    } else if (cs == 1 && columns == TILE_PANEL) {
      pack_panels(1, k, b + n0, rs, packed);
    } else if (cs == 1) {
      pack_rest(columns, k, b + n0, rs, packed);
    } else {
      if (columns < TILE_PANEL) memset(packed, 0, (size_t)(k * TILE_PANEL) * sizeof *packed);
      if (rs == 1) {
        CARNOT_KERNEL(transpose_f32)(columns, k, b + n0 * cs, cs, packed, TILE_PANEL);
        continue;
      }
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < columns; ++j)
          packed[i * TILE_PANEL + j] = b[i * rs + (n0 + j) * cs];
    }
  }
}

// The columns are packed into the workspace a few panels at a time and used by all rows while warm.
void CARNOT_KERNEL(matmul_by)(const carnot_matmul_f32* p, const gemm_functions* functions,
                              int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const carnot_gemm_f32* g = &p->gemm;
  for (int64_t n = n0; n < n1; n += 4 * TILE_PANEL) {
    const int64_t columns = min_i64(4 * TILE_PANEL, n1 - n);
    functions->pack(g->k, columns, (const float*)g->b + n * p->cs, p->rs, p->cs, p->workspace);
    carnot_gemm_f32 part = *g;
    part.n = columns;
    part.b = p->workspace;
    part.c += n;
    if (part.epilogue.bias) part.epilogue.bias += n;
    if (part.epilogue.residual) part.epilogue.residual += n;
    functions->gemm(&part, m0, m1, 0, columns);
  }
}

// ---- few rows: packing B would cost more than the arithmetic ----

enum { kFewRows = 8, kAtOnce = 8, kPart = 256, kColumns = 256 };

// c[m][n] += sum_k a[m][k] * b[k * rs + n] for |n| columns, some rows of b at once, which all rows
// of a use while they are in registers. |lda| and |ldc| apart.
static void add_rows(int64_t rows, int64_t k, int64_t n, const float* a, int64_t lda,
                     const float* b, int64_t rs, float* c, int64_t ldc) {
  int64_t i = 0;
  for (; i + kAtOnce <= k; i += kAtOnce) {
    for (int64_t j = 0; j < n; j += V_LANES) {
      vf32 x[kAtOnce];
      for (int u = 0; u < kAtOnce; ++u) x[u] = v_load_upto(b + (i + u) * rs + j, n - j);
      for (int64_t m = 0; m < rows; ++m) {
        vf32 sum = v_load_upto(c + m * ldc + j, n - j);
        for (int u = 0; u < kAtOnce; ++u) sum = v_fma(v_set(a[m * lda + i + u]), x[u], sum);
        v_store_upto(c + m * ldc + j, sum, n - j);
      }
    }
  }
  for (; i < k; ++i) {
    for (int64_t j = 0; j < n; j += V_LANES) {
      const vf32 x = v_load_upto(b + i * rs + j, n - j);
      for (int64_t m = 0; m < rows; ++m) {
        float* at = c + m * ldc + j;
        v_store_upto(at, v_fma(v_set(a[m * lda + i]), x, v_load_upto(at, n - j)), n - j);
      }
    }
  }
}

// c[m][n] = sum_k a[m][k] * b[k * rs + n] for |n| <= kColumns and |rows| <= kFewRows, in parts of K
// that start from zero.
static void sum_rows(int64_t rows, int64_t k, int64_t n, const float* a, int64_t lda,
                     const float* b, int64_t rs, float* c, int64_t ldc) {
  float part[kFewRows * kColumns];
  for (int64_t m = 0; m < rows; ++m) memset(c + m * ldc, 0, (size_t)n * sizeof *c);
  add_rows(rows, min_i64(k, kPart), n, a, lda, b, rs, c, ldc);
  for (int64_t i = kPart; i < k; i += kPart) {
    memset(part, 0, (size_t)(rows * kColumns) * sizeof *part);
    add_rows(rows, min_i64(kPart, k - i), n, a + i, lda, b + i * rs, rs, part, kColumns);
    for (int64_t m = 0; m < rows; ++m) {
      for (int64_t j = 0; j < n; j += V_LANES) {
        float* at = c + m * ldc + j;
        v_store_upto(at, v_add(v_load_upto(at, n - j), v_load_upto(part + m * kColumns + j, n - j)),
                     n - j);
      }
    }
  }
}

// In parts of kPart elements a lane.
static float dot(int64_t k, const float* a, const float* b) {
  vf32 total = v_zero();
  int64_t i = 0;
  while (i < k) {
    vf32 sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    const int64_t end = min_i64(k, i + 4 * kPart * V_LANES);
    for (; i + 4 * V_LANES <= end; i += 4 * V_LANES) {
      for (int j = 0; j < 4; ++j) {
        sum[j] = v_fma(v_load(a + i + j * V_LANES), v_load(b + i + j * V_LANES), sum[j]);
      }
    }
    for (; i < end; i += V_LANES) {
      sum[0] = v_fma(v_load_upto(a + i, k - i), v_load_upto(b + i, k - i), sum[0]);
    }
    total = v_add(total, v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
  }
  return v_sum(total);
}

// The sums alone; rows of b or its columns are contiguous.
static void few_rows(const carnot_matmul_f32* p, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const carnot_gemm_f32* g = &p->gemm;
  const float* b = g->b;
  const float* a = g->a + m0 * g->lda;
  float* c = g->c + m0 * g->ldc;
  for (int64_t n = n0; p->cs != 1 && n < n1; ++n) {
    for (int64_t m = 0; m < m1 - m0; ++m) {
      c[m * g->ldc + n] = dot(g->k, a + m * g->lda, b + n * p->cs);
    }
  }
  for (int64_t n = n0; p->cs == 1 && n < n1; n += kColumns) {
    sum_rows(m1 - m0, g->k, min_i64(kColumns, n1 - n), a, g->lda, b + n, p->rs, c + n, g->ldc);
  }
}

// The epilogue over sums that are in c: a GEMM with K = 0 whose residual is c.
static void end_rows(const carnot_gemm_f32* g, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const carnot_epilogue_f32* e = &g->epilogue;
  if (!e->bias && !e->residual && e->activation == CARNOT_KERNEL_ACTIVATION_NONE) return;
  for (int64_t m = m0; m < m1 && e->residual; ++m) {
    for (int64_t n = n0; n < n1; ++n) g->c[m * g->ldc + n] += e->residual[m * e->residual_ld + n];
  }
  carnot_gemm_f32 end = *g;
  end.k = 0;
  end.epilogue.residual = g->c;
  end.epilogue.residual_ld = g->ldc;
  CARNOT_KERNEL(gemm_f32)(&end, m0, m1, n0, n1);
}

void CARNOT_KERNEL(matmul_f32)(const carnot_matmul_f32* p, int64_t m0, int64_t m1, int64_t n0,
                               int64_t n1) {
  // A residual in c is still needed when the sums are written.
  const bool in_place = p->gemm.epilogue.residual == p->gemm.c;
  if (p->gemm.m <= kFewRows && (p->cs == 1 || p->rs == 1) && !in_place) {
    few_rows(p, m0, m1, n0, n1);
    end_rows(&p->gemm, m0, m1, n0, n1);
    return;
  }
  const gemm_functions functions = {CARNOT_KERNEL(gemm_f32), CARNOT_KERNEL(gemm_pack_f32)};
  CARNOT_KERNEL(matmul_by)(p, &functions, m0, m1, n0, n1);
}
