// Rows of float32 or BF16 numbers as the BF16 numbers of a tile's row; private to the kernels by
// AMX tiles.
#ifndef CARNOT_KERNEL_CPU_GEMM_LOAD_BF16_H_
#define CARNOT_KERNEL_CPU_GEMM_LOAD_BF16_H_

#include "kernel/cpu/common/simd.h"

// 32 numbers from element |at| on, zeros behind |left| of them; float32 is rounded to nearest even,
// subnormal numbers to zero.
CARNOT_INLINE __m512i load_bf16_32(bool is_bf16, const void* x, int64_t at, int64_t left) {
  if (is_bf16) {
    const uint16_t* half = (const uint16_t*)x + at;
    if (left >= 32) return _mm512_loadu_si512(half);
    return _mm512_maskz_loadu_epi16((__mmask32)((UINT64_C(1) << left) - 1), half);
  }
  const float* wide = (const float*)x + at;
  const vf32 low = v_load_upto(wide, left);
  const vf32 high = left > 16 ? v_load_upto(wide + 16, left - 16) : v_zero();
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

#endif
