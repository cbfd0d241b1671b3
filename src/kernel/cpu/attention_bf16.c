#include "kernel/cpu/attention_products.h"
#include "kernel/cpu/kernels_isa.h"

#if defined(__AVX512BF16__)

carnot_gemm_pack_f32_fn GEMM_LOOP(gemm_pack_f32);

// Two rows of 16 as pairs of bf16, the first one in the lower halves.
CARNOT_INLINE __m512i pairs_of(vf32 even, vf32 odd) {
  static const uint16_t order[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                     8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  const __m512i rows = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
  return _mm512_permutexvar_epi16(_mm512_loadu_si512(order), rows);
}

// k2n16 bf16 by way of k1n16 f32 in the same memory: what is written lies behind what is read.
static void pack(int64_t k, int64_t n, const float* b, int64_t rs, int64_t cs, float* packed) {
  GEMM_LOOP(gemm_pack_f32)(k, n, b, rs, cs, packed);
  char* dst = (char*)packed;
  for (int64_t j = 0; j < n; j += TILE_PANEL, packed += k * TILE_PANEL) {
    for (int64_t i = 0; i < k; i += 2, dst += 64) {
      const vf32 even = v_load(packed + i * TILE_PANEL);
      const vf32 odd = i + 1 < k ? v_load(packed + (i + 1) * TILE_PANEL) : v_zero();
      _mm512_storeu_si512(dst, pairs_of(even, odd));
    }
  }
}

void CARNOT_KERNEL(attention_bf16)(const carnot_attention_f32* p, int64_t q0, int64_t q1) {
  const attention_products products = {CARNOT_KERNEL(gemm_bf16), pack};
  GEMM_LOOP(attention_by)(p, &products, q0, q1);
}

#else

void CARNOT_KERNEL(attention_bf16)(const carnot_attention_f32* p, int64_t q0, int64_t q1) {
  CARNOT_KERNEL(attention_f32)(p, q0, q1);
}

#endif
