#include "kernel/cpu/gemm_f32.h"

#include "kernel/cpu/gemm_products.h"
#include "kernel/cpu/kernels_isa.h"

static void rows_of_a(const void* problem, int64_t m, int count, int64_t t0, int64_t t1,
                      const void** out_rows) {
  const carnot_gemm_f32* p = problem;
  (void)t0, (void)t1;  // a matrix is one tap
  for (int i = 0; i < count; ++i) out_rows[i] = p->a + (m + i) * p->lda;
}

void CARNOT_KERNEL(gemm_tiled_f32)(const carnot_gemm_f32* p, const gemm_tiles_f32* tiles,
                                   int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const gemm_loop_f32 loop = {rows_of_a, p, 1, p->k, tiles, p->b, p->c, p->ldc, &p->epilogue};
  CARNOT_KERNEL(gemm_loop_f32)(&loop, m0, m1, n0, n1);
}

void CARNOT_KERNEL(gemm_f32)(const carnot_gemm_f32* p, int64_t m0, int64_t m1, int64_t n0,
                             int64_t n1) {
  CARNOT_KERNEL(gemm_tiled_f32)(p, &CARNOT_KERNEL(gemm_tiles_f32), m0, m1, n0, n1);
}

void CARNOT_KERNEL(gemm_pack_f32)(int64_t k, int64_t n, const float* b, int64_t rs, int64_t cs,
                                  float* packed) {
  for (int64_t n0 = 0; n0 < n; n0 += TILE_PANEL, packed += k * TILE_PANEL) {
    const int64_t columns = min_i64(TILE_PANEL, n - n0);
    if (cs == 1) {
      for (int64_t i = 0; i < k; ++i) {
        const float* row = b + i * rs + n0;
        for (int j = 0; j < TILE_PANEL; j += V_LANES) {
          const vf32 x = j < columns ? v_load_upto(row + j, columns - j) : v_zero();
          v_store(packed + i * TILE_PANEL + j, x);
        }
      }
      continue;
    }
    if (columns < TILE_PANEL) memset(packed, 0, (size_t)(k * TILE_PANEL) * sizeof *packed);
    if (rs == 1) {
      CARNOT_KERNEL(transpose_f32)(columns, k, b + n0 * cs, cs, packed, TILE_PANEL);
      continue;
    }
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        packed[i * TILE_PANEL + j] = b[i * rs + (n0 + j) * cs];
      }
    }
  }
}

// The columns are packed into the workspace a few panels at a time and used by all rows while warm.
void CARNOT_KERNEL(matmul_by)(const carnot_matmul_f32* p, const gemm_products* products, int64_t m0,
                              int64_t m1, int64_t n0, int64_t n1) {
  const carnot_gemm_f32* g = &p->gemm;
  for (int64_t n = n0; n < n1; n += 4 * TILE_PANEL) {
    const int64_t columns = min_i64(4 * TILE_PANEL, n1 - n);
    products->pack(g->k, columns, (const float*)g->b + n * p->cs, p->rs, p->cs, p->workspace);
    carnot_gemm_f32 part = *g;
    part.n = columns;
    part.b = p->workspace;
    part.c += n;
    if (part.epilogue.bias) part.epilogue.bias += n;
    if (part.epilogue.residual) part.epilogue.residual += n;
    products->gemm(&part, m0, m1, 0, columns);
  }
}

void CARNOT_KERNEL(matmul_f32)(const carnot_matmul_f32* p, int64_t m0, int64_t m1, int64_t n0,
                               int64_t n1) {
  const gemm_products products = {CARNOT_KERNEL(gemm_f32), CARNOT_KERNEL(gemm_pack_f32)};
  CARNOT_KERNEL(matmul_by)(p, &products, m0, m1, n0, n1);
}
