// Pointwise functions and programs against double precision.
#include "kernel/cpu/pointwise/pointwise.h"

#include "kernel/cpu/common/kernel_test.h"

// What double precision says, and how far the kernels may be off: units in the last place of the
// result, plus an absolute part where the function itself subtracts.
typedef struct function {
  carnot_pw_fn fn;
  float a, b;
  double lo, hi;  // where it is tried
  double ulps, absolute;
} function;

static const function kFunctions[] = {
    {CARNOT_PW_ABS, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_SIGN, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_RECIP, 0, 0, -9, 9, 0.5, 0},
    {CARNOT_PW_SQRT, 0, 0, -1, 99, 0.5, 0},
    {CARNOT_PW_EXP, 0, 0, -110, 95, 2, 0},
    {CARNOT_PW_LOG, 0, 0, -1e-30, 1e-30, 2, 0},
    {CARNOT_PW_LOG, 0, 0, 0, 3, 2, 0},
    {CARNOT_PW_LOG, 0, 0, 0, 1e38, 2, 0},
    {CARNOT_PW_FLOOR, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_CEIL, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_ROUND, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_SIN, 0, 0, -20, 20, 2, 0},
    {CARNOT_PW_COS, 0, 0, -9000, 9000, 2, 0},
    {CARNOT_PW_SIN, 0, 0, -3e38, 3e38, 2, 0},
    {CARNOT_PW_TAN, 0, 0, -20, 20, 4, 0},
    {CARNOT_PW_ASIN, 0, 0, -1.1, 1.1, 3, 0},
    {CARNOT_PW_ACOS, 0, 0, -1.1, 1.1, 3, 0},
    {CARNOT_PW_ATAN, 0, 0, -30, 30, 3, 0},
    {CARNOT_PW_SINH, 0, 0, -89.4, 89.4, 4, 0},
    {CARNOT_PW_COSH, 0, 0, -89.4, 89.4, 4, 0},
    {CARNOT_PW_TANH, 0, 0, -12, 12, 3, 0},
    {CARNOT_PW_ASINH, 0, 0, -30000, 30000, 4, 0},
    {CARNOT_PW_ASINH, 0, 0, -2, 2, 4, 0},
    {CARNOT_PW_ACOSH, 0, 0, 0.9, 30000, 4, 0},
    {CARNOT_PW_ACOSH, 0, 0, 1, 2, 4, 0},
    {CARNOT_PW_ATANH, 0, 0, -1.05, 1.05, 4, 0},
    {CARNOT_PW_ERF, 0, 0, -5, 5, 3, 0},
    {CARNOT_PW_SIGMOID, 0, 0, -100, 100, 4, 0},
    {CARNOT_PW_RELU, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_LEAKY_RELU, 0.125f, 0, -9, 9, 0.5, 0},
    {CARNOT_PW_ELU, 0.75f, 0, -30, 9, 4, 0},
    {CARNOT_PW_SELU, 1.625f, 1.0625f, -30, 9, 4, 0},
    {CARNOT_PW_CELU, 0.5f, 0, -30, 9, 4, 0},
    {CARNOT_PW_SOFTPLUS, 0.5f, 2, -60, 60, 4, 0},
    {CARNOT_PW_SOFTSIGN, 0, 0, -9, 9, 2, 0},
    {CARNOT_PW_HARD_SIGMOID, 0.25f, 0.5f, -9, 9, 1, 0},
    {CARNOT_PW_HARD_SWISH, 0, 0, -9, 9, 4, 1e-7},
    {CARNOT_PW_SWISH, 1.5f, 0, -8, 50, 16, 0},
    {CARNOT_PW_MISH, 0, 0, -60, 60, 8, 0},
    {CARNOT_PW_GELU_ERF, 0, 0, -12, 12, 6, 2e-7},
    {CARNOT_PW_GELU_TANH, 0, 0, -12, 12, 8, 2e-7},
    {CARNOT_PW_SCALED_TANH, 1.5f, 0.75f, -12, 12, 4, 0},
    {CARNOT_PW_THRESHOLDED_RELU, 1.5f, 0, -9, 9, 0, 0},
    {CARNOT_PW_SHRINK, 1.5f, 0.5f, -9, 9, 0.5, 0},
    {CARNOT_PW_CLAMP, -1.5f, 2.5f, -9, 9, 0, 0},
    {CARNOT_PW_AFFINE, -1.5f, 2.5f, -9, 9, 2, 1e-6},
    {CARNOT_PW_ROUND_F16, 0, 0, -70000, 70000, 0, 0},
    {CARNOT_PW_ROUND_F16, 0, 0, -1e-4, 1e-4, 0, 0},
    {CARNOT_PW_ROUND_BF16, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_IS_NAN, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_IS_INF, 1, 0, -9, 9, 0, 0},
    {CARNOT_PW_POW, 0, 0, 0, 20, 1, 0},
    {CARNOT_PW_POW, 0, 0, -6, 6, 1, 0},
    {CARNOT_PW_FMOD, 0, 0, -1e20, 1e20, 0, 0},
    {CARNOT_PW_MOD, 0, 0, -9, 9, 1, 0},
    {CARNOT_PW_MAX, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_MIN, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_PRELU, 0, 0, -9, 9, 0.5, 0},
    {CARNOT_PW_DIV, 0, 0, -9, 9, 0.5, 0},
    {CARNOT_PW_LESS, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_GREATER_EQUAL, 0, 0, -9, 9, 0, 0},
    {CARNOT_PW_XOR, 0, 0, -9, 9, 0, 0},
};

