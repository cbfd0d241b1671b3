// GEMM with packed weights, and of two activations.
//   c[m,n] = epilogue(sum_k a[m,k] * b[k,n])
// |a| [M,K], rows |lda| floats apart  |c| [M,N], rows |ldc| apart, not overlapping |a|
// |b| packed as k1n16 f32 (pack_f32.h) for gemm_f32, k1n16 f16 for gemm_f16, k2n16 bf16 for
// gemm_bf16 (pack_half.h); any strides for matmul, which packs 64 columns at a time (of more than
// two rows) into |workspace| (carnot_matmul_f32_workspace floats). Sums are float32 everywhere.
// gemm_f16 is exact on its weights; gemm_bf16 too, and on levels with BF16 dot products
// (avx512bf16, amxbf16) it rounds |a| to bf16, nearest even, and those instructions treat subnormal
// numbers as zero. A call computes rows [m0,m1) of columns [n0,n1), n0 a multiple of 16; disjoint
// calls may run at once, and every element comes out with the same bits however the work is cut. K
// = 0 gives epilogue(0). No alignment is required; 64 bytes for |b| is fastest. Any thread.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_F32_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_F32_H_

#include <stdint.h>

#include "kernel/cpu/common/epilogue_f32.h"

typedef struct carnot_gemm_f32 {
  int64_t m, n, k;
  const float* a;
  int64_t lda;
  const void* b;  // packed
  float* c;
  int64_t ldc;
  carnot_epilogue_f32 epilogue;
} carnot_gemm_f32;

typedef struct carnot_matmul_f32 {
  carnot_gemm_f32 gemm;  // |b| unpacked: b[k,n] = gemm.b[k * rs + n * cs]
  int64_t rs, cs;
  float* workspace;
} carnot_matmul_f32;

// Floats of workspace of matmul for a K, for each concurrent call.
static inline int64_t carnot_matmul_f32_workspace(int64_t k) { return k * 64; }

typedef void carnot_gemm_f32_fn(const carnot_gemm_f32* gemm, int64_t m0, int64_t m1, int64_t n0,
                                int64_t n1);
typedef carnot_gemm_f32_fn carnot_gemm_f16_fn, carnot_gemm_bf16_fn;
typedef void carnot_matmul_f32_fn(const carnot_matmul_f32* matmul, int64_t m0, int64_t m1,
                                  int64_t n0, int64_t n1);

// |b| packed k32n16 bf16x3 (pack_split.h). amxbf16 multiplies the parts, of |a| too, and leaves out
// products below 2^-16 of the whole: nearer to the exact result than multiply-adds are. Where a
// number is infinite, NaN, or so small or large that results could differ otherwise, and on other
// levels, it multiplies as gemm_f32 does, block by block: only in such blocks bits depend on cuts.
// Takes up to 900 KB of stack. split6 is as above; split3 leaves out products below 2^-8 of the
// whole.
typedef carnot_gemm_f32_fn carnot_gemm_split6_f32_fn, carnot_gemm_split3_f32_fn;

// Rounds both operands on levels with BF16 dot products, is matmul_f32 elsewhere.
typedef carnot_matmul_f32_fn carnot_matmul_bf16_fn;

// Packs b[k * rs + n * cs], k < K, n < N, as k1n16 f32: what carnot_pack_k1n16_f32 does, faster.
typedef void carnot_gemm_pack_f32_fn(int64_t k, int64_t n, const float* b, int64_t rs, int64_t cs,
                                     float* packed);

#endif
