// Element-wise functions on integers, float64 and truth values: one loop for each function and
// type, which the compiler vectorises.
#include "kernel/cpu/pointwise/elementwise.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"

enum { kTile = 512 };  // elements that an operand of one number is spread over

typedef void (*loop)(const void* x, const void* y, const void* z, void* out, int64_t n);

// |a|, |b| and |c| are elements of the operands, read as |type|, the first one as |first|.
#define LOOP(name, first, type, result, expression)                                              \
  static void loop_##name(const void* px, const void* py, const void* pz, void* po, int64_t n) { \
    const first* x = px;                                                                         \
    const type *y = py ? py : px, *z = pz ? pz : px;                                             \
    result* restrict out = po;                                                                   \
    for (int64_t i = 0; i < n; ++i) {                                                            \
      const first a = x[i];                                                                      \
      const type b = y[i], c = z[i];                                                             \
      (void)a, (void)b, (void)c;                                                                 \
      out[i] = (result)(expression);                                                             \
    }                                                                                            \
  }
#define LOOPS_COMPARE(type, T)                      \
  LOOP(equal_##type, T, T, uint8_t, a == b)         \
  LOOP(less_##type, T, T, uint8_t, a < b)           \
  LOOP(less_equal_##type, T, T, uint8_t, a <= b)    \
  LOOP(greater_##type, T, T, uint8_t, a > b)        \
  LOOP(greater_equal_##type, T, T, uint8_t, a >= b) \
  LOOP(select_##type, uint8_t, T, T, a ? b : c)

// Arithmetic in the unsigned type |U| wraps.
#define LOOPS_INTEGER(type, T, U)                                       \
  LOOPS_COMPARE(type, T)                                                \
  LOOP(add_##type, T, T, T, (U)a + (U)b)                                \
  LOOP(sub_##type, T, T, T, (U)a - (U)b)                                \
  LOOP(mul_##type, T, T, T, (U)a*(U)b)                                  \
  LOOP(max_##type, T, T, T, a < b ? b : a)                              \
  LOOP(min_##type, T, T, T, b < a ? b : a)                              \
  LOOP(clip_##type, T, T, T, (a < b ? b : a) > c ? c : (a < b ? b : a)) \
  LOOP(bit_and_##type, T, T, T, a& b)                                   \
  LOOP(bit_or_##type, T, T, T, a | b)                                   \
  LOOP(bit_xor_##type, T, T, T, a ^ b)                                  \
  LOOP(bit_not_##type, T, T, T, ~a)

#define LOOPS_SIGNED(type, T, U)      \
  LOOPS_INTEGER(type, T, U)           \
  LOOP(neg_##type, T, T, T, 0 - (U)a) \
  LOOP(abs_##type, T, T, T, a < 0 ? 0 - (U)a : (U)a)

LOOPS_INTEGER(u8, uint8_t, uint8_t)
LOOPS_SIGNED(i32, int32_t, uint32_t)
LOOPS_SIGNED(i64, int64_t, uint64_t)

LOOP(equal_bool, uint8_t, uint8_t, uint8_t, (a != 0) == (b != 0))
LOOP(and_bool, uint8_t, uint8_t, uint8_t, (a != 0) & (b != 0))
LOOP(or_bool, uint8_t, uint8_t, uint8_t, (a | b) != 0)
LOOP(xor_bool, uint8_t, uint8_t, uint8_t, (a != 0) != (b != 0))
LOOP(not_bool, uint8_t, uint8_t, uint8_t, a == 0)
LOOP(select_bool, uint8_t, uint8_t, uint8_t, (a ? b : c) != 0)

LOOPS_COMPARE(f64, double)
LOOP(add_f64, double, double, double, a + b)
LOOP(sub_f64, double, double, double, a - b)
LOOP(mul_f64, double, double, double, a* b)
LOOP(div_f64, double, double, double, a / b)
LOOP(max_f64, double, double, double, a != a || a > b ? a : b)
LOOP(min_f64, double, double, double, a != a || a < b ? a : b)
LOOP(neg_f64, double, double, double, -a)
LOOP(abs_f64, double, double, double, fabs(a))
LOOP(sqrt_f64, double, double, double, sqrt(a))

// ---- division of integers ----

// Below 2^52 the quotient in double precision, rounded, has the whole part of the exact one: the
// latter is no whole number, or 2^-52 of itself and more below the next.
CARNOT_INLINE int64_t quotient(int64_t a, int64_t b) {
  const int64_t divisor = b ? b : 1;
  const int64_t q = (int64_t)((double)a / (double)divisor);
  return b ? q : 0;
}
CARNOT_INLINE int64_t remainder_of(int64_t a, int64_t b, int64_t q) {
  return b ? (int64_t)((uint64_t)a - (uint64_t)q * (uint64_t)b) : 0;
}
CARNOT_INLINE int64_t floor_mod(int64_t a, int64_t b, int64_t q) {
  const int64_t r = remainder_of(a, b, q);
  return r != 0 && (r ^ b) < 0 ? r + b : r;
}
LOOP(div_i32, int32_t, int32_t, int32_t, quotient(a, b))
LOOP(mod_i32, int32_t, int32_t, int32_t, floor_mod(a, b, quotient(a, b)))
LOOP(fmod_i32, int32_t, int32_t, int32_t, remainder_of(a, b, quotient(a, b)))
LOOP(div_small_i64, int64_t, int64_t, int64_t, quotient(a, b))
LOOP(mod_small_i64, int64_t, int64_t, int64_t, floor_mod(a, b, quotient(a, b)))
LOOP(fmod_small_i64, int64_t, int64_t, int64_t, remainder_of(a, b, quotient(a, b)))

// By the processor's instruction. Dividing by 0 gives 0, by -1 the negative that wraps.
CARNOT_INLINE int64_t wide_quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
LOOP(div_wide_i64, int64_t, int64_t, int64_t, wide_quotient(a, b))
LOOP(mod_wide_i64, int64_t, int64_t, int64_t, floor_mod(a, b, wide_quotient(a, b)))
LOOP(fmod_wide_i64, int64_t, int64_t, int64_t, remainder_of(a, b, wide_quotient(a, b)))

static bool is_small(const int64_t* x, int64_t n) {
  uint64_t beyond = 0;
  for (int64_t i = 0; i < n; ++i) beyond |= ((uint64_t)x[i] + (UINT64_C(1) << 52)) >> 53;
  return !beyond;
}
#define LOOP_I64(name)                                                                             \
  static void loop_##name##_i64(const void* x, const void* y, const void* z, void* out,            \
                                int64_t n) {                                                       \
    (is_small(x, n) && is_small(y, n) ? loop_##name##_small_i64 : loop_##name##_wide_i64)(x, y, z, \
                                                                                          out, n); \
  }
LOOP_I64(div)
LOOP_I64(mod)
LOOP_I64(fmod)

// ---- the table ----

#define ROW_COMPARE(type)                                                                     \
  [CARNOT_PW_EQUAL] = loop_equal_##type, [CARNOT_PW_LESS] = loop_less_##type,                 \
  [CARNOT_PW_LESS_EQUAL] = loop_less_equal_##type, [CARNOT_PW_GREATER] = loop_greater_##type, \
  [CARNOT_PW_GREATER_EQUAL] = loop_greater_equal_##type, [CARNOT_PW_SELECT] = loop_select_##type
#define ROW_ARITHMETIC(type)                                                               \
  ROW_COMPARE(type), [CARNOT_PW_ADD] = loop_add_##type, [CARNOT_PW_SUB] = loop_sub_##type, \
                     [CARNOT_PW_MUL] = loop_mul_##type, [CARNOT_PW_MAX] = loop_max_##type, \
                     [CARNOT_PW_MIN] = loop_min_##type
#define ROW_INTEGER(type)                                                                 \
  ROW_ARITHMETIC(type),                                                                   \
      [CARNOT_PW_CLIP] = loop_clip_##type, [CARNOT_PW_BIT_AND] = loop_bit_and_##type,     \
      [CARNOT_PW_BIT_OR] = loop_bit_or_##type, [CARNOT_PW_BIT_XOR] = loop_bit_xor_##type, \
      [CARNOT_PW_BIT_NOT] = loop_bit_not_##type
#define ROW_SIGNED(type)                                                                   \
  ROW_INTEGER(type), [CARNOT_PW_NEG] = loop_neg_##type, [CARNOT_PW_ABS] = loop_abs_##type, \
                     [CARNOT_PW_DIV] = loop_div_##type, [CARNOT_PW_MOD] = loop_mod_##type, \
                     [CARNOT_PW_FMOD] = loop_fmod_##type

static const loop kLoops[CARNOT_ELEMENT_TYPE_COUNT][CARNOT_PW_FN_COUNT] = {
    [CARNOT_ELEMENT_BOOL] = {[CARNOT_PW_EQUAL] = loop_equal_bool,
                             [CARNOT_PW_AND] = loop_and_bool,
                             [CARNOT_PW_OR] = loop_or_bool,
                             [CARNOT_PW_XOR] = loop_xor_bool,
                             [CARNOT_PW_NOT] = loop_not_bool,
                             [CARNOT_PW_SELECT] = loop_select_bool},
    [CARNOT_ELEMENT_U8] = {ROW_INTEGER(u8)},
    [CARNOT_ELEMENT_I32] = {ROW_SIGNED(i32)},
    [CARNOT_ELEMENT_I64] = {ROW_SIGNED(i64)},
    [CARNOT_ELEMENT_F64] =
        {ROW_ARITHMETIC(f64), [CARNOT_PW_DIV] = loop_div_f64, [CARNOT_PW_NEG] = loop_neg_f64,
         [CARNOT_PW_ABS] = loop_abs_f64, [CARNOT_PW_SQRT] = loop_sqrt_f64},
};

// ---- rows ----

static const int8_t kBytes[CARNOT_ELEMENT_TYPE_COUNT] = {1, 1, 4, 8, 8};

// An operand as the loops read it: where it lies, or one number spread over a tile.
typedef struct reader {
  const char* data;
  int64_t row_stride, stride;
  int bytes;
  const char* spread;  // the number that |tile| holds
  uint64_t tile[kTile];
} reader;

static void spread(reader* r, const char* number) {
  char* tile = (char*)r->tile;
  for (int64_t i = 0; i < kTile; ++i) memcpy(tile + i * r->bytes, number, (size_t)r->bytes);
  r->spread = number;
}

static const void* read(reader* r, int64_t row, int64_t column) {
  const char* at = r->data + (row * r->row_stride + column * r->stride) * r->bytes;
  if (r->stride) return at;
  if (r->spread != at) spread(r, at);
  return r->tile;
}

static bool is_truth(carnot_pw_fn fn) { return fn >= CARNOT_PW_EQUAL && fn < CARNOT_PW_SELECT; }

bool CARNOT_KERNEL(elementwise)(const carnot_elementwise* call, int64_t row0, int64_t row1,
                                int64_t n) {
  const loop run = kLoops[call->type][call->fn];
  if (!run) return false;
  const int arity = call->arity, bytes = kBytes[call->type],
            out_bytes = is_truth(call->fn) ? 1 : bytes;
  reader in[3];
  for (int i = 0; i < arity; ++i) {
    in[i].data = call->in[i].data, in[i].spread = NULL;
    in[i].row_stride = call->in[i].row_stride, in[i].stride = call->in[i].stride;
    in[i].bytes = i == 0 && call->fn == CARNOT_PW_SELECT ? 1 : bytes;
  }
  for (int64_t row = row0; row < row1; ++row) {
    for (int64_t column = 0; column < n; column += kTile) {
      const void* at[3] = {NULL};
      for (int i = 0; i < arity; ++i) at[i] = read(&in[i], row, column);
      char* out = (char*)call->out.data + (row * call->out.row_stride + column) * out_bytes;
      run(at[0], at[1], at[2], out, min_i64(kTile, n - column));
    }
  }
  return true;
}
