// Functions on vectors, from own minimax fits (relative errors on their intervals beside them).
// Errors in units of the last place were measured by simd_math_test over the whole range.
#ifndef CARNOT_KERNEL_CPU_COMMON_SIMD_MATH_H_
#define CARNOT_KERNEL_CPU_COMMON_SIMD_MATH_H_

#include <math.h>

#include "kernel/cpu/common/simd.h"

// c[0] + c[1] x + ... + c[n-1] x^(n-1); |n| is constant.
CARNOT_INLINE vf32 v_poly(vf32 x, const float* c, int n) {
  vf32 y = v_set(c[n - 1]);
  for (int i = n - 2; i >= 0; --i) y = v_fma(y, x, v_set(c[i]));
  return y;
}

// x * 2^n for x in [1/2, 2) and integral n, where the result is a normal number; NaN stays NaN.
// Without an instruction for it n is added to the exponent.
CARNOT_INLINE vf32 v_scale2_normal(vf32 x, vf32 n) {
#if V_LANES == 16
  return v_scale2(x, n);
#else
  return v_of_bits(v_iadd(v_bits(x), v_ishl(v_to_int(n), 23)));
#endif
}

// The same for n in [-189, 62], with gradual underflow.
CARNOT_INLINE vf32 v_scale2_down(vf32 x, vf32 n) {
#if V_LANES == 16
  return v_scale2(x, n);
#else
  return v_mul(v_scale2_normal(x, v_add(n, v_set(64))), v_set(0x1p-64f));
#endif
}

// ln 2 in two parts; the first has 9 bits, so that n * kLn2High is exact without FMA.
static const float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;

// x = n ln 2 + r, |r| <= ln 2 / 2; returns exp(r) - 1, 2^-34.
CARNOT_INLINE vf32 v_exp_reduced(vf32 x, vf32* out_n) {
  static const float c[] = {0.5f,          0.16666667f,   0.041666254f,
                            0.0083332611f, 0.0013947212f, 0.00019919923f};
  const vf32 whole = v_set(12582912);  // 1.5 * 2^23: a sum with it is rounded to a whole number
  const vf32 n = v_sub(v_fma(x, v_set(1.44269504f), whole), whole);
  const vf32 r = v_fnma(n, v_set(kLn2Low), v_fnma(n, v_set(kLn2High), x));
  *out_n = n;
  return v_fma(v_mul(r, r), v_poly(r, c, 6), r);
}

CARNOT_INLINE vf32 v_exp(vf32 x) {
  vf32 n;
  x = v_min_to(v_set(89), v_max_to(v_set(-104), x));
  const vf32 p = v_exp_reduced(x, &n);
  return v_scale2(v_add(p, v_set(1)), n);
}

// 2^-g for |g| <= 1/2, 2^-26.
CARNOT_INLINE vf32 v_exp2_of_minus(vf32 g) {
  static const float c[] = {1,
                            -0.69314718f,
                            0.240226477f,
                            -0.0555033237f,
                            0.00961843692f,
                            -0.0013398875f,
                            0.00015353359f};
  return v_poly(g, c, 7);
}

// exp(x) for x <= 88, and 0 where that is subnormal: multiply-adds over subnormal numbers, which a
// mask of -100 makes of a softmax, take 10 to 20 times as long.
CARNOT_INLINE vf32 v_exp_normal(vf32 x) {
  const vf32 least = v_set(-87.3365f);  // ln of the least normal number
#if V_FMA_IS_FUSED
  // 2^-g for g = n - x / ln 2.
  const vf32 whole = v_set(12582912), per_ln2 = v_set(1.44269504f), y = v_max_to(least, x);
  const vf32 n = v_sub(v_fma(y, per_ln2, whole), whole);
  const vf32 e = v_scale2_normal(v_exp2_of_minus(v_fnma(y, per_ln2, n)), n);
#else
  vf32 n;
  const vf32 p = v_exp_reduced(v_max_to(least, x), &n), e = v_scale2_down(v_add(p, v_set(1)), n);
#endif
  return v_select(v_lt(x, least), v_zero(), e);
}

// exp(x) - 1 = 2^n (exp(r) - 1) + (2^n - 1).
CARNOT_INLINE vf32 v_expm1(vf32 x) {
  vf32 n;
  const vf32 y = v_min_to(v_set(89), v_max_to(v_set(-25), x));
  const vf32 p = v_exp_reduced(y, &n);
  const vf32 half = v_scale2_normal(v_set(0.5f), n);  // 2^128 is beyond the range, its half is not
  const vf32 sum = v_add(v_mul(p, half), v_sub(half, v_set(0.5f)));
  return v_select(v_eq(x, v_zero()), x, v_add(sum, sum));
}

