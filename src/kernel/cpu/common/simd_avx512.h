// AVX-512 F, BW, DQ, VL: 16 lanes. Included by simd.h only; see there for the contract.
#ifndef CARNOT_KERNEL_CPU_COMMON_SIMD_AVX512_H_
#define CARNOT_KERNEL_CPU_COMMON_SIMD_AVX512_H_

#include <immintrin.h>

#define V_LANES 16
typedef __m512 vf32;
typedef __m512i vi32;
typedef __mmask16 vmask;

CARNOT_INLINE __mmask16 v_lanes(int64_t n) { return (__mmask16)((1u << n) - 1u); }

#define V_KEEP(x) __asm__("" : "+v"(x))  // in a register, not as a memory operand of each use
// All eight vectors, before what uses any of them.
#define V_ALL_8(x)                                                                         \
  __asm__ volatile(""                                                                      \
                   : "+v"((x)[0]), "+v"((x)[1]), "+v"((x)[2]), "+v"((x)[3]), "+v"((x)[4]), \
                     "+v"((x)[5]), "+v"((x)[6]), "+v"((x)[7]))
CARNOT_INLINE vf32 v_load(const float* p) { return _mm512_loadu_ps(p); }
CARNOT_INLINE vf32 v_load_n(const float* p, int64_t n) {
  return _mm512_maskz_loadu_ps(v_lanes(n), p);
}
CARNOT_INLINE void v_store(float* p, vf32 x) { _mm512_storeu_ps(p, x); }
CARNOT_INLINE void v_store_n(float* p, vf32 x, int64_t n) {
  _mm512_mask_storeu_ps(p, v_lanes(n), x);
}
CARNOT_INLINE vf32 v_set(float x) { return _mm512_set1_ps(x); }
CARNOT_INLINE vf32 v_zero(void) { return _mm512_setzero_ps(); }