// |x| with |bits| behind the point and exponents from |least| on, ties to even.
static double to_bits(double x, int bits, int least) {
  if (x == 0 || !isfinite(x)) return x;
  const int exponent = ilogb(x) < least ? least : ilogb(x);
  return ldexp(nearbyint(ldexp(x, bits - exponent)), exponent - bits);
}

static double elu(double x, double a) { return x < 0 ? a * expm1(x) : x; }

static double in_double(const function* f, double x, double y) {
  const double a = f->a, b = f->b;
  switch (f->fn) {
    case CARNOT_PW_ABS: return fabs(x);
    case CARNOT_PW_SIGN: return isnan(x) ? x : (x > 0) - (x < 0);
    case CARNOT_PW_RECIP: return 1 / x;
    case CARNOT_PW_SQRT: return sqrt(x);
    case CARNOT_PW_EXP: return exp(x);
    case CARNOT_PW_LOG: return log(x);
    case CARNOT_PW_FLOOR: return floor(x);
    case CARNOT_PW_CEIL: return ceil(x);
    case CARNOT_PW_ROUND: return nearbyint(x);
    case CARNOT_PW_SIN: return sin(x);
    case CARNOT_PW_COS: return cos(x);
    case CARNOT_PW_TAN: return tan(x);
    case CARNOT_PW_ASIN: return asin(x);
    case CARNOT_PW_ACOS: return acos(x);
    case CARNOT_PW_ATAN: return atan(x);
    case CARNOT_PW_SINH: return sinh(x);
    case CARNOT_PW_COSH: return cosh(x);
    case CARNOT_PW_TANH: return tanh(x);
    case CARNOT_PW_ASINH: return asinh(x);
    case CARNOT_PW_ACOSH: return acosh(x);
    case CARNOT_PW_ATANH: return atanh(x);
    case CARNOT_PW_ERF: return erf(x);
    case CARNOT_PW_SIGMOID: return 1 / (1 + exp(-x));
    case CARNOT_PW_RELU: return x < 0 ? 0 : x;
    case CARNOT_PW_LEAKY_RELU: return x < 0 ? a * x : x;
    case CARNOT_PW_ELU: return elu(x, a);
    case CARNOT_PW_SELU: return b * elu(x, a);
    case CARNOT_PW_CELU: return x < 0 ? a * expm1(x / a) : x;
    case CARNOT_PW_SOFTPLUS: return a * log1p(exp(b * x));
    case CARNOT_PW_SOFTSIGN: return x / (1 + fabs(x));
    case CARNOT_PW_HARD_SIGMOID: return isnan(x) ? x : fmax(0, fmin(1, a * x + b));
    case CARNOT_PW_HARD_SWISH: return isnan(x) ? x : x * fmax(0, fmin(1, x / 6 + 0.5));
    case CARNOT_PW_SWISH: return x / (1 + exp(-a * x));
    case CARNOT_PW_MISH: return x * tanh(log1p(exp(x)));
    case CARNOT_PW_GELU_ERF: return x / 2 * erfc(-x / sqrt(2));
    case CARNOT_PW_GELU_TANH:
      return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case CARNOT_PW_SCALED_TANH: return a * tanh(b * x);
    case CARNOT_PW_THRESHOLDED_RELU: return x <= a ? 0 : x;
    case CARNOT_PW_SHRINK: return isnan(x) ? x : x < -a ? x + b : x > a ? x - b : 0;
    case CARNOT_PW_CLAMP: return isnan(x) ? x : fmin(fmax(x, a), b);
    case CARNOT_PW_AFFINE: return a * x + b;
    case CARNOT_PW_ROUND_F16: return fabs(x) >= 65520 ? x * INFINITY : to_bits(x, 10, -14);
    case CARNOT_PW_ROUND_BF16: return to_bits(x, 7, -126);
    case CARNOT_PW_IS_NAN: return isnan(x);
    case CARNOT_PW_IS_INF: return x == -INFINITY;
    case CARNOT_PW_POW: return pow(x, y);
    case CARNOT_PW_FMOD: return fmod(x, y);
    case CARNOT_PW_MOD: return fmod(x, y) != 0 && (x < 0) != (y < 0) ? fmod(x, y) + y : fmod(x, y);
    case CARNOT_PW_MAX: return isnan(x) || isnan(y) ? NAN : fmax(x, y);
    case CARNOT_PW_MIN: return isnan(x) || isnan(y) ? NAN : fmin(x, y);
    case CARNOT_PW_PRELU: return x < 0 ? x * y : x;
    case CARNOT_PW_DIV: return x / y;
    case CARNOT_PW_LESS: return x < y;
    case CARNOT_PW_GREATER_EQUAL: return x >= y;
    default: return (x != 0) != (y != 0);  // XOR
  }
}

