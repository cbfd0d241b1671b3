// Trigonometric, hyperbolic and power functions on vectors, for pointwise programs.
#ifndef CARNOT_KERNEL_CPU_COMMON_SIMD_TRIG_H_
#define CARNOT_KERNEL_CPU_COMMON_SIMD_TRIG_H_

#include "kernel/cpu/common/simd_f64.h"
#include "kernel/cpu/common/simd_math.h"

// Reduction of a large or infinite float by pi / 2, exactly: the fraction bits of x * 2 / pi that
// matter are picked from 2 / pi by the exponent of x (Payne and Hanek 1983).
CARNOT_INLINE float reduce_large(float x, int32_t* out_quadrant) {
  static const uint32_t two_over_pi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                         0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561};
  const uint32_t bits = bits_of_f32(x), exponent = bits >> 23 & 0xff;
  *out_quadrant = 0;
  if (exponent == 0xff) return NAN;
  if (exponent < 127 + 10) return x;  // not for small numbers
  const uint64_t m = (bits & 0x7fffff) | 0x800000;
  const uint32_t offset = exponent - 150 + 30, word = offset / 32, shift = offset % 32;
  uint32_t w[3];
  for (int i = 0; i < 3; ++i) {
    const uint64_t pair = (uint64_t)two_over_pi[word + i] << 32 | two_over_pi[word + i + 1];
    w[i] = (uint32_t)(pair << shift >> 32);
  }
  // In units of a whole turn times 2^-64: the upper two bits are the quadrant.
  const uint64_t turn = (m * w[0] << 32) + m * w[1] + (m * w[2] >> 32);
  const uint64_t quadrant = (turn + (UINT64_C(1) << 61)) >> 62;
  const double r = (double)(int64_t)(turn - (quadrant << 62)) * (1.5707963267948966 * 0x1p-62);
  *out_quadrant = (int32_t)(bits >> 31 ? -quadrant & 3 : quadrant);
  return bits >> 31 ? (float)-r : (float)r;
}

// x = quadrant * pi / 2 + r, |r| <= pi / 4.
CARNOT_INLINE vf32 v_reduce_half_pi(vf32 x, vi32* out_quadrant) {
  const vmask large = v_m_not(v_le(v_abs(x), v_set(8192)));
  const vf32 y = v_select(large, v_zero(), x);
  const vf32 n = v_round(v_mul(y, v_set(0.636619772f)));
  vf32 r = v_fnma(n, v_set(1.5703125f), y);  // parts of 11 bits: exact products without FMA too
  r = v_fnma(n, v_set(0.0004837512969970703f), r);
  r = v_fnma(n, v_set(7.549533620476723e-08f), r);
  r = v_fnma(n, v_set(2.5633440682570896e-12f), r);
  *out_quadrant = v_to_int(n);
  if (!v_m_any(large)) return r;
  float lanes[V_LANES], reduced[V_LANES], quadrants[V_LANES];
  v_store(lanes, x), v_store(reduced, r), v_store(quadrants, n);
  for (int i = 0; i < V_LANES; ++i) {
    if (lanes[i] >= -8192 && lanes[i] <= 8192) continue;
    int32_t quadrant;
    reduced[i] = reduce_large(lanes[i], &quadrant);
    quadrants[i] = (float)quadrant;
  }
  *out_quadrant = v_to_int(v_load(quadrants));
  return v_load(reduced);
}

CARNOT_INLINE vf32 v_sin_poly(vf32 r) {
  static const float c[] = {-0.16666667f, 0.0083333291f, -0.00019839256f, 2.7175649e-6f};
  const vf32 z = v_mul(r, r);
  return v_fma(v_mul(r, z), v_poly(z, c, 4), r);
}

CARNOT_INLINE vf32 v_cos_poly(vf32 r) {
  static const float c[] = {0.041666668f, -0.0013888883f, 2.4799438e-5f, -2.7203382e-7f};
  const vf32 z = v_mul(r, r);
  return v_fma(v_mul(z, z), v_poly(z, c, 4), v_fnma(v_set(0.5f), z, v_set(1)));
}

// sin(x + turn * pi / 2).
CARNOT_INLINE vf32 v_sin_turned(vf32 x, int turn) {
  vi32 quadrant;
  const vf32 r = v_reduce_half_pi(x, &quadrant);
  quadrant = v_iadd(quadrant, v_iset(turn));
  const vmask even = v_ieq(v_iand(quadrant, v_iset(1)), v_iset(0));
  const vf32 y = v_select(even, v_sin_poly(r), v_cos_poly(r));
  return v_xor(y, v_of_bits(v_ishl(v_iand(quadrant, v_iset(2)), 30)));
}

