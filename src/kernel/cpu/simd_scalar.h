// Plain C, one lane: any machine. Included by simd.h only; see there for the contract.
#ifndef CARNOT_KERNEL_CPU_SIMD_SCALAR_H_
#define CARNOT_KERNEL_CPU_SIMD_SCALAR_H_

#define V_LANES 1
typedef float vf32;
typedef int32_t vi32;
typedef bool vmask;

CARNOT_INLINE vf32 v_load(const float* p) { return *p; }
CARNOT_INLINE vf32 v_load_n(const float* p, int64_t n) { return n > 0 ? *p : 0; }
CARNOT_INLINE void v_store(float* p, vf32 x) { *p = x; }
CARNOT_INLINE void v_store_n(float* p, vf32 x, int64_t n) {
  if (n > 0) *p = x;
}
CARNOT_INLINE vf32 v_set(float x) { return x; }
CARNOT_INLINE vf32 v_zero(void) { return 0; }

CARNOT_INLINE vi32 v_bits(vf32 a) { return (vi32)bits_of_f32(a); }
CARNOT_INLINE vf32 v_of_bits(vi32 a) { return f32_of_bits((uint32_t)a); }

CARNOT_INLINE vf32 v_add(vf32 a, vf32 b) { return a + b; }
CARNOT_INLINE vf32 v_sub(vf32 a, vf32 b) { return a - b; }
CARNOT_INLINE vf32 v_mul(vf32 a, vf32 b) { return a * b; }
CARNOT_INLINE vf32 v_div(vf32 a, vf32 b) { return a / b; }
CARNOT_INLINE vf32 v_sqrt(vf32 a) { return __builtin_sqrtf(a); }
CARNOT_INLINE vf32 v_fma(vf32 a, vf32 b, vf32 c) { return a * b + c; }
CARNOT_INLINE vf32 v_fnma(vf32 a, vf32 b, vf32 c) { return c - a * b; }
CARNOT_INLINE vf32 v_max_to(vf32 bound, vf32 x) { return bound > x ? bound : x; }
CARNOT_INLINE vf32 v_min_to(vf32 bound, vf32 x) { return bound < x ? bound : x; }
CARNOT_INLINE vf32 v_and(vf32 a, vf32 b) { return v_of_bits(v_bits(a) & v_bits(b)); }
CARNOT_INLINE vf32 v_or(vf32 a, vf32 b) { return v_of_bits(v_bits(a) | v_bits(b)); }
CARNOT_INLINE vf32 v_xor(vf32 a, vf32 b) { return v_of_bits(v_bits(a) ^ v_bits(b)); }
CARNOT_INLINE vf32 v_abs(vf32 a) { return v_of_bits(v_bits(a) & 0x7fffffff); }

// Adding and taking away 2^23 leaves the nearest integer, ties to even; larger numbers are
// integers.
CARNOT_INLINE vf32 v_round(vf32 a) {
  const vf32 size = v_abs(a);
  if (!(size < 8388608.0f)) return a;
  const volatile vf32 shifted = size + 8388608.0f;
  return v_or(shifted - 8388608.0f, v_and(a, -0.0f));
}
CARNOT_INLINE vf32 v_trunc(vf32 a) {
  if (!(v_abs(a) < 8388608.0f)) return a;
  return v_or(v_abs((vf32)(int32_t)a), v_and(a, -0.0f));
}
CARNOT_INLINE vf32 v_floor(vf32 a) {
  const vf32 t = v_trunc(a);
  return t > a ? t - 1 : t;
}
CARNOT_INLINE vf32 v_ceil(vf32 a) {
  const vf32 t = v_trunc(a);
  return v_or(t < a ? t + 1 : t, v_and(a, -0.0f));
}

CARNOT_INLINE vmask v_lt(vf32 a, vf32 b) { return a < b; }
CARNOT_INLINE vmask v_le(vf32 a, vf32 b) { return a <= b; }
CARNOT_INLINE vmask v_eq(vf32 a, vf32 b) { return a == b; }
CARNOT_INLINE vmask v_is_nan(vf32 a) { return a != a; }
CARNOT_INLINE vmask v_m_and(vmask a, vmask b) { return a && b; }
CARNOT_INLINE vmask v_m_or(vmask a, vmask b) { return a || b; }
CARNOT_INLINE vmask v_m_not(vmask a) { return !a; }
CARNOT_INLINE bool v_m_any(vmask a) { return a; }
CARNOT_INLINE vf32 v_select(vmask m, vf32 a, vf32 b) { return m ? a : b; }
CARNOT_INLINE vf32 v_max(vf32 a, vf32 b) { return a != a ? a : v_max_to(a, b); }
CARNOT_INLINE vf32 v_min(vf32 a, vf32 b) { return a != a ? a : v_min_to(a, b); }

