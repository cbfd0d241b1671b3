// Blocked GEMM, the inner part of matmul, convolution, attention and recurrent
// reference kernels.
//   c[i,j] = sum_k a[i,k] * b[k,j]
// For f32, f64 and integers that wrap (u32, u64; signed operands are passed by their bits). Sums
// run over blocks of CARNOT_GEMM_K along K, one after the other: the order does not depend on
// threads or on m and n. Any thread.
#ifndef CARNOT_OPS_GEMM_H_
#define CARNOT_OPS_GEMM_H_

#include <stdbool.h>
#include <stdint.h>

enum { CARNOT_GEMM_N = 16, CARNOT_GEMM_K = 256 };

// Strides in elements; |c| has columns side by side.
typedef struct carnot_gemm {
  int64_t m, n, k;
  const void* a;
  int64_t a_row, a_col;
  const void* b;
  int64_t b_row, b_col;
  void* c;
  int64_t c_row;
} carnot_gemm;

// A GEMM falls into parts that may run on different threads.
int64_t carnot_gemm_parts(const carnot_gemm* gemm);

// _part: one of the parts. _panel: c[i,j] (+)= sum_k a[i,k] * panel[k*CARNOT_GEMM_N + j] for j < n
// <= CARNOT_GEMM_N, k <= CARNOT_GEMM_K; |add| says whether c is added to.
#define CARNOT_GEMM_DECLARE(suffix, ctype)                                                        \
  void carnot_gemm_part_##suffix(const carnot_gemm* gemm, int64_t part);                          \
  void carnot_gemm_panel_##suffix(int64_t m, int64_t n, int64_t k, const ctype* a, int64_t a_row, \
                                  int64_t a_col, const ctype* panel, ctype* c, int64_t c_row,     \
                                  bool add);
CARNOT_GEMM_DECLARE(f32, float)
CARNOT_GEMM_DECLARE(f64, double)
CARNOT_GEMM_DECLARE(u32, uint32_t)
CARNOT_GEMM_DECLARE(u64, uint64_t)
#undef CARNOT_GEMM_DECLARE

#endif  // CARNOT_OPS_GEMM_H_