CARNOT_INLINE vf32 v_sin(vf32 x) { return v_sin_turned(x, 0); }
CARNOT_INLINE vf32 v_cos(vf32 x) { return v_sin_turned(x, 1); }

CARNOT_INLINE vf32 v_tan(vf32 x) {
  vi32 quadrant;
  const vf32 r = v_reduce_half_pi(x, &quadrant), s = v_sin_poly(r), c = v_cos_poly(r);
  const vmask even = v_ieq(v_iand(quadrant, v_iset(1)), v_iset(0));
  return v_div(v_select(even, s, v_xor(c, v_set(-0.0f))), v_select(even, c, s));
}

CARNOT_INLINE vf32 v_asin_poly(vf32 x) {  // |x| <= 1/2
  static const float c[] = {0.1666666f,   0.075005107f, 0.044515721f,
                            0.031817615f, 0.014402595f, 0.037565216f};
  const vf32 z = v_mul(x, x);
  return v_fma(v_mul(x, z), v_poly(z, c, 6), x);
}

// For |x| > 1/2, asin|x| = pi / 2 - 2 asin(sqrt((1 - |x|) / 2)).
CARNOT_INLINE vf32 v_asin(vf32 x) {
  const vf32 size = v_abs(x);
  const vf32 half = v_asin_poly(v_sqrt(v_mul(v_sub(v_set(1), size), v_set(0.5f))));
  const vf32 large = v_sub(v_set(1.57079633f), v_add(half, half));
  return v_select(v_le(size, v_set(0.5f)), v_asin_poly(x), v_copysign(large, x));
}

CARNOT_INLINE vf32 v_acos(vf32 x) {
  const vf32 size = v_abs(x);
  const vf32 half = v_asin_poly(v_sqrt(v_mul(v_sub(v_set(1), size), v_set(0.5f))));
  const vf32 twice = v_add(half, half);
  const vf32 large = v_select(v_lt(x, v_zero()), v_sub(v_set(3.14159265f), twice), twice);
  return v_select(v_le(size, v_set(0.5f)), v_sub(v_set(1.57079633f), v_asin_poly(x)), large);
}

// Above tan(pi / 8): pi / 4 + atan((x - 1) / (x + 1)); above its inverse: pi / 2 - atan(1 / x).
CARNOT_INLINE vf32 v_atan(vf32 x) {
  static const float c[] = {-0.33333331f, 0.199999f,     -0.14281911f,
                            0.11043385f,  -0.084684268f, 0.047267899f};
  const vf32 size = v_abs(x), one = v_set(1);
  const vmask middle = v_lt(v_set(0.414213562f), size), large = v_lt(v_set(2.41421356f), size);
  const vf32 up = v_select(large, v_set(-1), v_select(middle, v_sub(size, one), size));
  const vf32 down = v_select(large, size, v_select(middle, v_add(size, one), one));
  const vf32 t = v_div(up, down), z = v_mul(t, t);
  const vf32 y = v_fma(v_mul(t, z), v_poly(z, c, 6), t);
  const vf32 base =
      v_select(large, v_set(1.57079633f), v_select(middle, v_set(0.785398163f), v_zero()));
  return v_copysign(v_add(base, y), x);
}

// exp(|x|) / 2 may stay in range where exp(|x|) does not: two factors of exp(|x| / 2).
CARNOT_INLINE vf32 v_sinh(vf32 x) {
  const vf32 size = v_abs(x), e = v_exp(v_mul(size, v_set(0.5f)));
  const vf32 t = v_expm1(v_min_to(v_set(20), size));
  const vf32 small = v_mul(v_set(0.5f), v_add(t, v_div(t, v_add(t, v_set(1)))));
  const vf32 y = v_select(v_lt(size, v_set(10)), small, v_mul(v_mul(e, v_set(0.5f)), e));
  return v_copysign(y, x);
}

CARNOT_INLINE vf32 v_cosh(vf32 x) {
  const vf32 size = v_abs(x), h = v_exp(v_mul(size, v_set(0.5f))), e = v_exp(size);
  const vf32 small = v_mul(v_set(0.5f), v_add(e, v_div(v_set(1), e)));
  return v_select(v_lt(size, v_set(10)), small, v_mul(v_mul(h, v_set(0.5f)), h));
}

CARNOT_INLINE vf32 v_asinh(vf32 x) {
  const vf32 size = v_abs(x), z = v_mul(size, size), one = v_set(1);
  const vf32 small = v_log1p(v_add(size, v_div(z, v_add(one, v_sqrt(v_add(z, one))))));
  const vf32 large = v_add(v_log(size), v_set(0.693147181f));
  return v_copysign(v_select(v_lt(size, v_set(10000)), small, large), x);
}

