// The functions of base/fn.def on the device; the formulas and edges are those of ops/fn.c. Generated
// pointwise programs call fn_<NAME>(a, b, operands …).
#define F template <class T> DEVICE
#define FA f64 a, f64 b
#define NAN_T(x) ((x) != (x))

F T hi(T x, T y) { return NAN_T(x) || x > y ? x : y; }
F T lo(T x, T y) { return NAN_T(x) || x < y ? x : y; }
DEVICE f32 m_exp(f32 x) { return expf(x); }
DEVICE f64 m_exp(f64 x) { return exp(x); }
#define MATH(name)                                \
  DEVICE f32 m_##name(f32 x) { return name##f(x); } \
  DEVICE f64 m_##name(f64 x) { return name(x); }
MATH(sqrt) MATH(log) MATH(log1p) MATH(expm1) MATH(floor) MATH(ceil) MATH(rint) MATH(sin) MATH(cos)
MATH(tan) MATH(asin) MATH(acos) MATH(atan) MATH(sinh) MATH(cosh) MATH(tanh) MATH(asinh) MATH(acosh)
MATH(atanh) MATH(erf) MATH(fabs) MATH(trunc)
#undef MATH
DEVICE f32 m_pow(f32 x, f32 y) { return powf(x, y); }
DEVICE f64 m_pow(f64 x, f64 y) { return pow(x, y); }
DEVICE f32 m_fmod(f32 x, f32 y) { return fmodf(x, y); }
DEVICE f64 m_fmod(f64 x, f64 y) { return fmod(x, y); }

F T m_sigmoid(T x) {
  if (x >= 0) return 1 / (1 + m_exp(-x));
  T e = m_exp(x);
  return e / (1 + e);
}
F T m_softplus(T x) { return NAN_T(x) ? x : hi(x, (T)0) + m_log1p(m_exp(-m_fabs(x))); }

