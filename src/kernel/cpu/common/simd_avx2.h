// AVX2, FMA, F16C: 8 lanes. Included by simd.h only; see there for the contract.
#ifndef CARNOT_KERNEL_CPU_COMMON_SIMD_AVX2_H_
#define CARNOT_KERNEL_CPU_COMMON_SIMD_AVX2_H_

#include <immintrin.h>

#define V_LANES 8
typedef __m256 vf32;
typedef __m256i vi32;
typedef __m256 vmask;

CARNOT_INLINE __m256i v_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

#define V_ALL_8(x) (void)(x)
#define V_KEEP(x)  (void)(x)  // 16 registers are too few to keep vectors against memory operands
CARNOT_INLINE vf32 v_load(const float* p) { return _mm256_loadu_ps(p); }
CARNOT_INLINE vf32 v_load_n(const float* p, int64_t n) { return _mm256_maskload_ps(p, v_lanes(n)); }
CARNOT_INLINE void v_store(float* p, vf32 x) { _mm256_storeu_ps(p, x); }
// AMD's processors take many cycles for a masked store.
CARNOT_INLINE void v_store_n(float* p, vf32 x, int64_t n) {
  if (n >= 8) {
    v_store(p, x);
    return;
  }
  __m128 left = _mm256_castps256_ps128(x);
  if (n & 4) {
    _mm_storeu_ps(p, left);
    left = _mm256_extractf128_ps(x, 1);
    p += 4;
  }
  if (n & 2) {
    _mm_storel_pi((__m64*)p, left);
    left = _mm_movehl_ps(left, left);
    p += 2;
  }
  if (n & 1) _mm_store_ss(p, left);
}
CARNOT_INLINE vf32 v_set(float x) { return _mm256_set1_ps(x); }
CARNOT_INLINE vf32 v_zero(void) { return _mm256_setzero_ps(); }

