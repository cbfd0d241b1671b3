// The functions of base/fn.def on vectors of floats; private to pointwise.c. |fn| is a constant
// wherever they are inlined, so that one case is left.
#ifndef CARNOT_KERNEL_CPU_POINTWISE_POINTWISE_FN_H_
#define CARNOT_KERNEL_CPU_POINTWISE_POINTWISE_FN_H_

#include "kernel/cpu/common/simd_trig.h"
#include "kernel/cpu/pointwise/pointwise.h"

CARNOT_INLINE vf32 truth(vmask m) { return v_select(m, v_set(1), v_zero()); }
CARNOT_INLINE vmask is_true(vf32 x) { return v_m_not(v_eq(x, v_zero())); }
CARNOT_INLINE vf32 negated(vf32 x) { return v_xor(x, v_set(-0.0f)); }

CARNOT_INLINE vf32 sign_of(vf32 x) {
  const vf32 one = v_select(v_lt(v_zero(), x), v_set(1), v_zero());
  return v_select(v_is_nan(x), x, v_select(v_lt(x, v_zero()), v_set(-1), one));
}

CARNOT_INLINE vf32 elu_of(vf32 x, vf32 a) {
  return v_select(v_lt(x, v_zero()), v_mul(a, v_expm1(x)), x);
}

CARNOT_INLINE vf32 celu_of(vf32 x, vf32 a) {
  const vf32 low = v_mul(a, v_expm1(v_div(x, a)));
  return v_add(v_max_to(v_zero(), x), v_min_to(v_zero(), low));
}

// max(t, 0) + log(1 + exp(-|t|)) does not overflow.
CARNOT_INLINE vf32 softplus_of(vf32 t) {
  return v_add(v_max_to(v_zero(), t), v_log1p(v_exp(negated(v_abs(t)))));
}

// tanh(log(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2).
CARNOT_INLINE vf32 mish_of(vf32 x) {
  const vf32 e = v_exp(v_min_to(v_set(20), x)), u = v_mul(e, v_add(e, v_set(2)));
  return v_mul(x, v_div(u, v_add(u, v_set(2))));
}

// (1 + tanh(u)) / 2 = sigmoid(2 u).
CARNOT_INLINE vf32 gelu_tanh_of(vf32 x) {
  const vf32 cube = v_mul(v_mul(x, x), x);
  const vf32 u = v_fma(cube, v_set(0.044715f), x);
  return v_mul(x, v_sigmoid(v_mul(u, v_set(2 * 0.797884561f))));
}

CARNOT_INLINE vf32 is_inf_of(vf32 x, float a, float b) {
  const vf32 low = truth(v_eq(x, v_set(-INFINITY))), high = truth(v_eq(x, v_set(INFINITY)));
  return v_or(a != 0 ? low : v_zero(), b != 0 ? high : v_zero());
}

// a * 2^ea mod b * 2^eb on 24-bit integers, 32 bits of the distance at a time: exact.
CARNOT_INLINE float fmod_of_lane(float x, float y) {
  const float size = f32_of_bits(bits_of_f32(x) & 0x7fffffff);
  const float step = f32_of_bits(bits_of_f32(y) & 0x7fffffff);
  if (!(size < INFINITY) || !(step > 0)) return NAN;
  if (size < step) return x;
  uint64_t a = bits_of_f32(size), b = bits_of_f32(step);
  const int64_t ea = max_i64(1, (int64_t)(a >> 23)), eb = max_i64(1, (int64_t)(b >> 23));
  a = a >> 23 ? (a & 0x7fffff) | 0x800000 : a;
  b = b >> 23 ? (b & 0x7fffff) | 0x800000 : b;
  for (int64_t left = ea - eb; left > 0; left -= 32) a = (a << min_i64(left, 32)) % b;
  const uint32_t unit = eb > 23 ? (uint32_t)(eb - 23) << 23 : 1u << (eb - 1);  // 2^(eb - 150)
  const float rest = (float)(a % b) * f32_of_bits(unit);
  return x < 0 ? -rest : rest;
}

CARNOT_INLINE vf32 fmod_of(vf32 x, vf32 y) {
  float a[V_LANES], b[V_LANES], r[V_LANES];
  v_store(a, x), v_store(b, y);
  for (int i = 0; i < V_LANES; ++i) r[i] = fmod_of_lane(a[i], b[i]);
  return v_load(r);
}

CARNOT_INLINE vf32 mod_of(vf32 x, vf32 y) {
  const vf32 m = fmod_of(x, y);
  const vmask opposite = v_lt(v_mul(sign_of(m), y), v_zero());
  return v_select(opposite, v_add(m, y), m);
}

