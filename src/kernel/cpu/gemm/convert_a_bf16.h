// Conversion of rows of A from float32 to BF16, for the levels with BF16 dot products.
#ifndef CARNOT_KERNEL_CPU_GEMM_CONVERT_A_BF16_H_
#define CARNOT_KERNEL_CPU_GEMM_CONVERT_A_BF16_H_

#if defined(__AVX512BF16__)

#include "kernel/cpu/common/simd.h"
#include "kernel/cpu/gemm/gemm_ukernel_f32.h"

// 32 floats, the last ones of which may be missing, as 32 bf16: nearest even, subnormals to zero.
CARNOT_INLINE __m512i convert_32_to_bf16(const float* src, int64_t count) {
  const vf32 low = v_load_upto(src, count);
  const vf32 high = count > 16 ? v_load_upto(src + 16, count - 16) : v_zero();
  return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

static void convert_a_bf16(const void* const* rows, int count, int64_t taps, int64_t depth,
                           uint16_t* panel) {
  const int64_t run = (depth + 1) & ~INT64_C(1), end = (taps * run + 31) & ~INT64_C(31);
  for (int i = 0; i < count; ++i) {
    uint16_t* dst = panel + i * TILE_PANEL_DEPTH;
    for (int64_t k = taps * run; k < end; ++k) dst[k] = 0;
    for (int64_t t = 0; t < taps; ++t, dst += run) {
      const float* src = rows[t * count + i];
      int64_t k = 0;
      for (; k + 32 <= depth; k += 32)
        _mm512_storeu_si512(dst + k, convert_32_to_bf16(src + k, 32));
      if (k == depth) continue;
      const __mmask32 mask = (__mmask32)((UINT64_C(1) << (run - k)) - 1);
      _mm512_mask_storeu_epi16(dst + k, mask, convert_32_to_bf16(src + k, depth - k));
    }
  }
}

#endif
#endif
