// ReLU and clip in place against scalar code, at every length so that tails are met.
#include "kernel/cpu/pointwise/rectify.h"

#include "kernel/cpu/common/kernel_test.h"

enum { kRows = 3, kMost = 70, kLd = kMost + 3 };

static float wanted(float x, float limit) {
  if (isnan(x)) return x;
  return x < 0 ? 0 : x > limit ? limit : x;
}

static void check(const carnot_cpu_kernels* kernels, int64_t n, float limit) {
  float *x = buffer(kRows * kLd, 94), *y = buffer(kRows * kLd, 94), wide[kRows * kLd];
  uint16_t half[kRows * kLd], before[kRows * kLd];
  const float special[] = {NAN, -NAN, INFINITY, -INFINITY, -0.0f, 6, 0x1p-140f, -0x1p-140f};
  memcpy(x + 1, special, sizeof(special));
  memcpy(y + 1, special, sizeof(special));
  kernels->bf16_of_f32(kRows * kLd, x, half);
  memcpy(before, half, sizeof(half));
  kernels->rectify_f32(kRows, n, y, kLd, limit);
  kernels->rectify_bf16(kRows, n, half, kLd, limit);
  kernels->f32_of_bf16(kRows * kLd, half, wide);
  for (int64_t i = 0; i < kRows * kLd; ++i) {
    float rounded;
    kernels->f32_of_bf16(1, &before[i], &rounded);
    const bool is_inside = i % kLd < n;
    const float want = is_inside ? wanted(x[i], limit) : x[i];
    const float want_half = is_inside ? wanted(rounded, limit) : rounded;
    assert_true(isnan(want) ? isnan(y[i]) : y[i] == want);
    assert_true(isnan(want_half) ? isnan(wide[i]) : wide[i] == want_half);
  }
  buffer_free(x), buffer_free(y);
}

static void check_lengths(const carnot_cpu_kernels* kernels) {
  for (int64_t n = 1; n <= kMost; ++n) {
    check(kernels, n, INFINITY);
    check(kernels, n, 6);
    check(kernels, n, 0);
  }
}

static void rectify(void** state) {
  (void)state;
  for_each_isa(check_lengths);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rectify)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