CARNOT_INLINE vf32 pw_unary(int fn, vf32 x, float a, float b) {
  const vf32 va = v_set(a), vb = v_set(b), one = v_set(1), zero = v_zero();
  switch (fn) {
    case CARNOT_PW_IDENTITY: return x;
    case CARNOT_PW_ABS: return v_abs(x);
    case CARNOT_PW_NEG: return negated(x);
    case CARNOT_PW_SIGN: return sign_of(x);
    case CARNOT_PW_RECIP: return v_div(one, x);
    case CARNOT_PW_SQRT: return v_sqrt(x);
    case CARNOT_PW_EXP: return v_exp(x);
    case CARNOT_PW_LOG: return v_log(x);
    case CARNOT_PW_FLOOR: return v_floor(x);
    case CARNOT_PW_CEIL: return v_ceil(x);
    case CARNOT_PW_ROUND: return v_round(x);
    case CARNOT_PW_SIN: return v_sin(x);
    case CARNOT_PW_COS: return v_cos(x);
    case CARNOT_PW_TAN: return v_tan(x);
    case CARNOT_PW_ASIN: return v_asin(x);
    case CARNOT_PW_ACOS: return v_acos(x);
    case CARNOT_PW_ATAN: return v_atan(x);
    case CARNOT_PW_SINH: return v_sinh(x);
    case CARNOT_PW_COSH: return v_cosh(x);
    case CARNOT_PW_TANH: return v_tanh(x);
    case CARNOT_PW_ASINH: return v_asinh(x);
    case CARNOT_PW_ACOSH: return v_acosh(x);
    case CARNOT_PW_ATANH: return v_atanh(x);
    case CARNOT_PW_ERF: return v_erf(x);
    case CARNOT_PW_SIGMOID: return v_sigmoid(x);
    case CARNOT_PW_RELU: return v_max_to(zero, x);
    case CARNOT_PW_LEAKY_RELU: return v_select(v_lt(x, zero), v_mul(va, x), x);
    case CARNOT_PW_ELU: return elu_of(x, va);
    case CARNOT_PW_SELU: return v_mul(vb, elu_of(x, va));
    case CARNOT_PW_CELU: return celu_of(x, va);
    case CARNOT_PW_SOFTPLUS: return v_mul(va, softplus_of(v_mul(vb, x)));
    case CARNOT_PW_SOFTSIGN: return v_div(x, v_add(one, v_abs(x)));
    case CARNOT_PW_HARD_SIGMOID: return v_max_to(zero, v_min_to(one, v_add(v_mul(va, x), vb)));
    case CARNOT_PW_HARD_SWISH: return v_hard_swish(x);
    case CARNOT_PW_SWISH: return v_mul(x, v_sigmoid(v_mul(va, x)));
    case CARNOT_PW_MISH: return mish_of(x);
    case CARNOT_PW_GELU_ERF: return v_gelu_erf(x);
    case CARNOT_PW_GELU_TANH: return gelu_tanh_of(x);
    case CARNOT_PW_SCALED_TANH: return v_mul(va, v_tanh(v_mul(vb, x)));
    case CARNOT_PW_THRESHOLDED_RELU: return v_select(v_le(x, va), zero, x);
    case CARNOT_PW_SHRINK: {
      const vf32 high = v_select(v_lt(va, x), v_sub(x, vb), zero);
      const vf32 y = v_select(v_lt(x, negated(va)), v_add(x, vb), high);
      return v_select(v_is_nan(x), x, y);
    }
    case CARNOT_PW_CLAMP: return v_min_to(vb, v_max_to(va, x));
    case CARNOT_PW_AFFINE: return v_add(v_mul(va, x), vb);
    case CARNOT_PW_ROUND_F16: return v_round_f16(x);
    case CARNOT_PW_ROUND_BF16: return v_round_bf16(x);
    case CARNOT_PW_NOT: return truth(v_eq(x, zero));
    case CARNOT_PW_IS_NAN: return truth(v_is_nan(x));
    case CARNOT_PW_IS_INF: return is_inf_of(x, a, b);
    default: return va;  // CONSTANT
  }
}

// Functions of two and three operands.
CARNOT_INLINE vf32 pw_several(int fn, vf32 x, vf32 y, vf32 z) {
  switch (fn) {
    case CARNOT_PW_ADD: return v_add(x, y);
    case CARNOT_PW_SUB: return v_sub(x, y);
    case CARNOT_PW_MUL: return v_mul(x, y);
    case CARNOT_PW_DIV: return v_div(x, y);
    case CARNOT_PW_FLOOR_DIV: return v_floor(v_div(x, y));
    case CARNOT_PW_POW: return v_pow(x, y);
    case CARNOT_PW_MAX: return v_max(x, y);
    case CARNOT_PW_MIN: return v_min(x, y);
    case CARNOT_PW_MOD: return mod_of(x, y);
    case CARNOT_PW_FMOD: return fmod_of(x, y);
    case CARNOT_PW_PRELU: return v_select(v_lt(x, v_zero()), v_mul(x, y), x);
    case CARNOT_PW_AND: return truth(v_m_and(is_true(x), is_true(y)));
    case CARNOT_PW_OR: return truth(v_m_or(is_true(x), is_true(y)));
    case CARNOT_PW_XOR: return truth(v_eq(truth(is_true(x)), truth(v_eq(y, v_zero()))));
    case CARNOT_PW_EQUAL: return truth(v_eq(x, y));
    case CARNOT_PW_LESS: return truth(v_lt(x, y));
    case CARNOT_PW_LESS_EQUAL: return truth(v_le(x, y));
    case CARNOT_PW_GREATER: return truth(v_lt(y, x));
    case CARNOT_PW_GREATER_EQUAL: return truth(v_le(y, x));
    case CARNOT_PW_SELECT: return v_select(is_true(x), y, z);
    default: return v_min(v_max(x, y), z);  // CLIP
  }
}

#endif