CARNOT_INLINE vf32 v_add(vf32 a, vf32 b) { return _mm512_add_ps(a, b); }
CARNOT_INLINE vf32 v_sub(vf32 a, vf32 b) { return _mm512_sub_ps(a, b); }
CARNOT_INLINE vf32 v_mul(vf32 a, vf32 b) { return _mm512_mul_ps(a, b); }
CARNOT_INLINE vf32 v_div(vf32 a, vf32 b) { return _mm512_div_ps(a, b); }
CARNOT_INLINE vf32 v_rcp_roughly(vf32 a) { return _mm512_rcp14_ps(a); }
CARNOT_INLINE vf32 v_rcp(vf32 a) {
  const vf32 y = _mm512_rcp14_ps(a);
  return _mm512_fmadd_ps(y, _mm512_fnmadd_ps(a, y, _mm512_set1_ps(1)), y);
}
CARNOT_INLINE vf32 v_sqrt(vf32 a) { return _mm512_sqrt_ps(a); }
#define V_FMA_IS_FUSED 1
CARNOT_INLINE vf32 v_fma(vf32 a, vf32 b, vf32 c) { return _mm512_fmadd_ps(a, b, c); }
CARNOT_INLINE vf32 v_fnma(vf32 a, vf32 b, vf32 c) { return _mm512_fnmadd_ps(a, b, c); }
CARNOT_INLINE vf32 v_max_to(vf32 bound, vf32 x) { return _mm512_max_ps(bound, x); }
CARNOT_INLINE vf32 v_min_to(vf32 bound, vf32 x) { return _mm512_min_ps(bound, x); }
CARNOT_INLINE vf32 v_abs(vf32 a) { return _mm512_abs_ps(a); }
CARNOT_INLINE vf32 v_and(vf32 a, vf32 b) { return _mm512_and_ps(a, b); }
CARNOT_INLINE vf32 v_or(vf32 a, vf32 b) { return _mm512_or_ps(a, b); }
CARNOT_INLINE vf32 v_xor(vf32 a, vf32 b) { return _mm512_xor_ps(a, b); }
CARNOT_INLINE vf32 v_floor(vf32 a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}
CARNOT_INLINE vf32 v_ceil(vf32 a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}
CARNOT_INLINE vf32 v_round(vf32 a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
CARNOT_INLINE vf32 v_trunc(vf32 a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

CARNOT_INLINE vmask v_lt(vf32 a, vf32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
CARNOT_INLINE vmask v_le(vf32 a, vf32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
CARNOT_INLINE vmask v_eq(vf32 a, vf32 b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
CARNOT_INLINE vmask v_is_nan(vf32 a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q); }
CARNOT_INLINE vmask v_m_and(vmask a, vmask b) { return (vmask)(a & b); }
CARNOT_INLINE vmask v_m_or(vmask a, vmask b) { return (vmask)(a | b); }
CARNOT_INLINE vmask v_m_not(vmask a) { return (vmask)~a; }
CARNOT_INLINE bool v_m_any(vmask a) { return a != 0; }
CARNOT_INLINE vf32 v_select(vmask m, vf32 a, vf32 b) { return _mm512_mask_blend_ps(m, b, a); }
CARNOT_INLINE vf32 v_max(vf32 a, vf32 b) { return v_select(v_is_nan(a), a, _mm512_max_ps(a, b)); }
CARNOT_INLINE vf32 v_min(vf32 a, vf32 b) { return v_select(v_is_nan(a), a, _mm512_min_ps(a, b)); }

CARNOT_INLINE vi32 v_iload(const int32_t* p) { return _mm512_loadu_si512(p); }
CARNOT_INLINE vi32 v_iload_n(const int32_t* p, int64_t n) {
  return _mm512_maskz_loadu_epi32(v_lanes(n), p);
}
CARNOT_INLINE vi32 v_iset(int32_t x) { return _mm512_set1_epi32(x); }
CARNOT_INLINE vi32 v_to_int(vf32 a) { return _mm512_cvtps_epi32(a); }
CARNOT_INLINE vf32 v_of_int(vi32 a) { return _mm512_cvtepi32_ps(a); }
CARNOT_INLINE vi32 v_bits(vf32 a) { return _mm512_castps_si512(a); }
CARNOT_INLINE vf32 v_of_bits(vi32 a) { return _mm512_castsi512_ps(a); }
CARNOT_INLINE vi32 v_iadd(vi32 a, vi32 b) { return _mm512_add_epi32(a, b); }
CARNOT_INLINE vi32 v_isub(vi32 a, vi32 b) { return _mm512_sub_epi32(a, b); }
CARNOT_INLINE vi32 v_iand(vi32 a, vi32 b) { return _mm512_and_si512(a, b); }
CARNOT_INLINE vi32 v_iand_or(vi32 a, vi32 b, vi32 c) {
  return _mm512_ternarylogic_epi32(a, b, c, 0xea);
}
#define v_ishl(a, n) _mm512_slli_epi32(a, n)
#define v_ishr(a, n) _mm512_srai_epi32(a, n)
CARNOT_INLINE vmask v_ieq(vi32 a, vi32 b) { return _mm512_cmpeq_epi32_mask(a, b); }

CARNOT_INLINE vf32 v_permute(vf32 a, vi32 from) { return _mm512_permutexvar_ps(from, a); }

CARNOT_INLINE vf32 v_even(vf32 a, vf32 b) {
  const __m512i from = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  return _mm512_permutex2var_ps(a, from, b);
}

CARNOT_INLINE vf32 v_scale2(vf32 x, vf32 n) { return _mm512_scalef_ps(x, n); }
CARNOT_INLINE vf32 v_split_floor(vf32 y, vf32* out_n) {
  *out_n = y;  // scalef rounds it down
  return _mm512_reduce_ps(y, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

CARNOT_INLINE float v_sum(vf32 a) {
  __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}

// The greatest and the least lane; none is NaN.
CARNOT_INLINE float v_max_of(vf32 a) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}
CARNOT_INLINE float v_min_of(vf32 a) {
  const __m256 h = _mm256_min_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  __m128 q = _mm_min_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
  q = _mm_min_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_min_ss(q, _mm_shuffle_ps(q, q, 1)));
}

// Bytes: numbers as floats, and the low byte of each lane.
CARNOT_INLINE vf32 v_load_bytes_n(const void* p, int64_t n, bool is_signed) {
  const __m128i x = _mm_maskz_loadu_epi8(v_lanes(n), p);
  return v_of_int(is_signed ? _mm512_cvtepi8_epi32(x) : _mm512_cvtepu8_epi32(x));
}
CARNOT_INLINE void v_store_bytes_n(void* p, vi32 x, int64_t n) {
  _mm_mask_storeu_epi8(p, v_lanes(n), _mm512_cvtepi32_epi8(x));
}
// All lanes. A masked store is several times slower on AMD's processors.
CARNOT_INLINE vf32 v_load_bytes(const void* p, bool is_signed) {
  const __m128i x = _mm_loadu_si128(p);
  return v_of_int(is_signed ? _mm512_cvtepi8_epi32(x) : _mm512_cvtepu8_epi32(x));
}
CARNOT_INLINE void v_store_bytes(void* p, vi32 x) { _mm_storeu_si128(p, _mm512_cvtepi32_epi8(x)); }

// The first |n| of 32 numbers of |x| plus |zero| within [low, high] as bytes; |x| is below 2^31 -
// 256 in magnitude.
CARNOT_INLINE void v_store_clamped_2x32(void* p, void* p2, const vi32* x, const vi32* x2, int zero,
                                        int low, int high, bool is_signed, int64_t n) {
  // Lanes hold 4 of x[0], then 4 of x[1].
  __m512i a = _mm512_packs_epi32(x[0], x[1]), b = _mm512_packs_epi32(x2[0], x2[1]);
  if (zero) {
    const __m512i z = _mm512_set1_epi16((int16_t)zero);
    a = _mm512_adds_epi16(a, z), b = _mm512_adds_epi16(b, z);
  }
  __m512i y = is_signed ? _mm512_packs_epi16(a, b) : _mm512_packus_epi16(a, b);
  const __m512i lo = _mm512_set1_epi8((char)low), hi = _mm512_set1_epi8((char)high);
  if (is_signed && (low > -128 || high < 127))
    y = _mm512_min_epi8(_mm512_max_epi8(y, lo), hi);
  else if (!is_signed && (low > 0 || high < 255))
    y = _mm512_min_epu8(_mm512_max_epu8(y, lo), hi);
  const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
  y = _mm512_permutexvar_epi32(order, y);
  const __m256i row = _mm512_castsi512_si256(y), row2 = _mm512_extracti64x4_epi64(y, 1);
  if (n >= 32) {
    _mm256_storeu_si256(p, row);
    _mm256_storeu_si256(p2, row2);
  } else {
    const __mmask32 mask = (__mmask32)((1u << n) - 1u);
    _mm256_mask_storeu_epi8(p, mask, row);
    _mm256_mask_storeu_epi8(p2, mask, row2);
  }
}

// Two-byte types. bf16 rounds to nearest even and keeps NaN quiet.
#if defined(__AVX512BF16__)  // vpermw instead of vpmovzxwd and vpslld
CARNOT_INLINE vf32 v_widen_bf16(__m256i h) {
  const __m512i from =
      _mm512_set_epi32(0xf0000, 0xe0000, 0xd0000, 0xc0000, 0xb0000, 0xa0000, 0x90000, 0x80000,
                       0x70000, 0x60000, 0x50000, 0x40000, 0x30000, 0x20000, 0x10000, 0);
  return _mm512_castsi512_ps(
      _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, from, _mm512_castsi256_si512(h)));
}
#else
CARNOT_INLINE vf32 v_widen_bf16(__m256i h) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
#endif
#if defined(__AVX512BF16__)
// Subnormal numbers become zero.
CARNOT_INLINE __m256i v_narrow_bf16(vf32 x) { return (__m256i)_mm512_cvtneps_pbh(x); }
#else
CARNOT_INLINE __m256i v_narrow_bf16(vf32 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  __m512i up = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  up = _mm512_mask_or_epi32(up, v_is_nan(x), bits, _mm512_set1_epi32(0x400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(up, 16));
}
#endif
CARNOT_INLINE vf32 v_round_bf16(vf32 x) { return v_widen_bf16(v_narrow_bf16(x)); }
CARNOT_INLINE vf32 v_round_f16(vf32 x) {
  return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
CARNOT_INLINE vf32 v_load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p));
}
CARNOT_INLINE vf32 v_load_f16_n(const uint16_t* p, int64_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(v_lanes(n), p));
}
CARNOT_INLINE void v_store_f16(uint16_t* p, vf32 x) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
CARNOT_INLINE void v_store_f16_n(uint16_t* p, vf32 x, int64_t n) {
  _mm256_mask_storeu_epi16(p, v_lanes(n), _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
CARNOT_INLINE vf32 v_load_bf16(const uint16_t* p) {
  return v_widen_bf16(_mm256_loadu_si256((const __m256i*)p));
}
CARNOT_INLINE vf32 v_load_bf16_n(const uint16_t* p, int64_t n) {
  return v_widen_bf16(_mm256_maskz_loadu_epi16(v_lanes(n), p));
}
CARNOT_INLINE void v_store_bf16(uint16_t* p, vf32 x) {
  _mm256_storeu_si256((__m256i*)p, v_narrow_bf16(x));
}
CARNOT_INLINE void v_store_bf16_n(uint16_t* p, vf32 x, int64_t n) {
  _mm256_mask_storeu_epi16(p, v_lanes(n), v_narrow_bf16(x));
}

#endif