static double ulp_of(double want) {
  const double size = fmax(fabs(want), 0x1p-126);
  return ldexp(1, ilogb(size) - 23);
}

static carnot_pw_program program_of(const function* f) {
  const int arity = carnot_pw_arity(f->fn);
  const uint8_t inputs = (uint8_t)arity;
  return (carnot_pw_program){
      .instruction_count = 1,
      .register_count = (uint8_t)(inputs + 1),
      .input_count = inputs,
      .output_count = 1,
      .output_register = {inputs},
      .instructions = {
          {.fn = f->fn, .dst = inputs, .src = {0, arity > 1, 0}, .a = f->a, .b = f->b}}};
}

static void check_functions(const carnot_cpu_kernels* kernels) {
  enum { kCount = 20011, kSpecials = 9 };
  static const float specials[kSpecials] = {0, -0.0f, INFINITY, -INFINITY, NAN,
                                            1, -1,    1e-40f,   0.5f};
  for (size_t i = 0; i < sizeof kFunctions / sizeof *kFunctions; ++i) {
    const function* f = &kFunctions[i];
    float *x = buffer(kCount, 1), *y = buffer(kCount, 2), *out = buffer(kCount, 0);
    for (int j = 0; j < kCount; ++j) {
      x[j] = (float)((f->lo + f->hi) / 2 + (f->hi - f->lo) / 2 * x[j]);
      y[j] = j % 3 ? 9 * y[j] : rintf(9 * y[j]);
    }
    for (int j = 0; j < kSpecials; ++j) x[j] = specials[j];
    for (int j = 0; j < kSpecials * kSpecials; ++j) {
      x[100 + j] = specials[j % kSpecials], y[100 + j] = specials[j / kSpecials];
    }
    const carnot_pw_program program = program_of(f);
    const char* wrong = carnot_pw_check(&program);
    if (wrong) fail_msg("function %d: %s", f->fn, wrong);
    const carnot_pw_operand in[] = {{x, 0, 1}, {y, 0, 1}}, result = {out, 0, 1};
    kernels->pointwise(&program, in, &result, 0, 1, kCount);
    double worst = 0;
    for (int j = 0; j < kCount; ++j) {
      const double want = in_double(f, x[j], y[j]);
      const bool overflow = fabs(want) > 0x1.fffffep127 && isfinite(want) && isinf(out[j]);
      if (isnan(want) ? isnan(out[j]) : out[j] == (float)want || overflow) continue;
      const double error = fabs(out[j] - want), ulps = (error - f->absolute) / ulp_of(want);
      if (ulps > worst) worst = ulps;
      if (!(ulps <= f->ulps + 0.01)) {
        fail_msg("function %d at %.9g, %.9g: got %.9g, want %.9g (%.2f ulp)", f->fn, x[j], y[j],
                 out[j], want, ulps);
      }
    }
    printf("  function %2d in [%g, %g]: %.2f ulp\n", f->fn, f->lo, f->hi, worst);
    buffer_free(x), buffer_free(y), buffer_free(out);
  }
}

