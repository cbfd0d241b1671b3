// The GEMM of gemm_dequant_f32.h with activations rounded to 8 bits by blocks of K.
//   s[m,b] = max_k |a[m,k]| / 127 over block b, r[m,k] = rint(a[m,k] / s[m,b])
//   c[m,n] = epilogue(sum_b (sum_k r[m,k] q[k,n] - zero[b,n] sum_k r[m,k]) * (scale[b,n] * s[m,b]))
// Sums of a block are exact in int32. NaN in a block gives NaN in its row; a block whose s is
// subnormal counts as zeros.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_DEQUANT_S8_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_DEQUANT_S8_H_

#include "kernel/cpu/gemm/gemm_dequant_f32.h"

// Rows in 8 bits.
typedef struct carnot_dequant_rows {
  int8_t* numbers;  // [rows][groups * 32 / bits], zeros where a block does not fill its groups
  float* scales;    // [rows][blocks]
  float* sums;      // [rows][blocks], of the numbers of a block
} carnot_dequant_rows;

// Bytes of a row.
static inline int64_t carnot_dequant_row_bytes(const carnot_dequant_shape* shape) {
  return carnot_dequant_groups(shape) * (32 / shape->bits);
}
// Rounds rows [m0, m1) of the activations |a|, |lda| floats apart, into |rows|.
typedef void carnot_round_rows_s8_fn(const carnot_dequant_shape* shape, const float* a, int64_t lda,
                                     int64_t m0, int64_t m1, const carnot_dequant_rows* rows);

// |gemm->gemm.a| is not read, |gemm->workspace| neither. Rows and columns as
// carnot_gemm_dequant_f32_fn.
typedef void carnot_gemm_dequant_s8_fn(const carnot_gemm_dequant_f32* gemm,
                                       const carnot_dequant_rows* rows, int64_t m0, int64_t m1,
                                       int64_t n0, int64_t n1);

#endif
