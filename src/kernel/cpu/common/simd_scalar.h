// Plain C with GNU vectors of 4, which every machine's compiler maps to what it has: SSE2, NEON, or
// single instructions; what they miss of NEON is in simd_neon.h. Included by simd.h only; see there
// for the contract.
#ifndef CARNOT_KERNEL_CPU_COMMON_SIMD_SCALAR_H_
#define CARNOT_KERNEL_CPU_COMMON_SIMD_SCALAR_H_

#define V_LANES 4
typedef float vf32 __attribute__((vector_size(16)));
typedef int32_t vi32 __attribute__((vector_size(16)));
typedef vi32 vmask;  // all ones or all zeros

#define V_ALL_8(x) (void)(x)
#define V_KEEP(x)  (void)(x)
CARNOT_INLINE vf32 v_set(float x) { return (vf32){x, x, x, x}; }
CARNOT_INLINE vf32 v_zero(void) { return v_set(0); }
CARNOT_INLINE vf32 v_load(const float* p) {
  vf32 x;
  memcpy(&x, p, sizeof x);
  return x;
}
CARNOT_INLINE vf32 v_load_n(const float* p, int64_t n) {
  vf32 x = v_zero();
  for (int i = 0; i < V_LANES; ++i) {
    if (i < n) x[i] = p[i];
  }
  return x;
}
CARNOT_INLINE void v_store(float* p, vf32 x) { memcpy(p, &x, sizeof x); }
CARNOT_INLINE void v_store_n(float* p, vf32 x, int64_t n) {
  for (int i = 0; i < V_LANES; ++i) {
    if (i < n) p[i] = x[i];
  }
}

CARNOT_INLINE vi32 v_bits(vf32 a) { return (vi32)a; }
CARNOT_INLINE vf32 v_of_bits(vi32 a) { return (vf32)a; }
CARNOT_INLINE vf32 v_select(vmask m, vf32 a, vf32 b) {
  return (vf32)((m & (vi32)a) | (~m & (vi32)b));
}

CARNOT_INLINE vf32 v_add(vf32 a, vf32 b) { return a + b; }
CARNOT_INLINE vf32 v_sub(vf32 a, vf32 b) { return a - b; }
CARNOT_INLINE vf32 v_mul(vf32 a, vf32 b) { return a * b; }
CARNOT_INLINE vf32 v_div(vf32 a, vf32 b) { return a / b; }
CARNOT_INLINE vf32 v_rcp_roughly(vf32 a) { return v_div(v_set(1), a); }
CARNOT_INLINE vf32 v_rcp(vf32 a) { return v_div(v_set(1), a); }
CARNOT_INLINE vf32 v_and(vf32 a, vf32 b) { return (vf32)((vi32)a & (vi32)b); }
CARNOT_INLINE vf32 v_or(vf32 a, vf32 b) { return (vf32)((vi32)a | (vi32)b); }
CARNOT_INLINE vf32 v_xor(vf32 a, vf32 b) { return (vf32)((vi32)a ^ (vi32)b); }
CARNOT_INLINE vf32 v_abs(vf32 a) { return (vf32)((vi32)a & 0x7fffffff); }