CARNOT_INLINE vf32 v_sigmoid(vf32 x) {
  vf32 n;
  const vf32 p = v_exp_reduced(v_max_to(v_set(-104), v_or(x, v_set(-0.0f))), &n);
  const vf32 e = v_scale2_down(v_add(p, v_set(1)), n), d = v_rcp(v_add(v_set(1), e));
  return v_select(v_lt(x, v_zero()), v_mul(e, d), d);
}

// x / (1 + exp(-x)), zero where exp(x) would be subnormal; NaN of -inf, as the formula says.
CARNOT_INLINE vf32 v_silu(vf32 x) {
#if V_FMA_IS_FUSED
  // -y / ln 2 = n - g.
  const vf32 least = v_set(-87.3365f), most = v_set(87.3365f), whole = v_set(12582912),
             per_ln2 = v_set(1.44269502f), per_ln2_low = v_set(1.92596303e-8f);
  const vf32 y = v_min_to(most, v_max_to(least, x));
  const vf32 n = v_sub(v_fnma(y, per_ln2, whole), whole);
  const vf32 g = v_fma(y, per_ln2_low, v_fma(y, per_ln2, n));
  const vf32 d = v_rcp(v_add(v_set(1), v_scale2_normal(v_exp2_of_minus(g), n)));
  return v_mul(x, v_select(v_lt(x, least), v_zero(), d));
#else
  return v_mul(x, v_sigmoid(x));
#endif
}

// For results that are rounded to BF16: 2^y = p 2^n by a polynomial of degree 3, 8e-5. Returns p.
CARNOT_INLINE vf32 v_exp2_fraction(vf32 y, vf32* out_n) {
  static const float c[] = {0.99992522f, 0.69583353f, 0.22606716f, 0.07802452f};
  return v_poly(v_split_floor(y, out_n), c, 4);
}
CARNOT_INLINE vf32 v_exp2_roughly(vf32 y) {
  vf32 n;
  const vf32 p = v_exp2_fraction(y, &n);
  return v_scale2(p, n);
}

// Likewise x / (1 + exp(-x)), 5e-4; NaN of -inf, as the formula says.
CARNOT_INLINE vf32 v_silu_roughly(vf32 x) {
  const vf32 z = v_mul(x, v_set(-1.44269504f)),
             e = v_exp2_roughly(v_min_to(v_set(250), v_max_to(v_set(-125), z)));
  return v_mul(x, v_rcp_roughly(v_add(v_set(1), e)));
}

CARNOT_INLINE vf32 v_copysign(vf32 size, vf32 sign) {
  return v_or(v_abs(size), v_and(sign, v_set(-0.0f)));
}

// t / (t + 2) for t = exp(2|x|) - 1 = 2^n (2^f - 1) + (2^n - 1).
CARNOT_INLINE vf32 v_tanh(vf32 x) {
  const vf32 size = v_min_to(v_set(10), v_abs(x));  // beyond it is 1
#if V_FMA_IS_FUSED
  // (2^-g - 1) / g for g = n - 2|x| / ln 2, |g| <= 1/2.
  static const float c[] = {-0.69314718f,   0.240226477f,   -0.0555033237f,
                            0.00961843692f, -0.0013398875f, 0.00015353359f};
  const vf32 whole = v_set(12582912), scale = v_set(2.88539008f);
  const vf32 n = v_sub(v_fma(size, scale, whole), whole), g = v_fnma(size, scale, n);
  const vf32 p = v_mul(g, v_poly(g, c, 6));
#else
  vf32 n;
  const vf32 p = v_exp_reduced(v_add(size, size), &n);
#endif
  const vf32 power = v_scale2_normal(v_set(1), n);
  const vf32 t = v_fma(p, power, v_sub(power, v_set(1)));
  return v_copysign(v_mul(t, v_rcp(v_add(t, v_set(2)))), x);
}

// erf(x) / x as a polynomial in x^2, |x| < 1, 2^-34.
CARNOT_INLINE vf32 v_erf_over_x(vf32 z) {
  static const float c[] = {1.1283792f,    -0.37612638f,    0.11283782f,    -0.026865400f,
                            0.0052209455f, -0.00084828294f, 0.00011256952f, -9.6415279e-6f};
  return v_poly(z, c, 8);
}

