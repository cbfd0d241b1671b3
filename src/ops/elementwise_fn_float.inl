// The element-wise functions on arrays of REAL, with M(name) the math function of that type and
// N(name) the name made for it. Included once a type by fn.c.

static REAL N(maximum)(REAL x, REAL y) { return x != x || x > y ? x : y; }
static REAL N(minimum)(REAL x, REAL y) { return x != x || x < y ? x : y; }
static REAL N(sigmoid)(REAL x) {
  if (x >= 0) return 1 / (1 + M(exp)(-x));
  REAL e = M(exp)(x);
  return e / (1 + e);
}
// log(1 + exp(x)) without overflow.
static REAL N(softplus)(REAL x) {
  return x != x ? x : N(maximum)(x, 0) + M(log1p)(M(exp)(-M(fabs)(x)));
}
static REAL N(floor_mod)(REAL x, REAL y) {
  REAL r = M(fmod)(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static REAL N(gelu_tanh)(REAL x) {
  const REAL c = (REAL)0.79788456080286535588;  // sqrt(2 / pi)
  return x / 2 * (1 + M(tanh)(c * (x + (REAL)0.044715 * x * x * x)));
}
static REAL N(celu)(REAL x, REAL a) {
  return x != x ? x : N(maximum)(0, x) + N(minimum)(0, a * M(expm1)(x / a));
}
static REAL N(shrink)(REAL x, REAL a, REAL b) {
  return x != x ? x : x < -a ? x + b : x > a ? x - b : 0;
}

#define EACH(NAME, expression)       \
  case CARNOT_FN_##NAME:             \
    for (size_t i = 0; i < n; i++) { \
      REAL v = x[i];                 \
      out[i] = (REAL)(expression);   \
    }                                \
    return;

static void N(unary)(carnot_fn fn, REAL a, REAL b, const REAL* x, REAL* out, size_t n) {
  switch (fn) {
    EACH(ABS, M(fabs)(v))
    EACH(NEG, -v)
    EACH(SIGN, v != v ? v : (v > 0) - (v < 0))
    EACH(RECIP, 1 / v)
    EACH(SQRT, M(sqrt)(v))
    EACH(EXP, M(exp)(v))
    EACH(LOG, M(log)(v))
    EACH(FLOOR, M(floor)(v))
    EACH(CEIL, M(ceil)(v))
    EACH(ROUND, M(rint)(v))
    EACH(SIN, M(sin)(v))
    EACH(COS, M(cos)(v))
    EACH(TAN, M(tan)(v))
    EACH(ASIN, M(asin)(v))
    EACH(ACOS, M(acos)(v))
    EACH(ATAN, M(atan)(v))
    EACH(SINH, M(sinh)(v))
    EACH(COSH, M(cosh)(v))
    EACH(TANH, M(tanh)(v))
    EACH(ASINH, M(asinh)(v))
    EACH(ACOSH, M(acosh)(v))
    EACH(ATANH, M(atanh)(v))
    EACH(ERF, M(erf)(v))
    EACH(SIGMOID, N(sigmoid)(v))
    EACH(RELU, N(maximum)(v, 0))
    EACH(LEAKY_RELU, v < 0 ? a * v : v)
    EACH(ELU, v < 0 ? a * M(expm1)(v) : v)
    EACH(SELU, b * (v < 0 ? a * M(expm1)(v) : v))
    EACH(CELU, N(celu)(v, a))
    EACH(SOFTPLUS, a * N(softplus)(b * v))
    EACH(SOFTSIGN, v / (1 + M(fabs)(v)))
    EACH(HARD_SIGMOID, N(maximum)(N(minimum)(a * v + b, 1), 0))
    EACH(HARD_SWISH, v * N(maximum)(N(minimum)(v / 6 + (REAL)0.5, 1), 0))
    EACH(SWISH, v * N(sigmoid)(a * v))
    EACH(MISH, v * M(tanh)(N(softplus)(v)))
    EACH(GELU_ERF, v / 2 * (1 + M(erf)(v * (REAL)0.70710678118654752440)))
    EACH(GELU_TANH, N(gelu_tanh)(v))
    EACH(SCALED_TANH, a * M(tanh)(b * v))
    EACH(THRESHOLDED_RELU, v > a || v != v ? v : 0)
    EACH(SHRINK, N(shrink)(v, a, b))
    EACH(CLAMP, N(minimum)(N(maximum)(v, a), b))
    EACH(AFFINE, a * v + b)
    EACH(ROUND_F16, carnot_half_to_float(carnot_half_from_float((float)v)))
    EACH(ROUND_BF16, carnot_bfloat_to_float(carnot_bfloat_from_float((float)v)))
    EACH(NOT, v == 0)
    EACH(IS_NAN, v != v)
    EACH(IS_INF, (a != 0 && v == -(REAL)INFINITY) || (b != 0 && v == (REAL)INFINITY))
    default:
      for (size_t i = 0; i < n; i++) out[i] = x[i];
  }
}

static void N(binary)(carnot_fn fn, const REAL* x, const REAL* y, REAL* out, size_t n) {
  switch (fn) {
    EACH(ADD, v + y[i])
    EACH(SUB, v - y[i])
    EACH(MUL, v * y[i])
    EACH(DIV, v / y[i])
    EACH(FLOOR_DIV, M(floor)(v / y[i]))
    EACH(POW, M(pow)(v, y[i]))
    EACH(MAX, N(maximum)(v, y[i]))
    EACH(MIN, N(minimum)(v, y[i]))
    EACH(MOD, N(floor_mod)(v, y[i]))
    EACH(FMOD, M(fmod)(v, y[i]))
    EACH(PRELU, v < 0 ? v * y[i] : v)
    EACH(AND, v != 0 && y[i] != 0)
    EACH(OR, v != 0 || y[i] != 0)
    EACH(XOR, (v != 0) != (y[i] != 0))
    EACH(EQUAL, v == y[i])
    EACH(LESS, v < y[i])
    EACH(LESS_EQUAL, v <= y[i])
    EACH(GREATER, v > y[i])
    EACH(GREATER_EQUAL, v >= y[i])
    default: N(unary)(fn, 0, 0, x, out, n);
  }
}

void N(carnot_fn_apply)(const carnot_fn_call* call, const REAL* x, const REAL* y, const REAL* z,
                        REAL* out, size_t n) {
  switch (call->fn) {
    EACH(SELECT, v != 0 ? y[i] : z[i])
    EACH(CLIP, N(minimum)(N(maximum)(v, y[i]), z[i]))
    default:
      if (carnot_fn_get(call->fn)->arity == 1) {
        N(unary)(call->fn, (REAL)call->a, (REAL)call->b, x, out, n);
      } else {
        N(binary)(call->fn, x, y, out, n);
      }
  }
}
#undef EACH
