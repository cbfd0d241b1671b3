// Element-wise functions on integers, float64 and truth values against plain C, one by one.
#include "kernel/cpu/pointwise/elementwise.h"

#include "kernel/cpu/common/kernel_test.h"

enum { kCount = 1033, kSpecials = 12 };

static const int64_t kSpecial[kSpecials] = {
    0, 1, -1, 2, -7, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, (1LL << 52) - 1, -(1LL << 53), 7};

static int64_t wide_divide(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

// In 64 bits, as the operators' semantics say; the caller narrows.
static int64_t wanted(carnot_pw_fn fn, int64_t a, int64_t b, int64_t c) {
  const uint64_t u = (uint64_t)a, v = (uint64_t)b;
  const int64_t r = b ? (int64_t)(u - (uint64_t)wide_divide(a, b) * v) : 0;
  switch (fn) {
    case CARNOT_PW_ADD: return (int64_t)(u + v);
    case CARNOT_PW_SUB: return (int64_t)(u - v);
    case CARNOT_PW_MUL: return (int64_t)(u * v);
    case CARNOT_PW_DIV: return wide_divide(a, b);
    case CARNOT_PW_FMOD: return r;
    case CARNOT_PW_MOD: return r && (r < 0) != (b < 0) ? r + b : r;
    case CARNOT_PW_MAX: return a > b ? a : b;
    case CARNOT_PW_MIN: return a < b ? a : b;
    case CARNOT_PW_BIT_AND: return a & b;
    case CARNOT_PW_BIT_OR: return a | b;
    case CARNOT_PW_BIT_XOR: return a ^ b;
    case CARNOT_PW_BIT_NOT: return ~a;
    case CARNOT_PW_NEG: return (int64_t)(0 - u);
    case CARNOT_PW_ABS: return a < 0 ? (int64_t)(0 - u) : a;
    case CARNOT_PW_CLIP: return (a > b ? a : b) < c ? (a > b ? a : b) : c;
    case CARNOT_PW_SELECT: return a ? b : c;
    case CARNOT_PW_AND: return a && b;
    case CARNOT_PW_OR: return a || b;
    case CARNOT_PW_XOR: return !a != !b;
    case CARNOT_PW_NOT: return !a;
    case CARNOT_PW_EQUAL: return a == b;
    case CARNOT_PW_LESS: return a < b;
    case CARNOT_PW_LESS_EQUAL: return a <= b;
    case CARNOT_PW_GREATER: return a > b;
    default: return a >= b;  // GREATER_EQUAL
  }
}

static int64_t get(carnot_element_type type, const void* x, int64_t i) {
  switch (type) {
    case CARNOT_ELEMENT_I32: return ((const int32_t*)x)[i];
    case CARNOT_ELEMENT_I64: return ((const int64_t*)x)[i];
    default: return ((const uint8_t*)x)[i];
  }
}
static void put(carnot_element_type type, void* x, int64_t i, int64_t value) {
  switch (type) {
    case CARNOT_ELEMENT_I32: ((int32_t*)x)[i] = (int32_t)value; break;
    case CARNOT_ELEMENT_I64: ((int64_t*)x)[i] = value; break;
    default: ((uint8_t*)x)[i] = (uint8_t)value; break;
  }
}
static int64_t narrowed(carnot_element_type type, int64_t value) {
  int64_t place;
  put(type, &place, 0, value);
  return get(type, &place, 0);
}

static int arity_of(carnot_pw_fn fn) {
  if (fn == CARNOT_PW_BIT_NOT) return 1;
  const int arity = carnot_pw_arity((int)fn);
  return arity < 0 ? 2 : arity;
}
static bool is_truth(carnot_pw_fn fn) {
  return fn >= CARNOT_PW_EQUAL && fn <= CARNOT_PW_GREATER_EQUAL;
}

// Rows of |n| of which operand |still| is one number a row; 3: none.
static void check_rows(const carnot_cpu_kernels* kernels, carnot_pw_fn fn, carnot_element_type type,
                       const int64_t (*numbers)[kCount], int64_t n, int still) {
  static int64_t memory[3][kCount], out[kCount + 1];
  const int arity = arity_of(fn);
  const int64_t rows = kCount / n;
  carnot_elementwise call = {.fn = fn, .type = type, .arity = arity, .out = {out, n, 1}};
  for (int k = 0; k < 3; ++k) {
    const carnot_element_type own = k == 0 && fn == CARNOT_PW_SELECT ? CARNOT_ELEMENT_U8 : type;
    for (int64_t i = 0; i < kCount; ++i) put(own, memory[k], i, numbers[k][i]);
    call.in[k] = (carnot_pw_operand){memory[k], n, k != still};
  }
  memset(out, 0x5a, sizeof out);
  assert_true(kernels->elementwise(&call, 0, rows / 2, n));
  assert_true(kernels->elementwise(&call, rows / 2, rows, n));
  const carnot_element_type result = is_truth(fn) ? CARNOT_ELEMENT_U8 : type;
  for (int64_t i = 0; i < rows * n; ++i) {
    int64_t x[3];
    for (int k = 0; k < 3; ++k)
      x[k] = get(k == 0 && fn == CARNOT_PW_SELECT ? CARNOT_ELEMENT_U8 : type, memory[k],
                 k == still ? i / n * n : i);
    int64_t want = narrowed(result, wanted(fn, x[0], x[1], x[2]));
    if (type == CARNOT_ELEMENT_BOOL && fn == CARNOT_PW_EQUAL) want = !x[0] == !x[1];
    if (type == CARNOT_ELEMENT_BOOL && fn == CARNOT_PW_SELECT) want = (x[0] ? x[1] : x[2]) != 0;
    if (get(result, out, i) != want)
      fail_msg("function %d of type %d, %lld, %lld: got %lld, want %lld", (int)fn, (int)type,
               (long long)x[0], (long long)x[1], (long long)get(result, out, i), (long long)want);
  }
}

static void check_integers(const carnot_cpu_kernels* kernels) {
  static int64_t numbers[3][kCount];
  static const int64_t kWidths[] = {1, 7, 64, 517, kCount};
  uint64_t seed = 3;
  for (int k = 0; k < 3; ++k)
    for (int64_t i = 0; i < kCount; ++i)
      numbers[k][i] = (int64_t)(ldexp(random_f32(&seed), (int)(i % 40)));
  int loops = 0;
  for (int t = 0; t <= CARNOT_ELEMENT_I64; ++t)
    for (int fn = 0; fn < CARNOT_PW_FN_COUNT; ++fn) {
      const carnot_elementwise ask = {.fn = (carnot_pw_fn)fn, .type = (carnot_element_type)t};
      if (!kernels->elementwise(&ask, 0, 0, 1)) continue;
      loops++;
      for (size_t w = 0; w < sizeof kWidths / sizeof *kWidths; ++w)
        for (int still = 0; still < 4; ++still)
          check_rows(kernels, ask.fn, ask.type, (const int64_t(*)[kCount])numbers, kWidths[w],
                     still);
    }
  assert_true(loops > 50);
  for (int64_t i = 0; i < kSpecials * kSpecials; ++i)  // large ones, which divide the slow way too
    numbers[0][i] = kSpecial[i % kSpecials], numbers[1][i] = kSpecial[i / kSpecials];
  static const carnot_pw_fn kDivisions[] = {CARNOT_PW_DIV, CARNOT_PW_MOD, CARNOT_PW_FMOD};
  for (int f = 0; f < 3; ++f)
    for (int t = CARNOT_ELEMENT_I32; t <= CARNOT_ELEMENT_I64; ++t)
      check_rows(kernels, kDivisions[f], (carnot_element_type)t, (const int64_t(*)[kCount])numbers,
                 kCount, 3);
}

static void check_f64(const carnot_cpu_kernels* kernels) {
  enum { kNumbers = 7 };
  static const double kOf[kNumbers] = {0, -0.0, 1.5, -2.25, INFINITY, -INFINITY, NAN};
  double x[kNumbers * kNumbers], y[kNumbers * kNumbers], out[kNumbers * kNumbers];
  for (int i = 0; i < kNumbers * kNumbers; ++i) x[i] = kOf[i % kNumbers], y[i] = kOf[i / kNumbers];
  static const carnot_pw_fn kFns[] = {CARNOT_PW_ADD, CARNOT_PW_MUL,  CARNOT_PW_DIV, CARNOT_PW_MAX,
                                      CARNOT_PW_MIN, CARNOT_PW_SQRT, CARNOT_PW_SUB};
  for (size_t f = 0; f < sizeof kFns / sizeof *kFns; ++f) {
    const carnot_elementwise call = {
        kFns[f], CARNOT_ELEMENT_F64, arity_of(kFns[f]), {{x, 0, 1}, {y, 0, 1}}, {out, 0, 1}};
    assert_true(kernels->elementwise(&call, 0, 1, kNumbers * kNumbers));
    for (int i = 0; i < kNumbers * kNumbers; ++i) {
      const double a = x[i], b = y[i], nan = isnan(a) || isnan(b) ? NAN : 0,
                   want = kFns[f] == CARNOT_PW_ADD    ? a + b
                          : kFns[f] == CARNOT_PW_SUB  ? a - b
                          : kFns[f] == CARNOT_PW_MUL  ? a * b
                          : kFns[f] == CARNOT_PW_DIV  ? a / b
                          : kFns[f] == CARNOT_PW_SQRT ? sqrt(a)
                          : kFns[f] == CARNOT_PW_MAX  ? fmax(a, b) + nan
                                                      : fmin(a, b) + nan;
      assert_true(out[i] == want || (isnan(out[i]) && isnan(want)));
    }
  }
}

static void test_integers(void** state) { (void)state, for_each_isa(check_integers); }
static void test_f64(void** state) { (void)state, for_each_isa(check_f64); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_integers), cmocka_unit_test(test_f64)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
