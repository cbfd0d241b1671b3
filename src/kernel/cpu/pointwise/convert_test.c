// Conversions against scalar code.
#include "kernel/cpu/pointwise/convert.h"

#include "kernel/cpu/common/kernel_test.h"

// Every length, so that tails are met; values of FP16 and BF16 are tested with pointwise programs.
static void check_halves(const carnot_cpu_kernels* kernels) {
  for (int64_t n = 1; n < 40; ++n) {
    float *x = buffer(n, 91), *y = buffer(n + 1, 0);
    uint16_t half[41];
    for (int form = 0; form < 2; ++form) {
      half[n] = 0x1234;
      (form ? kernels->bf16_of_f32 : kernels->f16_of_f32)(n, x, half);
      (form ? kernels->f32_of_bf16 : kernels->f32_of_f16)(n, half, y);
      for (int64_t i = 0; i < n; ++i) {
        check_near(y[i], x[i], fabs(x[i]) * (form ? 0x1p-8 : 0x1p-11) + 1e-7, "half", n, i);
      }
      assert_true(y[n] == kCanary);
      assert_int_equal(half[n], 0x1234);
    }
    buffer_free(x), buffer_free(y);
  }
}

static void check_quantize(const carnot_cpu_kernels* kernels) {
  enum { kRows = 3, kWidth = 37, kLd = 40 };
  for (int form = 0; form < 4; ++form) {
    const bool is_signed = form & 1, per_column = form & 2;
    const int lo = is_signed ? -128 : 0, hi = is_signed ? 127 : 255;
    float *x = buffer(kRows * kLd, 92), *scale = buffer(kWidth, 93), back[kRows * kWidth];
    int8_t zero[kWidth], q[kRows * kLd];
    for (int j = 0; j < kWidth; ++j) {
      scale[j] = fabsf(scale[j]) / 64 + 0.001f, zero[j] = (int8_t)(j * 5 % 100);
    }
    x[3] = NAN, x[4] = INFINITY, x[5] = -INFINITY, x[6] = scale[0] * 2.5f, x[7] = scale[0] * 3.5f;
    const carnot_quantize quantize = {kWidth, is_signed, per_column, scale, zero};
    memset(q, 0x77, sizeof q);
    kernels->quantize_f32(&quantize, kRows, x, kLd, q, kLd);
    kernels->dequantize_f32(&quantize, kRows, q, kLd, back, kWidth);
    for (int i = 0; i < kRows; ++i) {
      for (int j = 0; j < kWidth; ++j) {
        const float s = scale[per_column ? j : 0], v = x[i * kLd + j];
        const int z = zero[per_column ? j : 0];
        const float r = isnan(v) ? 0 : rintf(v / s) + (float)z;
        const int want = isnan(v) ? z : r < (float)lo ? lo : r > (float)hi ? hi : (int)r;
        const int got = is_signed ? q[i * kLd + j] : (uint8_t)q[i * kLd + j];
        assert_int_equal(got, want);
        assert_true(back[i * kWidth + j] == (float)(want - z) * s);
      }
      if (i + 1 < kRows) assert_int_equal(q[i * kLd + kWidth], 0x77);
    }
    buffer_free(x), buffer_free(scale);
  }
}

static void test_halves(void** state) { (void)state, for_each_isa(check_halves); }
// Numbers around every tie, one to three units in the last place away from it and on it.
static void check_ties(const carnot_cpu_kernels* kernels) {
  static const float kScales[] = {0.1F,  0.0173F,   1 / 3.0F, 1e-29F,
                                  3e28F, 0x1p-110F, 0x1p110F, 1e-39F};
  enum { kTies = 520, kNear = 7 };
  for (size_t s = 0; s < sizeof kScales / sizeof *kScales; ++s) {
    float *x = buffer(kTies * kNear, 0), scale = kScales[s];
    uint8_t q[kTies * kNear], zero = 128;
    for (int i = 0; i < kTies; ++i) {
      float at = ((float)(i - kTies / 2) + 0.5F) * scale;
      for (int k = 0; k < kNear / 2; ++k) at = nextafterf(at, -INFINITY);
      for (int k = 0; k < kNear; ++k, at = nextafterf(at, INFINITY)) x[i * kNear + k] = at;
    }
    const carnot_quantize quantize = {kTies * kNear, false, false, &scale, &zero};
    kernels->quantize_f32(&quantize, 1, x, 0, q, 0);
    for (int i = 0; i < kTies * kNear; ++i) {
      const float r = rintf(x[i] / scale) + (float)zero;
      assert_int_equal(q[i], r < 0 ? 0 : r > 255 ? 255 : (int)r);
    }
    buffer_free(x);
  }
}

static void check_range(const carnot_cpu_kernels* kernels) {
  for (int64_t n = 0; n < 150; ++n) {
    float *x = buffer(n, 7), low = 0, high = 0, got[2];
    if (n % 3 == 1) x[n / 2] = NAN;
    if (n % 5 == 1) x[n - 1] = n % 2 ? INFINITY : -INFINITY;
    for (int64_t i = 0; i < n; ++i) {
      if (n % 7 == 0) x[i] = fabsf(x[i]);
      low = x[i] < low ? x[i] : low, high = x[i] > high ? x[i] : high;
    }
    kernels->range_f32(n, x, got);
    assert_true(got[0] == low && got[1] == high);
    buffer_free(x);
  }
}

static void test_range(void** state) { (void)state, for_each_isa(check_range); }
static void test_ties(void** state) { (void)state, for_each_isa(check_ties); }
static void test_quantize(void** state) { (void)state, for_each_isa(check_quantize); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_halves), cmocka_unit_test(test_quantize),
                                     cmocka_unit_test(test_ties), cmocka_unit_test(test_range)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