// clip(select(x < y, x + y, 3), lo, hi) over rows with every kind of stride and type.
static void check_operands(const carnot_cpu_kernels* kernels) {
  const carnot_pw_program program = {.instruction_count = 5,
                                     .register_count = 6,
                                     .input_count = 3,
                                     .output_count = 2,
                                     .input_type = {CARNOT_PW_F32, CARNOT_PW_F32, CARNOT_PW_BOOL},
                                     .output_type = {CARNOT_PW_F32, CARNOT_PW_BOOL},
                                     .output_register = {4, 3},
                                     .instructions = {{CARNOT_PW_LESS, 3, {0, 1, 0}, 0, 0},
                                                      {CARNOT_PW_ADD, 4, {0, 1, 0}, 0, 0},
                                                      {CARNOT_PW_CONSTANT, 5, {0, 0, 0}, 3, 0},
                                                      {CARNOT_PW_AND, 3, {3, 2, 0}, 0, 0},
                                                      {CARNOT_PW_SELECT, 4, {3, 4, 5}, 0, 0}}};
  assert_null(carnot_pw_check(&program));
  static const int64_t widths[] = {1, 2, 3, 4, 5, 7, 8, 16, 17, 100, 255, 256, 700};
  for (size_t w = 0; w < sizeof widths / sizeof *widths; ++w) {
    const int64_t n = widths[w], rows = 37, ld = n + 5;
    float *x = buffer(rows * ld, 1), *y = buffer(rows, 2), *out = buffer(rows * ld, 0);
    uint8_t *flags = malloc((size_t)n), *less = malloc((size_t)(rows * n));
    for (int64_t j = 0; j < n; ++j) flags[j] = j % 3 != 0;
    const carnot_pw_operand in[] = {{x, ld, 1}, {y, 1, 0}, {flags, 0, 1}};
    const carnot_pw_operand results[] = {{out, ld, 1}, {less, n, 1}};
    kernels->pointwise(&program, in, results, 0, 11, n);
    kernels->pointwise(&program, in, results, 11, rows, n);
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        const bool first = x[i * ld + j] < y[i] && flags[j];
        assert_int_equal(less[i * n + j], first);
        assert_true(out[i * ld + j] == (first ? x[i * ld + j] + y[i] : 3));
      }
      for (int64_t j = n; j < ld; ++j) assert_true(out[i * ld + j] == kCanary);
    }
    buffer_free(x), buffer_free(y), buffer_free(out), free(flags), free(less);
  }
}

// x y + z has the bits of a product and a sum, whether or not something else reads the product.
static void check_joined(const carnot_cpu_kernels* kernels) {
  enum { kN = 700 };
  carnot_pw_program program = {
      .instruction_count = 2,
      .register_count = 5,
      .input_count = 3,
      .output_count = 1,
      .output_register = {4, 3},
      .instructions = {{CARNOT_PW_MUL, 3, {0, 1, 0}, 0, 0}, {CARNOT_PW_ADD, 4, {2, 3, 0}, 0, 0}}};
  float *x = buffer(kN, 1), *y = buffer(kN, 2), *z = buffer(kN, 3), *sum = buffer(kN, 0),
        *product = buffer(kN, 0);
  const carnot_pw_operand in[] = {{x, 0, 1}, {y, 0, 1}, {z, 0, 1}};
  const carnot_pw_operand out[] = {{sum, 0, 1}, {product, 0, 1}};
  for (program.output_count = 1; program.output_count < 3; ++program.output_count) {
    kernels->pointwise(&program, in, out, 0, 1, kN);
    for (int i = 0; i < kN; ++i) {
      const float xy = x[i] * y[i];
      assert_true(sum[i] == xy + z[i]);
      if (program.output_count > 1) assert_true(product[i] == xy);
    }
  }
  buffer_free(x), buffer_free(y), buffer_free(z), buffer_free(sum), buffer_free(product);
}