CARNOT_INLINE vf32 v_add(vf32 a, vf32 b) { return _mm256_add_ps(a, b); }
CARNOT_INLINE vf32 v_sub(vf32 a, vf32 b) { return _mm256_sub_ps(a, b); }
CARNOT_INLINE vf32 v_mul(vf32 a, vf32 b) { return _mm256_mul_ps(a, b); }
CARNOT_INLINE vf32 v_div(vf32 a, vf32 b) { return _mm256_div_ps(a, b); }
CARNOT_INLINE vf32 v_rcp_roughly(vf32 a) { return _mm256_rcp_ps(a); }
CARNOT_INLINE vf32 v_rcp(vf32 a) { return v_div(v_set(1), a); }
CARNOT_INLINE vf32 v_sqrt(vf32 a) { return _mm256_sqrt_ps(a); }
#define V_FMA_IS_FUSED 1
CARNOT_INLINE vf32 v_fma(vf32 a, vf32 b, vf32 c) { return _mm256_fmadd_ps(a, b, c); }
CARNOT_INLINE vf32 v_fnma(vf32 a, vf32 b, vf32 c) { return _mm256_fnmadd_ps(a, b, c); }
CARNOT_INLINE vf32 v_max_to(vf32 bound, vf32 x) { return _mm256_max_ps(bound, x); }
CARNOT_INLINE vf32 v_min_to(vf32 bound, vf32 x) { return _mm256_min_ps(bound, x); }
CARNOT_INLINE vf32 v_and(vf32 a, vf32 b) { return _mm256_and_ps(a, b); }
CARNOT_INLINE vf32 v_or(vf32 a, vf32 b) { return _mm256_or_ps(a, b); }
CARNOT_INLINE vf32 v_xor(vf32 a, vf32 b) { return _mm256_xor_ps(a, b); }
CARNOT_INLINE vf32 v_abs(vf32 a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
CARNOT_INLINE vf32 v_floor(vf32 a) { return _mm256_floor_ps(a); }
CARNOT_INLINE vf32 v_ceil(vf32 a) { return _mm256_ceil_ps(a); }
CARNOT_INLINE vf32 v_round(vf32 a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
CARNOT_INLINE vf32 v_trunc(vf32 a) {
  return _mm256_round_ps(a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

CARNOT_INLINE vmask v_lt(vf32 a, vf32 b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
CARNOT_INLINE vmask v_le(vf32 a, vf32 b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
CARNOT_INLINE vmask v_eq(vf32 a, vf32 b) { return _mm256_cmp_ps(a, b, _CMP_EQ_OQ); }
CARNOT_INLINE vmask v_is_nan(vf32 a) { return _mm256_cmp_ps(a, a, _CMP_UNORD_Q); }
CARNOT_INLINE vmask v_m_and(vmask a, vmask b) { return _mm256_and_ps(a, b); }
CARNOT_INLINE vmask v_m_or(vmask a, vmask b) { return _mm256_or_ps(a, b); }
CARNOT_INLINE vmask v_m_not(vmask a) {
  return _mm256_xor_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(-1)));
}
CARNOT_INLINE bool v_m_any(vmask a) { return _mm256_movemask_ps(a) != 0; }
CARNOT_INLINE vf32 v_select(vmask m, vf32 a, vf32 b) { return _mm256_blendv_ps(b, a, m); }
CARNOT_INLINE vf32 v_max(vf32 a, vf32 b) { return v_select(v_is_nan(a), a, _mm256_max_ps(a, b)); }
CARNOT_INLINE vf32 v_min(vf32 a, vf32 b) { return v_select(v_is_nan(a), a, _mm256_min_ps(a, b)); }

CARNOT_INLINE vi32 v_iload(const int32_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
CARNOT_INLINE vi32 v_iload_n(const int32_t* p, int64_t n) {
  return _mm256_maskload_epi32(p, v_lanes(n));
}
CARNOT_INLINE vi32 v_iset(int32_t x) { return _mm256_set1_epi32(x); }
CARNOT_INLINE vi32 v_to_int(vf32 a) { return _mm256_cvtps_epi32(a); }
CARNOT_INLINE vf32 v_of_int(vi32 a) { return _mm256_cvtepi32_ps(a); }
CARNOT_INLINE vi32 v_bits(vf32 a) { return _mm256_castps_si256(a); }
CARNOT_INLINE vf32 v_of_bits(vi32 a) { return _mm256_castsi256_ps(a); }
CARNOT_INLINE vf32 v_permute(vf32 a, vi32 from) { return _mm256_permutevar8x32_ps(a, from); }
CARNOT_INLINE vf32 v_even(vf32 a, vf32 b) {
  const __m256d x = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
  return _mm256_castpd_ps(_mm256_permute4x64_pd(x, 0xd8));
}
CARNOT_INLINE vi32 v_iadd(vi32 a, vi32 b) { return _mm256_add_epi32(a, b); }
CARNOT_INLINE vi32 v_isub(vi32 a, vi32 b) { return _mm256_sub_epi32(a, b); }
CARNOT_INLINE vi32 v_iand(vi32 a, vi32 b) { return _mm256_and_si256(a, b); }
CARNOT_INLINE vi32 v_iand_or(vi32 a, vi32 b, vi32 c) {
  return _mm256_or_si256(_mm256_and_si256(a, b), c);
}
#define v_ishl(a, n) _mm256_slli_epi32(a, n)
#define v_ishr(a, n) _mm256_srai_epi32(a, n)
CARNOT_INLINE vmask v_ieq(vi32 a, vi32 b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }

// Three factors, because 2^n alone leaves the range of normal numbers long before x * 2^n does.
CARNOT_INLINE vf32 v_scale2(vf32 x, vf32 n) {
  const vi32 whole = v_to_int(n), third = v_to_int(v_mul(n, v_set(1.0f / 3)));
  const vi32 rest = v_isub(whole, v_iadd(third, third)), bias = v_iset(127);
  const vf32 f = v_of_bits(v_ishl(v_iadd(third, bias), 23));
  return v_mul(v_mul(v_mul(x, f), f), v_of_bits(v_ishl(v_iadd(rest, bias), 23)));
}
CARNOT_INLINE vf32 v_split_floor(vf32 y, vf32* out_n) {
  *out_n = v_floor(y);
  return v_sub(y, *out_n);
}

CARNOT_INLINE float v_sum(vf32 a) {
  __m128 q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  q = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}

// The greatest and the least lane; none is NaN.
CARNOT_INLINE float v_max_of(vf32 a) {
  __m128 q = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  q = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(q, _mm_shuffle_ps(q, q, 1)));
}
CARNOT_INLINE float v_min_of(vf32 a) {
  __m128 q = _mm_min_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  q = _mm_min_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_min_ss(q, _mm_shuffle_ps(q, q, 1)));
}

// Bytes: numbers as floats, and the low byte of each lane.
CARNOT_INLINE vf32 v_load_bytes_n(const void* p, int64_t n, bool is_signed) {
  uint64_t bytes = 0;
  memcpy(&bytes, p, (size_t)n);
  const __m128i x = _mm_cvtsi64_si128((int64_t)bytes);
  return v_of_int(is_signed ? _mm256_cvtepi8_epi32(x) : _mm256_cvtepu8_epi32(x));
}
CARNOT_INLINE void v_store_bytes_n(void* p, vi32 x, int64_t n) {
  const __m256i pick = _mm256_set1_epi32(0x0c080400);
  const __m256i fours = _mm256_shuffle_epi8(x, pick);
  const uint64_t low = (uint32_t)_mm256_extract_epi32(fours, 0);
  const uint64_t bytes = low | (uint64_t)(uint32_t)_mm256_extract_epi32(fours, 4) << 32;
  memcpy(p, &bytes, (size_t)n);
}
CARNOT_INLINE vf32 v_load_bytes(const void* p, bool is_signed) {
  return v_load_bytes_n(p, V_LANES, is_signed);
}
CARNOT_INLINE void v_store_bytes(void* p, vi32 x) { v_store_bytes_n(p, x, V_LANES); }

// The first |n| of 32 numbers of |x| plus |zero| within [low, high] as bytes; |x| is below 2^31 -
// 256 in magnitude.
CARNOT_INLINE void v_store_clamped_32(void* p, const vi32* x, int zero, int low, int high,
                                      bool is_signed, int64_t n) {
  const __m256i z = _mm256_set1_epi16((int16_t)zero), lo = _mm256_set1_epi16((int16_t)low),
                hi = _mm256_set1_epi16((int16_t)high);
  __m256i a = _mm256_adds_epi16(_mm256_packs_epi32(x[0], x[1]), z),
          b = _mm256_adds_epi16(_mm256_packs_epi32(x[2], x[3]), z);
  a = _mm256_min_epi16(_mm256_max_epi16(a, lo), hi);
  b = _mm256_min_epi16(_mm256_max_epi16(b, lo), hi);
  const __m256i y = is_signed ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
  const __m256i order = _mm256_set_epi32(7, 3, 6, 2, 5, 1, 4, 0);
  const __m256i ordered = _mm256_permutevar8x32_epi32(y, order);
  if (n >= 32) {
    _mm256_storeu_si256(p, ordered);
  } else {
    uint8_t bytes[32];
    _mm256_storeu_si256((__m256i*)bytes, ordered);
    memcpy(p, bytes, (size_t)n);
  }
}
CARNOT_INLINE void v_store_clamped_2x32(void* p, void* p2, const vi32* x, const vi32* x2, int zero,
                                        int low, int high, bool is_signed, int64_t n) {
  v_store_clamped_32(p, x, zero, low, high, is_signed, n);
  v_store_clamped_32(p2, x2, zero, low, high, is_signed, n);
}

// Two-byte types. bf16 rounds to nearest even and keeps NaN quiet. AVX2 masks no 2-byte access, so
// tails go through a small buffer.
CARNOT_INLINE vf32 v_widen_bf16(__m128i h) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
CARNOT_INLINE __m128i v_narrow_bf16(vf32 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  __m256i up = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  up = _mm256_blendv_epi8(up, quiet, _mm256_castps_si256(v_is_nan(x)));
  up = _mm256_srli_epi32(up, 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(up), _mm256_extracti128_si256(up, 1));
}
CARNOT_INLINE __m128i v_load_u16_n(const uint16_t* p, int64_t n) {
  uint16_t lanes[V_LANES] = {0};
  memcpy(lanes, p, (size_t)n * sizeof *p);
  return _mm_loadu_si128((const __m128i*)lanes);
}
CARNOT_INLINE void v_store_u16_n(uint16_t* p, __m128i x, int64_t n) {
  uint16_t lanes[V_LANES];
  _mm_storeu_si128((__m128i*)lanes, x);
  memcpy(p, lanes, (size_t)n * sizeof *p);
}
CARNOT_INLINE vf32 v_round_bf16(vf32 x) { return v_widen_bf16(v_narrow_bf16(x)); }
CARNOT_INLINE vf32 v_round_f16(vf32 x) {
  return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
CARNOT_INLINE vf32 v_load_f16(const uint16_t* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
}
CARNOT_INLINE vf32 v_load_f16_n(const uint16_t* p, int64_t n) {
  return _mm256_cvtph_ps(v_load_u16_n(p, n));
}
CARNOT_INLINE void v_store_f16(uint16_t* p, vf32 x) {
  _mm_storeu_si128((__m128i*)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
CARNOT_INLINE void v_store_f16_n(uint16_t* p, vf32 x, int64_t n) {
  v_store_u16_n(p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT), n);
}
CARNOT_INLINE vf32 v_load_bf16(const uint16_t* p) {
  return v_widen_bf16(_mm_loadu_si128((const __m128i*)p));
}
CARNOT_INLINE vf32 v_load_bf16_n(const uint16_t* p, int64_t n) {
  return v_widen_bf16(v_load_u16_n(p, n));
}
CARNOT_INLINE void v_store_bf16(uint16_t* p, vf32 x) {
  _mm_storeu_si128((__m128i*)p, v_narrow_bf16(x));
}
CARNOT_INLINE void v_store_bf16_n(uint16_t* p, vf32 x, int64_t n) {
  v_store_u16_n(p, v_narrow_bf16(x), n);
}

#endif
