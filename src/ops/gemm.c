// Matrix multiplication for reference kernels: strided operands, FP32 or FP64.
#include "ops/gemm.h"

#include <string.h>

enum { kRows = 128, kColumns = 64 };

// The rows and columns of c that are one part.
typedef struct block {
  int64_t row, rows, column, column_end;
} block;

static int64_t blocks_of(int64_t size, int64_t each) { return (size + each - 1) / each; }

int64_t carnot_gemm_parts(const carnot_gemm* g) {
  return blocks_of(g->m, kRows) * blocks_of(g->n, kColumns);
}

static block block_of(const carnot_gemm* g, int64_t part) {
  int64_t across = blocks_of(g->n, kColumns);
  block at = {part / across * kRows, kRows, part % across * kColumns, 0};
  if (at.rows > g->m - at.row) at.rows = g->m - at.row;
  at.column_end = at.column + kColumns < g->n ? at.column + kColumns : g->n;
  return at;
}

#define REAL    float
#define N(name) name##_f32
#include "ops/gemm_kernel.inl"
#undef REAL
#undef N

#define REAL    double
#define N(name) name##_f64
#include "ops/gemm_kernel.inl"
#undef REAL
#undef N

#define REAL    uint32_t
#define N(name) name##_u32
#include "ops/gemm_kernel.inl"
#undef REAL
#undef N

#define REAL    uint64_t
#define N(name) name##_u64
#include "ops/gemm_kernel.inl"
#undef REAL
#undef N