CARNOT_INLINE vf32 v_max_to(vf32 bound, vf32 x) { return v_select(bound > x, bound, x); }
CARNOT_INLINE vf32 v_min_to(vf32 bound, vf32 x) { return v_select(bound < x, bound, x); }
#if defined(__ARM_NEON)
#include "kernel/cpu/common/simd_neon.h"
#else
CARNOT_INLINE vf32 v_sqrt(vf32 a) {
  for (int i = 0; i < V_LANES; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
}
#define V_FMA_IS_FUSED 0
CARNOT_INLINE vf32 v_fma(vf32 a, vf32 b, vf32 c) { return a * b + c; }
CARNOT_INLINE vf32 v_fnma(vf32 a, vf32 b, vf32 c) { return c - a * b; }
CARNOT_INLINE vf32 v_max(vf32 a, vf32 b) { return v_select(a != a, a, v_max_to(a, b)); }
CARNOT_INLINE vf32 v_min(vf32 a, vf32 b) { return v_select(a != a, a, v_min_to(a, b)); }

// Adding and taking away 2^23 leaves the nearest integer, ties to even; larger numbers are
// integers.
CARNOT_INLINE vf32 v_round(vf32 a) {
  const vf32 size = v_abs(a), shifted = size + 8388608.0f - 8388608.0f;
  return v_select(size < 8388608.0f, v_or(shifted, v_and(a, v_set(-0.0f))), a);
}
// Away from the nearest integer towards a, where that lies on the other side.
CARNOT_INLINE vf32 v_floor(vf32 a) {
  const vf32 r = v_round(a);
  return v_select(r > a, r - 1.0f, r);
}
CARNOT_INLINE vf32 v_ceil(vf32 a) {
  const vf32 r = v_round(a);
  return v_or(v_select(r < a, r + 1.0f, r), v_and(a, v_set(-0.0f)));
}
CARNOT_INLINE vf32 v_trunc(vf32 a) { return v_or(v_floor(v_abs(a)), v_and(a, v_set(-0.0f))); }
#endif

CARNOT_INLINE vmask v_lt(vf32 a, vf32 b) { return a < b; }
CARNOT_INLINE vmask v_le(vf32 a, vf32 b) { return a <= b; }
CARNOT_INLINE vmask v_eq(vf32 a, vf32 b) { return a == b; }
CARNOT_INLINE vmask v_is_nan(vf32 a) { return a != a; }
CARNOT_INLINE vmask v_m_and(vmask a, vmask b) { return a & b; }
CARNOT_INLINE vmask v_m_or(vmask a, vmask b) { return a | b; }
CARNOT_INLINE vmask v_m_not(vmask a) { return ~a; }
CARNOT_INLINE bool v_m_any(vmask a) { return (a[0] | a[1] | a[2] | a[3]) != 0; }

CARNOT_INLINE vi32 v_iload(const int32_t* p) {
  vi32 x;
  memcpy(&x, p, sizeof x);
  return x;
}
CARNOT_INLINE vi32 v_iset(int32_t x) { return (vi32){x, x, x, x}; }
CARNOT_INLINE vi32 v_iload_n(const int32_t* p, int64_t n) {
  vi32 x = v_iset(0);
  for (int i = 0; i < V_LANES; ++i) {
    if (i < n) x[i] = p[i];
  }
  return x;
}
CARNOT_INLINE vf32 v_of_int(vi32 a) { return __builtin_convertvector(a, vf32); }
CARNOT_INLINE vf32 v_permute(vf32 a, vi32 from) {
  vf32 x;
  for (int i = 0; i < V_LANES; ++i) x[i] = a[from[i]];
  return x;
}
CARNOT_INLINE vf32 v_even(vf32 a, vf32 b) { return (vf32){a[0], a[2], b[0], b[2]}; }
CARNOT_INLINE vi32 v_iadd(vi32 a, vi32 b) {
  typedef uint32_t vu32 __attribute__((vector_size(16)));
  return (vi32)((vu32)a + (vu32)b);
}
CARNOT_INLINE vi32 v_isub(vi32 a, vi32 b) {
  typedef uint32_t vu32 __attribute__((vector_size(16)));
  return (vi32)((vu32)a - (vu32)b);
}
CARNOT_INLINE vi32 v_iand(vi32 a, vi32 b) { return a & b; }
CARNOT_INLINE vi32 v_iand_or(vi32 a, vi32 b, vi32 c) { return (a & b) | c; }
CARNOT_INLINE vi32 v_ishl(vi32 a, int n) {
  typedef uint32_t vu32 __attribute__((vector_size(16)));
  return (vi32)((vu32)a << n);
}
CARNOT_INLINE vi32 v_ishr(vi32 a, int n) { return a >> n; }
CARNOT_INLINE vmask v_ieq(vi32 a, vi32 b) { return a == b; }

// Out of range, and for NaN, the least integer, as the vector instructions of other levels give.
CARNOT_INLINE vi32 v_to_int(vf32 a) {
  const vf32 r = v_round(a);
  const vmask fits = v_abs(r) < 2147483648.0f;
  const vi32 x = __builtin_convertvector(v_select(fits, r, v_zero()), vi32);
  return (fits & x) | (~fits & INT32_MIN);
}

// Three factors, because 2^n alone leaves the range of normal numbers long before x * 2^n does.
CARNOT_INLINE vf32 v_scale2(vf32 x, vf32 n) {
  const vi32 whole = v_to_int(n), third = v_to_int(n * (1.0f / 3));
  const vi32 rest = v_isub(whole, v_iadd(third, third));
  const vf32 f = v_of_bits(v_ishl(v_iadd(third, v_iset(127)), 23));
  return x * f * f * v_of_bits(v_ishl(v_iadd(rest, v_iset(127)), 23));
}
CARNOT_INLINE vf32 v_split_floor(vf32 y, vf32* out_n) {
  *out_n = v_floor(y);
  return y - *out_n;
}

CARNOT_INLINE float v_sum(vf32 a) { return (a[0] + a[2]) + (a[1] + a[3]); }

// The greatest and the least lane; none is NaN.
CARNOT_INLINE float v_max_of(vf32 a) {
  const float even = a[0] > a[2] ? a[0] : a[2], odd = a[1] > a[3] ? a[1] : a[3];
  return even > odd ? even : odd;
}
CARNOT_INLINE float v_min_of(vf32 a) {
  const float even = a[0] < a[2] ? a[0] : a[2], odd = a[1] < a[3] ? a[1] : a[3];
  return even < odd ? even : odd;
}

// Bytes: numbers as floats, and the low byte of each lane.
CARNOT_INLINE vf32 v_load_bytes_n(const void* p, int64_t n, bool is_signed) {
  vf32 x = v_zero();
  for (int i = 0; i < V_LANES; ++i) {
    if (i < n) x[i] = is_signed ? ((const int8_t*)p)[i] : ((const uint8_t*)p)[i];
  }
  return x;
}
CARNOT_INLINE void v_store_bytes_n(void* p, vi32 x, int64_t n) {
  for (int i = 0; i < V_LANES; ++i) {
    if (i < n) ((uint8_t*)p)[i] = (uint8_t)x[i];
  }
}
CARNOT_INLINE vf32 v_load_bytes(const void* p, bool is_signed) {
  return v_load_bytes_n(p, V_LANES, is_signed);
}
CARNOT_INLINE void v_store_bytes(void* p, vi32 x) { v_store_bytes_n(p, x, V_LANES); }

// The first |n| of 32 numbers of |x| plus |zero| within [low, high] as bytes; |x| is below 2^31 -
// 256 in magnitude.
CARNOT_INLINE void v_store_clamped_32(void* p, const vi32* x, int zero, int low, int high,
                                      bool is_signed, int64_t n) {
  (void)is_signed;
  for (int i = 0; i < 32 && i < n; ++i) {
    const int32_t y = x[i / V_LANES][i % V_LANES] + zero;
    ((uint8_t*)p)[i] = (uint8_t)(y < low ? low : y > high ? high : y);
  }
}
CARNOT_INLINE void v_store_clamped_2x32(void* p, void* p2, const vi32* x, const vi32* x2, int zero,
                                        int low, int high, bool is_signed, int64_t n) {
  v_store_clamped_32(p, x, zero, low, high, is_signed, n);
  v_store_clamped_32(p2, x2, zero, low, high, is_signed, n);
}

// Two-byte types: binary16 by hand, rounding to nearest even; subnormals, infinity and NaN kept.
CARNOT_INLINE float f32_of_half(uint16_t half) {
  const uint32_t sign = (uint32_t)(half & 0x8000) << 16, size = half & 0x7fffu;
  if (size >= 0x7c00) {
    return f32_of_bits(sign | 0x7f800000 | (size & 0x3ff) << 13 | (size > 0x7c00 ? 0x400000u : 0u));
  }
  if (size < 0x400) {
    return f32_of_bits(sign | bits_of_f32((float)size * 5.9604644775390625e-8f));
  }
  return f32_of_bits(sign | ((size << 13) + 0x38000000));
}
CARNOT_INLINE uint16_t half_of_f32(float x) {
  const uint32_t bits = bits_of_f32(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  uint32_t half;
  if (size > 0x7f800000) {
    half = 0x7e00 | (size >> 13 & 0x3ff);
  } else if (size >= 0x477ff000) {
    half = 0x7c00;
  } else if (size < 0x38800000) {
    const float shifted = f32_of_bits(size) + 0.5f;  // ulp of 0.5 is the subnormal step
    half = bits_of_f32(shifted) - 0x3f000000;
  } else {
    half = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
  }
  return (uint16_t)(sign | half);
}
CARNOT_INLINE uint16_t bf16_of_float(float x) {
  const uint32_t bits = bits_of_f32(x);
  return (uint16_t)((x != x ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
CARNOT_INLINE vf32 v_round_bf16(vf32 x) {
  for (int i = 0; i < V_LANES; ++i) x[i] = f32_of_bits((uint32_t)bf16_of_float(x[i]) << 16);
  return x;
}
CARNOT_INLINE vf32 v_load_f16_n(const uint16_t* p, int64_t n) {
  vf32 x = v_zero();
  for (int i = 0; i < V_LANES; ++i) {
    if (i < n) x[i] = f32_of_half(p[i]);
  }
  return x;
}
CARNOT_INLINE vf32 v_load_bf16_n(const uint16_t* p, int64_t n) {
  vf32 x = v_zero();
  for (int i = 0; i < V_LANES; ++i) {
    if (i < n) x[i] = f32_of_bits((uint32_t)p[i] << 16);
  }
  return x;
}
CARNOT_INLINE void v_store_f16_n(uint16_t* p, vf32 x, int64_t n) {
  for (int i = 0; i < V_LANES; ++i) {
    if (i < n) p[i] = half_of_f32(x[i]);
  }
}
CARNOT_INLINE void v_store_bf16_n(uint16_t* p, vf32 x, int64_t n) {
  for (int i = 0; i < V_LANES; ++i) {
    if (i < n) p[i] = bf16_of_float(x[i]);
  }
}
#if !defined(__ARM_NEON)
CARNOT_INLINE vf32 v_load_f16(const uint16_t* p) { return v_load_f16_n(p, V_LANES); }
CARNOT_INLINE void v_store_f16(uint16_t* p, vf32 x) { v_store_f16_n(p, x, V_LANES); }
CARNOT_INLINE vf32 v_round_f16(vf32 x) {
  for (int i = 0; i < V_LANES; ++i) x[i] = f32_of_half(half_of_f32(x[i]));
  return x;
}
#endif
CARNOT_INLINE vf32 v_load_bf16(const uint16_t* p) { return v_load_bf16_n(p, V_LANES); }
CARNOT_INLINE void v_store_bf16(uint16_t* p, vf32 x) { v_store_bf16_n(p, x, V_LANES); }

#endif