// Floating point first; overloads for integers follow.
F T fn_IDENTITY(FA, T x) { return x; }
F T fn_ABS(FA, T x) { return x < 0 ? (T)(0 - x) : x == 0 ? (T)0 : x; }
F T fn_NEG(FA, T x) { return (T)(-x); }
F T fn_SIGN(FA, T x) { return NAN_T(x) ? x : (T)((x > 0) - (x < 0)); }
F T fn_RECIP(FA, T x) { return 1 / x; }
F T fn_SQRT(FA, T x) { return m_sqrt(x); }
F T fn_EXP(FA, T x) { return m_exp(x); }
F T fn_LOG(FA, T x) { return m_log(x); }
F T fn_FLOOR(FA, T x) { return m_floor(x); }
F T fn_CEIL(FA, T x) { return m_ceil(x); }
F T fn_ROUND(FA, T x) { return m_rint(x); }
F T fn_SIN(FA, T x) { return m_sin(x); }
F T fn_COS(FA, T x) { return m_cos(x); }
F T fn_TAN(FA, T x) { return m_tan(x); }
F T fn_ASIN(FA, T x) { return m_asin(x); }
F T fn_ACOS(FA, T x) { return m_acos(x); }
F T fn_ATAN(FA, T x) { return m_atan(x); }
F T fn_SINH(FA, T x) { return m_sinh(x); }
F T fn_COSH(FA, T x) { return m_cosh(x); }
F T fn_TANH(FA, T x) { return m_tanh(x); }
F T fn_ASINH(FA, T x) { return m_asinh(x); }
F T fn_ACOSH(FA, T x) { return m_acosh(x); }
F T fn_ATANH(FA, T x) { return m_atanh(x); }
F T fn_ERF(FA, T x) { return m_erf(x); }
F T fn_SIGMOID(FA, T x) { return m_sigmoid(x); }
F T fn_RELU(FA, T x) { return hi(x, (T)0); }
F T fn_LEAKY_RELU(FA, T x) { return x < 0 ? (T)a * x : x; }
F T fn_ELU(FA, T x) { return x < 0 ? (T)a * m_expm1(x) : x; }
F T fn_SELU(FA, T x) { return (T)b * (x < 0 ? (T)a * m_expm1(x) : x); }
F T fn_CELU(FA, T x) {
  return NAN_T(x) ? x : hi((T)0, x) + lo((T)0, (T)a * m_expm1(x / (T)a));
}
F T fn_SOFTPLUS(FA, T x) { return (T)a * m_softplus((T)b * x); }
F T fn_SOFTSIGN(FA, T x) { return x / (1 + m_fabs(x)); }
F T fn_HARD_SIGMOID(FA, T x) { return hi(lo((T)a * x + (T)b, (T)1), (T)0); }
F T fn_HARD_SWISH(FA, T x) { return x * hi(lo(x / 6 + (T)0.5, (T)1), (T)0); }
F T fn_SWISH(FA, T x) { return x * m_sigmoid((T)a * x); }
F T fn_MISH(FA, T x) { return x * m_tanh(m_softplus(x)); }
F T fn_GELU_ERF(FA, T x) { return x / 2 * (1 + m_erf(x * (T)0.70710678118654752440)); }
F T fn_GELU_TANH(FA, T x) {
  return x / 2 * (1 + m_tanh((T)0.79788456080286535588 * (x + (T)0.044715 * x * x * x)));
}
// Where a half is the result: within 1.2e-3 of max(|y|, 2^-10), by the unit for exponentials.
DEVICE f32 logistic(f32 z) { return __fdividef(1, 1 + __expf(-z)); }
DEVICE f32 fast_SIGMOID(FA, f32 x) { return logistic(x); }
DEVICE f32 fast_SWISH(FA, f32 x) { return x * logistic((f32)a * x); }
// ln(p / (1 - p)) of the normal distribution's p(x) as an odd polynomial.
DEVICE f32 fast_GELU_ERF(FA, f32 x) {
  f32 t = fminf(x * x, 36);
  return x * logistic(x * (1.59521442f + t * (0.0743252971f - 0.000767224851f * t)));
}
DEVICE f32 fast_GELU_TANH(FA, f32 x) {
  return x * logistic(x * (1.59576912f + 0.0713548163f * x * x));
}
F T fn_SCALED_TANH(FA, T x) { return (T)a * m_tanh((T)b * x); }
F T fn_THRESHOLDED_RELU(FA, T x) { return x > (T)a || NAN_T(x) ? x : (T)0; }
F T fn_SHRINK(FA, T x) {
  f64 v = (f64)x;
  return NAN_T(x) ? x : v < -a ? (T)(x + (T)b) : v > a ? (T)(x - (T)b) : (T)0;
}
F T fn_CLAMP(FA, T x) { return lo(hi(x, (T)a), (T)b); }
F T fn_AFFINE(FA, T x) { return (T)a * x + (T)b; }
F bool fn_NOT(FA, T x) { return x == 0; }
F T fn_BIT_NOT(FA, T x) { return (T)~x; }
F bool fn_IS_NAN(FA, T x) { return NAN_T(x); }
F bool fn_IS_INF(FA, T x) {
  const T inf = (T)__longlong_as_double(0x7ff0000000000000ll);
  return (a != 0 && x == -inf) || (b != 0 && x == inf);
}
F T fn_ADD(FA, T x, T y) { return (T)(x + y); }
F T fn_SUB(FA, T x, T y) { return (T)(x - y); }
F T fn_MUL(FA, T x, T y) { return (T)(x * y); }
DEVICE f32 fn_DIV(FA, f32 x, f32 y) { return x / y; }
DEVICE f64 fn_DIV(FA, f64 x, f64 y) { return x / y; }
F T fn_DIV(FA, T x, T y) { return y == 0 ? (T)0 : y == (T)-1 && (T)-1 < (T)0 ? (T)(0 - x) : (T)(x / y); }
DEVICE f32 remainder_of(f32 x, f32 y) { return m_fmod(x, y); }
DEVICE f64 remainder_of(f64 x, f64 y) { return m_fmod(x, y); }
F T remainder_of(T x, T y) {
  return y == 0 ? (T)0 : y == (T)-1 && (T)-1 < (T)0 ? (T)0 : (T)(x % y);
}
DEVICE f32 fn_FLOOR_DIV(FA, f32 x, f32 y) { return m_floor(x / y); }
DEVICE f64 fn_FLOOR_DIV(FA, f64 x, f64 y) { return m_floor(x / y); }
F T fn_FLOOR_DIV(FA, T x, T y) {
  T q = fn_DIV(a, b, x, y), r = remainder_of(x, y);
  return r != 0 && (r < 0) != (y < 0) ? (T)(q - 1) : q;
}
F T fn_MOD(FA, T x, T y) {
  T r = remainder_of(x, y);
  return r != 0 && (r < 0) != (y < 0) ? (T)(r + y) : r;
}
F T fn_FMOD(FA, T x, T y) { return remainder_of(x, y); }
DEVICE f32 fn_POW(FA, f32 x, f32 y) { return m_pow(x, y); }
DEVICE f64 fn_POW(FA, f64 x, f64 y) { return m_pow(x, y); }
F T fn_POW(FA, T x, T y) {
  if (y < 0) return x == 1 ? (T)1 : x == (T)-1 && (T)-1 < (T)0 ? (y % 2 ? (T)-1 : (T)1) : (T)0;
  u64 base = (u64)x, result = 1;
  for (u64 e = (u64)y; e; e >>= 1) {
    if (e & 1) result *= base;
    base *= base;
  }
  return (T)result;
}
F T fn_MAX(FA, T x, T y) { return hi(x, y); }
F T fn_MIN(FA, T x, T y) { return lo(x, y); }
F T fn_PRELU(FA, T x, T y) { return x < 0 ? (T)(x * y) : x; }
DEVICE bool fn_AND(FA, bool x, bool y) { return x && y; }
DEVICE bool fn_OR(FA, bool x, bool y) { return x || y; }
DEVICE bool fn_XOR(FA, bool x, bool y) { return x != y; }
F T fn_BIT_AND(FA, T x, T y) { return (T)(x & y); }
F T fn_BIT_OR(FA, T x, T y) { return (T)(x | y); }
F T fn_BIT_XOR(FA, T x, T y) { return (T)(x ^ y); }
F T fn_SHIFT_LEFT(FA, T x, T y) {
  return y < 0 || (u64)y >= 8 * sizeof(T) ? (T)0 : (T)((u64)x << (u64)y);
}
F T fn_SHIFT_RIGHT(FA, T x, T y) {
  return y < 0 || (u64)y >= 8 * sizeof(T) ? (x < 0 ? (T)-1 : (T)0) : (T)(x >> y);
}
F bool fn_EQUAL(FA, T x, T y) { return x == y; }
F bool fn_LESS(FA, T x, T y) { return x < y; }
F bool fn_LESS_EQUAL(FA, T x, T y) { return x <= y; }
F bool fn_GREATER(FA, T x, T y) { return x > y; }
F bool fn_GREATER_EQUAL(FA, T x, T y) { return x >= y; }
F T fn_SELECT(FA, bool x, T y, T z) { return x ? y : z; }
F T fn_CLIP(FA, T x, T y, T z) { return lo(hi(x, y), z); }

