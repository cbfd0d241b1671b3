// GEMM of two float64 matrices: panels of B, packed block by block of K, by tiles of rows.
#include "kernel/cpu/gemm/matmul_f64.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_f64.h"

enum {
  kVectors = 3,  // of a tile's columns
  kColumns = kVectors * V64_LANES,
  kRows = V64_LANES >= 8 ? 8 : 4,  // sums, a row of B and a number of A stay in registers
};
_Static_assert(kColumns <= 24, "a panel fits into the workspace");

// Rows k0 .. k1 - 1 of |columns| columns from |n| on, the columns of the panel beyond them 0.
static void pack(const carnot_matmul_f64* p, int64_t k0, int64_t k1, int64_t n, int64_t columns) {
  double* to = p->workspace;
  for (int64_t k = k0; k < k1; ++k, to += kColumns) {
    const double* from = p->b + k * p->rs + n * p->cs;
    for (int64_t j = 0; j < columns; ++j) to[j] = from[j * p->cs];
    for (int64_t j = columns; j < kColumns; ++j) to[j] = 0;
  }
}

// |rows| rows of the panel: c = a * b, added to c where |carry|. |c| has kColumns columns.
CARNOT_INLINE void tile_of(const double* a, int64_t lda, const double* b, int64_t depth, double* c,
                           int64_t ldc, bool carry, int rows) {
  vf64 sums[kRows][kVectors];
  CARNOT_UNROLL
  for (int i = 0; i < rows; ++i) {
    CARNOT_UNROLL
    for (int v = 0; v < kVectors; ++v)
      sums[i][v] = carry ? v64_load(c + i * ldc + v * V64_LANES) : v64_set(0);
  }
  for (int64_t k = 0; k < depth; ++k, b += kColumns) {
    vf64 row[kVectors];
    CARNOT_UNROLL
    for (int v = 0; v < kVectors; ++v) row[v] = v64_load(b + v * V64_LANES);
    CARNOT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const vf64 x = v64_set(a[i * lda + k]);
      CARNOT_UNROLL
      for (int v = 0; v < kVectors; ++v) sums[i][v] = v64_fma(x, row[v], sums[i][v]);
    }
  }
  CARNOT_UNROLL
  for (int i = 0; i < rows; ++i) {
    CARNOT_UNROLL
    for (int v = 0; v < kVectors; ++v) v64_store(c + i * ldc + v * V64_LANES, sums[i][v]);
  }
}

// |rows| rows of |columns| columns; a panel's rest goes through |edge|.
CARNOT_INLINE void rows_of(const carnot_matmul_f64* p, int64_t m, int64_t n, int64_t columns,
                           int64_t k0, int64_t k1, int rows) {
  double* c = p->c + m * p->ldc + n;
  const double* a = p->a + m * p->lda + k0;
  if (columns == kColumns) {
    tile_of(a, p->lda, p->workspace, k1 - k0, c, p->ldc, k0 > 0, rows);
    return;
  }
  double edge[kRows * kColumns];
  for (int i = 0; i < rows && k0 > 0; ++i)
    for (int64_t j = 0; j < kColumns; ++j)
      edge[i * kColumns + j] = j < columns ? c[i * p->ldc + j] : 0;
  tile_of(a, p->lda, p->workspace, k1 - k0, edge, kColumns, k0 > 0, rows);
  for (int i = 0; i < rows; ++i)
    memcpy(c + i * p->ldc, edge + i * kColumns, (size_t)columns * sizeof(double));
}

static void panel(const carnot_matmul_f64* p, int64_t m0, int64_t m1, int64_t n, int64_t columns,
                  int64_t k0, int64_t k1) {
  pack(p, k0, k1, n, columns);
  int64_t m = m0;
  for (; m + kRows <= m1; m += kRows) rows_of(p, m, n, columns, k0, k1, kRows);
  for (; m < m1; ++m) rows_of(p, m, n, columns, k0, k1, 1);
}

void CARNOT_KERNEL(matmul_f64)(const carnot_matmul_f64* p, int64_t m0, int64_t m1, int64_t n0,
                               int64_t n1) {
  for (int64_t n = n0; n < n1; n += kColumns) {
    int64_t k0 = 0;
    do {  // once where K is 0
      const int64_t k1 = min_i64(k0 + CARNOT_MATMUL_F64_DEPTH, p->k);
      panel(p, m0, m1, n, min_i64(kColumns, n1 - n), k0, k1);
      k0 = k1;
    } while (k0 < p->k);
  }
}