CARNOT_INLINE vf32 v_acosh(vf32 x) {
  const vf32 t = v_sub(x, v_set(1));
  const vf32 small = v_log1p(v_add(t, v_sqrt(v_fma(t, t, v_add(t, t)))));
  const vf32 large = v_add(v_log(x), v_set(0.693147181f));
  const vf32 y = v_select(v_lt(x, v_set(10000)), small, large);
  return v_select(v_lt(x, v_set(1)), v_set(NAN), y);
}

CARNOT_INLINE vf32 v_atanh(vf32 x) {
  const vf32 size = v_abs(x);
  const vf32 y = v_log1p(v_div(v_add(size, size), v_sub(v_set(1), size)));
  return v_copysign(v_mul(v_set(0.5f), y), x);
}

// c[0] + c[1] x + ... + c[n-1] x^(n-1); |n| is constant.
CARNOT_INLINE vf64 v64_poly(vf64 x, const double* c, int n) {
  vf64 y = v64_set(c[n - 1]);
  for (int i = n - 2; i >= 0; --i) y = v64_fma(y, x, v64_set(c[i]));
  return y;
}

// log2(x) of normal positive numbers, 2e-12 of it: x = 2^e m, m in [sqrt(1/2), sqrt(2)), and
// ln(m) = 2 atanh(s), s = (m - 1) / (m + 1).
CARNOT_INLINE vf64 v64_log2(vf64 x) {
  static const double c[] = {1, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13};
  const vu64 from_half = (vu64)x - UINT64_C(0x3fe6a09e667f3bcd) + (UINT64_C(1024) << 52);
  const vu64 e = from_half >> 52;  // its exponent + 1024
  const vf64 m = (vf64)((vu64)x - (e << 52) + (UINT64_C(1024) << 52)), one = v64_set(1);
  const vf64 s = (m - one) / (m + one);
  const vf64 exponent = (vf64)(e | (vu64)v64_set(0x1p52)) - v64_set(0x1p52 + 1024);
  return v64_fma(s * v64_poly(s * s, c, 7), v64_set(2.8853900817779268), exponent);  // 2 / ln 2
}

// 2^x for |x| <= 200, 3e-10 of it.
CARNOT_INLINE vf64 v64_exp2(vf64 x) {
  static const double c[] = {1,         1,         1.0 / 2,    1.0 / 6,    1.0 / 24,
                             1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320};
  const vf64 whole = v64_set(0x1.8p52), sum = x + whole;  // the low bits are the whole part
  const vf64 p = v64_poly((x - (sum - whole)) * v64_set(0.6931471805599453), c, 9);
  return (vf64)((vu64)p + ((vu64)sum << 52));
}

CARNOT_INLINE vf32 v_pow(vf32 x, vf32 y) {
  float size[V_LANES], exponent[V_LANES], power[V_LANES];
  const vf32 one = v_set(1), inf = v_set(INFINITY), a = v_abs(x);
  v_store(size, v_select(v_m_and(v_lt(v_zero(), a), v_lt(a, inf)), a, one));
  v_store(exponent, v_select(v_is_nan(y), one, v_min_to(v_set(1e30f), v_max_to(v_set(-1e30f), y))));
  // |x|^y in double precision, rounded once at the end.
  for (int i = 0; i < V_LANES; i += V64_LANES) {
    const vf64 t = v64_load_f32(exponent + i) * v64_log2(v64_load_f32(size + i));
    v64_store_f32(power + i, v64_exp2(v64_clamp(t, -200, 200)));
  }
  vf32 p = v_load(power);
  const vmask negative = v_lt(y, v_zero());
  p = v_select(v_eq(a, v_zero()), v_select(negative, inf, v_zero()), p);
  p = v_select(v_eq(a, inf), v_select(negative, v_zero(), inf), p);
  // Below zero the exponent must be an integer; an odd one keeps the sign. -0 counts as below.
  const vf32 half = v_mul(y, v_set(0.5f));
  const vmask whole = v_eq(v_round(y), y), even = v_eq(v_round(half), half);
  const vf32 sign = v_and(x, v_set(-0.0f));
  p = v_select(v_m_and(whole, v_m_not(even)), v_xor(p, sign), p);
  const vmask wrong = v_m_and(v_m_and(v_lt(x, v_zero()), v_m_not(whole)), v_lt(a, inf));
  p = v_select(wrong, v_set(NAN), p);
  p = v_select(v_m_or(v_is_nan(x), v_is_nan(y)), v_set(NAN), p);
  return v_select(v_m_or(v_eq(y, v_zero()), v_eq(x, one)), one, p);
}

#endif