// cast<TO>(x): floats to integers truncate and saturate, NaN gives 0; integers keep their low bits;
// bool is x != 0.
template <class TO> struct caster {
  template <class V> static DEVICE_ONLY TO of(V v) { return (TO)v; }
};
#define SATURATE(TO, LOW, HIGH, MOST)                                   \
  template <> struct caster<TO> {                                       \
    template <class V> static DEVICE_ONLY TO of(V v) { return (TO)v; }  \
    static DEVICE_ONLY TO of(f32 v) { return of((f64)v); }              \
    static DEVICE_ONLY TO of(f64 v) {                                   \
      return v != v ? (TO)0 : v <= LOW ? (TO)(LOW) : v >= HIGH ? MOST : (TO)v; \
    }                                                                   \
  };
SATURATE(i8, -128.0, 127.0, (i8)127)
SATURATE(u8, 0.0, 255.0, (u8)255)
SATURATE(i16, -32768.0, 32767.0, (i16)32767)
SATURATE(u16, 0.0, 65535.0, (u16)65535)
SATURATE(i32, -2147483648.0, 2147483647.0, (i32)2147483647)
SATURATE(u32, 0.0, 4294967295.0, (u32)4294967295u)
SATURATE(i64, -9223372036854775808.0, 9223372036854775808.0, (i64)9223372036854775807ll)
SATURATE(u64, 0.0, 18446744073709551616.0, (u64)18446744073709551615ull)
template <> struct caster<bool> {
  template <class V> static DEVICE_ONLY bool of(V v) { return v != 0; }
};
#undef SATURATE
#undef F