// erfc(x) for x >= 1: 2^y of a polynomial y, 3e-11 absolute up to 4 and vanishing beyond.
CARNOT_INLINE vf32 v_erfc_large(vf32 x) {
  static const float c[] = {0.00027127928f, -1.6296371f,    -0.91354322f,   -0.15641490f,
                            0.036367800f,   -0.0060658911f, 0.00063671201f, -3.1287367e-5f};
  const vf32 whole = v_set(12582912), y = v_poly(v_min_to(v_set(10), x), c, 8);
  const vf32 n = v_sub(v_add(y, whole), whole);
  return v_scale2_down(v_exp2_of_minus(v_sub(n, y)), n);
}

CARNOT_INLINE vf32 v_erf(vf32 x) {
  const vf32 size = v_abs(x);
  const vf32 small = v_mul(x, v_erf_over_x(v_mul(x, x)));
  const vf32 large = v_copysign(v_sub(v_set(1), v_erfc_large(size)), x);
  return v_select(v_lt(size, v_set(1)), small, large);
}

// x Phi(x). Phi(-t) = exp(-t^2 / 2 + R(t)) for t >= 0, R a polynomial on [0, 9.3]: 5e-8 where the
// product is above 0.02, 1e-9 of the product below. Phi(-t) below 2^-65 is nothing beside 1, and
// GEMMs by BF16 parts do not take smaller numbers. -inf * 0 is NaN, as the formula says.
CARNOT_INLINE vf32 v_gelu_erf(vf32 x) {
  static const float c[] = {-0.6931469f,      -0.797891551f,    0.181736737f,     -0.0364688588f,
                            0.00498089347f,   -0.000131695587f, -0.000130739597f, 3.4512501e-05f,
                            -4.37863808e-06f, 2.895101e-07f,    -7.90329563e-09f};
  vf32 n;
  const vf32 t = v_min_to(v_set(9.2f), v_abs(x));
  const vf32 y = v_fma(v_mul(t, v_set(-0.5f)), t, v_poly(t, c, 11));
  const vf32 p = v_exp_reduced(y, &n), tail = v_scale2_normal(v_add(p, v_set(1)), n);
  const vf32 less = v_select(v_lt(t, v_set(9.2f)), tail, v_zero());
  return v_mul(x, v_select(v_lt(x, v_zero()), less, v_sub(v_set(1), less)));
}

CARNOT_INLINE vf32 v_hard_swish(vf32 x) {
  const vf32 gate = v_add(v_mul(x, v_set(1.0f / 6)), v_set(0.5f));
  return v_mul(x, v_min_to(v_set(1), v_max_to(v_zero(), gate)));
}

// x = 2^e (1 + f), 1 + f in [sqrt(1/2), sqrt(2)); |x| normal and positive.
CARNOT_INLINE vf32 v_split_exponent(vf32 x, vf32* out_f) {
  const vi32 shifted = v_isub(v_bits(x), v_iset(0x3f3504f3)), e = v_ishr(shifted, 23);
  *out_f = v_sub(v_of_bits(v_isub(v_bits(x), v_ishl(e, 23))), v_set(1));
  return v_of_int(e);
}

CARNOT_INLINE vf32 v_log(vf32 x) {
  static const float c[] = {0.33333313f,  -0.25000009f, 0.20002119f,  -0.16667996f, 0.14219552f,
                            -0.12405589f, 0.11888162f,  -0.11675651f, 0.067466408f};  // 2^-30
  const vmask tiny = v_lt(x, v_set(1.17549435e-38f));
  vf32 f, e = v_split_exponent(v_select(tiny, v_mul(x, v_set(8388608)), x), &f);
  e = v_sub(e, v_select(tiny, v_set(23), v_zero()));
  const vf32 z = v_mul(f, f);
  vf32 y = v_mul(v_mul(f, z), v_poly(f, c, 9));
  y = v_fma(e, v_set(kLn2Low), y);
  y = v_fnma(v_set(0.5f), z, y);
  y = v_fma(e, v_set(kLn2High), v_add(f, y));
  y = v_select(v_lt(x, v_zero()), v_set(NAN), y);
  y = v_select(v_eq(x, v_zero()), v_set(-INFINITY), y);
  return v_select(v_m_or(v_is_nan(x), v_eq(x, v_set(INFINITY))), x, y);
}

// log(1 + x): log(u) for u = 1 + x rounded, corrected by x / (u - 1).
CARNOT_INLINE vf32 v_log1p(vf32 x) {
  const vf32 u = v_add(v_set(1), x), d = v_sub(u, v_set(1));
  const vf32 l = v_log(u), y = v_mul(l, v_div(x, d));
  const vmask plain = v_m_or(v_eq(u, v_set(INFINITY)), v_eq(u, v_zero()));
  return v_select(v_eq(d, v_zero()), x, v_select(plain, l, y));
}

#endif