// Every 16-bit pattern survives loading and storing; rounding goes to the nearest even.
static void check_halves(const carnot_cpu_kernels* kernels) {
  static uint16_t in[65536], out[65536];
  static float wide[65536];
  for (int type = CARNOT_PW_F16; type <= CARNOT_PW_BF16; ++type) {
    carnot_pw_program program = {.instruction_count = 0,
                                 .register_count = 1,
                                 .input_count = 1,
                                 .output_count = 1,
                                 .input_type = {(uint8_t)type},
                                 .output_type = {(uint8_t)type}};
    for (int i = 0; i < 65536; ++i) in[i] = (uint16_t)i;
    const carnot_pw_operand src = {in, 0, 1}, dst = {out, 0, 1}, wider = {wide, 0, 1};
    kernels->pointwise(&program, &src, &dst, 0, 1, 65535);
    program.output_type[0] = CARNOT_PW_F32;
    kernels->pointwise(&program, &src, &wider, 0, 1, 65535);
    for (int i = 0; i < 65535; ++i) {
      if (!isnan(wide[i])) assert_int_equal(out[i], in[i]);
      const int mantissa = type == CARNOT_PW_F16 ? 10 : 7, bias = type == CARNOT_PW_F16 ? 15 : 127;
      const int exponent = i >> mantissa & (2 * bias + 1), rest = i & ((1 << mantissa) - 1);
      if (exponent == 2 * bias + 1) {
        assert_true(rest ? isnan(wide[i]) && (out[i] & rest) == rest : isinf(wide[i]));
        continue;
      }
      const double size = exponent ? ldexp((1 << mantissa) + rest, exponent - bias - mantissa)
                                   : ldexp(rest, 1 - bias - mantissa);
      assert_true(fabsf(wide[i]) == size && !signbit(wide[i]) == !(i >> 15));
    }
    // Halfway between neighbours, and a little beside it.
    program.input_type[0] = CARNOT_PW_F32, program.output_type[0] = (uint8_t)type;
    const int largest = type == CARNOT_PW_F16 ? 0x7bff : 0x7f7f;
    for (int i = 0; i < largest; ++i) {
      const double middle = ((double)wide[i] + wide[i + 1]) / 2;
      float x[3] = {(float)middle, nextafterf((float)middle, 0),
                    nextafterf((float)middle, INFINITY)};
      uint16_t y[3];
      const carnot_pw_operand from = {x, 0, 1}, to = {y, 0, 1};
      kernels->pointwise(&program, &from, &to, 0, 1, 3);
      if ((double)x[0] != middle) continue;  // below the subnormals of f32
      assert_int_equal(y[0], i + (i & 1));
      assert_int_equal(y[1], i);
      assert_int_equal(y[2], i + 1);
    }
  }
}

static void test_functions(void** state) { (void)state, for_each_isa(check_functions); }
static void test_joined(void** state) { (void)state, for_each_isa(check_joined); }
static void test_operands(void** state) { (void)state, for_each_isa(check_operands); }
static void test_halves(void** state) { (void)state, for_each_isa(check_halves); }

static void test_check(void** state) {
  (void)state;
  carnot_pw_program good = {.instruction_count = 1,
                            .register_count = 2,
                            .input_count = 1,
                            .output_count = 1,
                            .output_register = {1},
                            .instructions = {{CARNOT_PW_EXP, 1, {0, 0, 0}, 0, 0}}};
  assert_null(carnot_pw_check(&good));
  carnot_pw_program p = good;
  p.instructions[0].fn = CARNOT_PW_BIT_AND;
  assert_string_equal(carnot_pw_check(&p), "unsupported function");
  p = good, p.instructions[0].fn = 200;
  assert_string_equal(carnot_pw_check(&p), "unsupported function");
  p = good, p.instructions[0].src[0] = 1;
  assert_string_equal(carnot_pw_check(&p), "register read before it is set");
  p = good, p.instructions[0].src[0] = 2;
  assert_string_equal(carnot_pw_check(&p), "operand register out of range");
  p = good, p.instructions[0].dst = 9;
  assert_string_equal(carnot_pw_check(&p), "result register out of range");
  p = good, p.output_register[0] = 2;
  assert_string_equal(carnot_pw_check(&p), "output register out of range");
  p = good, p.instruction_count = 0;
  assert_string_equal(carnot_pw_check(&p), "output register never set");
  p = good, p.output_count = 5;
  assert_string_equal(carnot_pw_check(&p), "too many outputs");
  p = good, p.register_count = 25;
  assert_string_equal(carnot_pw_check(&p), "too many registers");
  p = good, p.input_type[0] = 9;
  assert_string_equal(carnot_pw_check(&p), "unknown input type");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_functions),
                                     cmocka_unit_test(test_operands), cmocka_unit_test(test_joined),
                                     cmocka_unit_test(test_halves), cmocka_unit_test(test_check)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
