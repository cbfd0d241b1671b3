// GEMM of two float64 matrices.
//   c[m,n] = sum_k a[m,k] * b[k,n], in order of k, fused where the level has it
// |a| [M,K], rows |lda| numbers apart; |b|: b[k * rs + n * cs]; |c| [M,N], rows |ldc| apart, not
// overlapping the operands; |workspace|: carnot_matmul_f64_workspace(K) numbers. A call computes
// rows [m0,m1) of columns [n0,n1); disjoint calls may run at once, and every element comes out with
// the same bits however the work is cut. K = 0 gives 0. No alignment is required. Any thread.
#ifndef CARNOT_KERNEL_CPU_GEMM_MATMUL_F64_H_
#define CARNOT_KERNEL_CPU_GEMM_MATMUL_F64_H_

#include <stdint.h>

typedef struct carnot_matmul_f64 {
  int64_t k;
  const double* a;
  int64_t lda;
  const double* b;
  int64_t rs, cs;
  double* c;
  int64_t ldc;
  double* workspace;
} carnot_matmul_f64;

enum { CARNOT_MATMUL_F64_DEPTH = 256 };  // of a block of K

// Numbers of workspace for a K, for each concurrent call: a block of K of the widest panel.
static inline int64_t carnot_matmul_f64_workspace(int64_t k) {
  return (k < CARNOT_MATMUL_F64_DEPTH ? k : CARNOT_MATMUL_F64_DEPTH) * 24;
}

typedef void carnot_matmul_f64_fn(const carnot_matmul_f64* matmul, int64_t m0, int64_t m1,
                                  int64_t n0, int64_t n1);

#endif
