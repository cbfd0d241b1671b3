// The element-wise functions of base/fn.def on arrays of float, double and int64.
#include "ops/elementwise_fn.h"

#include <math.h>

#define REAL    float
#define M(name) name##f
#define N(name) name##_f32
#include "ops/elementwise_fn_float.inl"
#undef REAL
#undef M
#undef N

#define REAL    double
#define M(name) name
#define N(name) name##_f64
#include "ops/elementwise_fn_float.inl"
#undef REAL
#undef M
#undef N

// ---- integers ----

static int64_t divide(int64_t x, int64_t y, bool is_unsigned) {
  if (y == 0) return 0;
  if (is_unsigned) return (int64_t)((uint64_t)x / (uint64_t)y);
  return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}
static int64_t remainder_of(int64_t x, int64_t y, bool is_unsigned) {
  if (y == 0) return 0;
  if (is_unsigned) return (int64_t)((uint64_t)x % (uint64_t)y);
  return y == -1 ? 0 : x % y;
}
static int64_t floor_divide(int64_t x, int64_t y, bool is_unsigned) {
  int64_t q = divide(x, y, is_unsigned), r = remainder_of(x, y, is_unsigned);
  return !is_unsigned && r != 0 && (r < 0) != (y < 0) ? q - 1 : q;
}
static int64_t floor_mod(int64_t x, int64_t y, bool is_unsigned) {
  int64_t r = remainder_of(x, y, is_unsigned);
  return !is_unsigned && r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static bool less(int64_t x, int64_t y, bool is_unsigned) {
  return is_unsigned ? (uint64_t)x < (uint64_t)y : x < y;
}
static int64_t maximum(int64_t x, int64_t y, bool u) { return less(x, y, u) ? y : x; }
static int64_t minimum(int64_t x, int64_t y, bool u) { return less(y, x, u) ? y : x; }

// Wraps; a negative exponent leaves only the powers of 1 and -1.
static int64_t power(int64_t x, int64_t y, bool is_unsigned) {
  if (!is_unsigned && y < 0) return x == 1 ? 1 : x == -1 ? (y % 2 ? -1 : 1) : 0;
  uint64_t base = (uint64_t)x, result = 1;
  for (uint64_t e = (uint64_t)y; e; e >>= 1) {
    if (e & 1) result *= base;
    base *= base;
  }
  return (int64_t)result;
}
static int64_t shift_left(int64_t x, int64_t y, int bits) {
  return y < 0 || y >= bits ? 0 : (int64_t)((uint64_t)x << y);
}
// Past the width only copies of the sign are left.
static int64_t shift_right(int64_t x, int64_t y, const carnot_fn_call* call) {
  if (y < 0 || y >= call->bits) return !call->is_unsigned && x < 0 ? -1 : 0;
  return call->is_unsigned ? (int64_t)((uint64_t)x >> y) : x >> y;
}
static int64_t shrink(int64_t x, double a, double b) {
  double v = (double)x;
  return v < -a ? (int64_t)(v + b) : v > a ? (int64_t)(v - b) : 0;
}

// A function of real numbers on an integer: in double, rounded toward zero.
static void apply_as_real(const carnot_fn_call* call, const int64_t* x, const int64_t* y,
                          int64_t* out, size_t n) {
  for (size_t i = 0; i < n; i++) {
    double u = call->is_unsigned ? (double)(uint64_t)x[i] : (double)x[i];
    double v = y ? (double)y[i] : 0, w;
    carnot_fn_apply_f64(call, &u, &v, &v, &w, 1);
    carnot_store_f64(call->is_unsigned ? CARNOT_DTYPE_U64 : CARNOT_DTYPE_I64, out, i, w);
  }
}

#define EACH(NAME, expression)        \
  case CARNOT_FN_##NAME:              \
    for (size_t i = 0; i < n; i++) {  \
      int64_t v = x[i];               \
      out[i] = (int64_t)(expression); \
    }                                 \
    return;

static void binary_i64(const carnot_fn_call* call, const int64_t* x, const int64_t* y, int64_t* out,
                       size_t n) {
  bool u = call->is_unsigned;
  switch (call->fn) {
    EACH(ADD, (uint64_t)v + (uint64_t)y[i])
    EACH(SUB, (uint64_t)v - (uint64_t)y[i])
    EACH(MUL, (uint64_t)v * (uint64_t)y[i])
    EACH(DIV, divide(v, y[i], u))
    EACH(FLOOR_DIV, floor_divide(v, y[i], u))
    EACH(POW, power(v, y[i], u))
    EACH(MAX, maximum(v, y[i], u))
    EACH(MIN, minimum(v, y[i], u))
    EACH(MOD, floor_mod(v, y[i], u))
    EACH(FMOD, remainder_of(v, y[i], u))
    EACH(PRELU, !u && v < 0 ? (uint64_t)v * (uint64_t)y[i] : (uint64_t)v)
    EACH(AND, v != 0 && y[i] != 0)
    EACH(OR, v != 0 || y[i] != 0)
    EACH(XOR, (v != 0) != (y[i] != 0))
    EACH(BIT_AND, v & y[i])
    EACH(BIT_OR, v | y[i])
    EACH(BIT_XOR, v ^ y[i])
    EACH(SHIFT_LEFT, shift_left(v, y[i], call->bits))
    EACH(SHIFT_RIGHT, shift_right(v, y[i], call))
    EACH(EQUAL, v == y[i])
    EACH(LESS, less(v, y[i], u))
    EACH(LESS_EQUAL, !less(y[i], v, u))
    EACH(GREATER, less(y[i], v, u))
    EACH(GREATER_EQUAL, !less(v, y[i], u))
    default: apply_as_real(call, x, y, out, n);
  }
}

void carnot_fn_apply_i64(const carnot_fn_call* call, const int64_t* x, const int64_t* y,
                         const int64_t* z, int64_t* out, size_t n) {
  bool u = call->is_unsigned;
  if (carnot_fn_get(call->fn)->arity == 2) {
    binary_i64(call, x, y, out, n);
    return;
  }
  switch (call->fn) {
    case CARNOT_FN_FLOOR:
    case CARNOT_FN_CEIL:
    case CARNOT_FN_ROUND:
      EACH(IDENTITY, v)
      EACH(ABS, !u && v < 0 ? 0 - (uint64_t)v : (uint64_t)v)
      EACH(NEG, 0 - (uint64_t)v)
      EACH(SIGN, u ? v != 0 : (v > 0) - (v < 0))
      EACH(RELU, u ? v : maximum(v, 0, false))
      EACH(SHRINK, shrink(v, call->a, call->b))
      EACH(NOT, v == 0)
      EACH(BIT_NOT, ~v)
      EACH(SELECT, v != 0 ? y[i] : z[i])
      EACH(CLIP, minimum(maximum(v, y[i], u), z[i], u))
    default: apply_as_real(call, x, NULL, out, n);
  }
}
#undef EACH