CARNOT_INLINE vi32 v_iload(const int32_t* p) { return *p; }
CARNOT_INLINE vi32 v_iload_n(const int32_t* p, int64_t n) { return n > 0 ? *p : 0; }
CARNOT_INLINE vi32 v_iset(int32_t x) { return x; }
CARNOT_INLINE vi32 v_to_int(vf32 a) {
  const vf32 r = v_round(a);
  return v_abs(r) < 2147483648.0f ? (vi32)r : INT32_MIN;
}
CARNOT_INLINE vf32 v_of_int(vi32 a) { return (vf32)a; }
CARNOT_INLINE vi32 v_iadd(vi32 a, vi32 b) { return (vi32)((uint32_t)a + (uint32_t)b); }
CARNOT_INLINE vi32 v_isub(vi32 a, vi32 b) { return (vi32)((uint32_t)a - (uint32_t)b); }
CARNOT_INLINE vi32 v_iand(vi32 a, vi32 b) { return a & b; }
CARNOT_INLINE vi32 v_ishl(vi32 a, int n) { return (vi32)((uint32_t)a << n); }
CARNOT_INLINE vi32 v_ishr(vi32 a, int n) { return a >> n; }
CARNOT_INLINE vmask v_ieq(vi32 a, vi32 b) { return a == b; }

// Three factors, because 2^n alone leaves the range of normal numbers long before x * 2^n does.
CARNOT_INLINE vf32 v_scale2(vf32 x, vf32 n) {
  const vi32 whole = v_to_int(n), third = v_to_int(n * (1.0f / 3));
  const vi32 rest = v_isub(whole, v_iadd(third, third));
  const vf32 f = v_of_bits(v_ishl(v_iadd(third, 127), 23));
  return x * f * f * v_of_bits(v_ishl(v_iadd(rest, 127), 23));
}

CARNOT_INLINE float v_sum(vf32 a) { return a; }

// Bytes: numbers as floats, and the low byte of each lane.
CARNOT_INLINE vf32 v_load_bytes_n(const void* p, int64_t n, bool is_signed) {
  if (n < 1) return 0;
  return is_signed ? *(const int8_t*)p : *(const uint8_t*)p;
}
CARNOT_INLINE void v_store_bytes_n(void* p, vi32 x, int64_t n) {
  if (n > 0) *(uint8_t*)p = (uint8_t)x;
}

// Two-byte types: binary16 by hand, rounding to nearest even; subnormals, infinity and NaN kept.
CARNOT_INLINE vf32 v_load_f16(const uint16_t* p) {
  const uint32_t sign = (uint32_t)(*p & 0x8000) << 16, size = *p & 0x7fffu;
  if (size >= 0x7c00) {
    return f32_of_bits(sign | 0x7f800000 | (size & 0x3ff) << 13 | (size > 0x7c00 ? 0x400000u : 0u));
  }
  if (size < 0x400) return v_or((float)size * 5.9604644775390625e-8f, f32_of_bits(sign));
  return f32_of_bits(sign | ((size << 13) + 0x38000000));
}
CARNOT_INLINE void v_store_f16(uint16_t* p, vf32 x) {
  const uint32_t bits = bits_of_f32(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  uint32_t half;
  if (size > 0x7f800000) {
    half = 0x7e00 | (size >> 13 & 0x3ff);
  } else if (size >= 0x477ff000) {
    half = 0x7c00;
  } else if (size < 0x38800000) {
    const volatile float shifted = f32_of_bits(size) + 0.5f;  // ulp of 0.5 is the subnormal step
    half = bits_of_f32(shifted) - 0x3f000000;
  } else {
    half = (size + 0xfff + (size >> 13 & 1) - 0x38000000) >> 13;
  }
  *p = (uint16_t)(sign | half);
}
CARNOT_INLINE vf32 v_load_bf16(const uint16_t* p) { return f32_of_bits((uint32_t)*p << 16); }
CARNOT_INLINE void v_store_bf16(uint16_t* p, vf32 x) {
  const uint32_t bits = bits_of_f32(x);
  *p = (uint16_t)((x != x ? bits | 0x400000 : bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
CARNOT_INLINE vf32 v_load_f16_n(const uint16_t* p, int64_t n) { return n > 0 ? v_load_f16(p) : 0; }
CARNOT_INLINE vf32 v_load_bf16_n(const uint16_t* p, int64_t n) {
  return n > 0 ? v_load_bf16(p) : 0;
}
CARNOT_INLINE void v_store_f16_n(uint16_t* p, vf32 x, int64_t n) {
  if (n > 0) v_store_f16(p, x);
}
CARNOT_INLINE void v_store_bf16_n(uint16_t* p, vf32 x, int64_t n) {
  if (n > 0) v_store_bf16(p, x);
}

#endif
