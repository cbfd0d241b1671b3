// Gather and ArgMax against plain loops.
#include "kernel/cpu/gather/gather.h"

#include "kernel/cpu/common/kernel_test.h"
#include "kernel/cpu/gemm/pack_f32.h"

static void check_gather(const carnot_cpu_kernels* kernels) {
  enum { kRows = 37, kWidth = 21, kCount = 5 };
  float *table = buffer(kRows * kWidth, 111), *dst = buffer(kCount * (kWidth + 1), 0);
  float* packed = buffer(carnot_packed_k1n16_count(kWidth, kRows), 0);
  carnot_pack_k1n16_f32(kWidth, kRows, table, 1, kWidth, packed);
  int64_t index[kCount] = {0, 36, -1, -37, 17};
  for (int form = 0; form < 2; ++form) {
    const int64_t done =
        form ? kernels->gather_panel_rows_f32(kRows, kWidth, packed, kCount, index, dst, kWidth + 1)
             : kernels->gather_rows(kRows, kWidth * 4, table, kWidth * 4, kCount, index, dst,
                                    (kWidth + 1) * 4);
    assert_int_equal(done, kCount);
    for (int i = 0; i < kCount; ++i) {
      const int64_t row = index[i] < 0 ? index[i] + kRows : index[i];
      assert_memory_equal(dst + i * (kWidth + 1), table + row * kWidth, kWidth * 4);
      assert_true(dst[i * (kWidth + 1) + kWidth] == kCanary);
    }
  }
  index[3] = 37;
  assert_int_equal(kernels->gather_rows(kRows, 4, table, 4, kCount, index, dst, 4), 3);
  index[1] = -38;
  assert_int_equal(
      kernels->gather_panel_rows_f32(kRows, kWidth, packed, kCount, index, dst, kWidth), 1);
  buffer_free(table), buffer_free(dst), buffer_free(packed);
}

static int64_t arg_reference(const float* x, int64_t n, int64_t axis, bool min, bool last) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; ++i) {
    const double a = isnan(x[i * axis]) ? 1e9 : min ? -x[i * axis] : x[i * axis];
    const double b = isnan(x[best * axis]) ? 1e9 : min ? -x[best * axis] : x[best * axis];
    if (a > b || (last && a == b)) best = i;
  }
  return best;
}

static void check_arg(const carnot_cpu_kernels* kernels) {
  enum { kOuter = 6, kN = 153 };
  for (int form = 0; form < 8; ++form) {
    const bool min = form & 1, last = form & 2;
    const int64_t inner = form & 4 ? 3 : 1;
    float* x = buffer(kOuter * kN * inner, 112);
    int64_t dst[kOuter * 3];
    for (int i = 0; i < kOuter * kN * inner; ++i) x[i] = rintf(x[i] * 5);
    x[0] = NAN, x[20] = NAN, x[2 * kN * inner + 50] = NAN;
    const carnot_arg_extreme_f32 arg = {kN, inner, x, kN * inner, inner, dst, min, last};
    kernels->arg_extreme_f32(&arg, 0, kOuter);
    for (int64_t o = 0; o < kOuter; ++o) {
      for (int64_t j = 0; j < inner; ++j) {
        const int64_t want = arg_reference(x + o * kN * inner + j, kN, inner, min, last);
        assert_int_equal(dst[o * inner + j], want);
      }
    }
    buffer_free(x);
  }
}

static void test_gather(void** state) { (void)state, for_each_isa(check_gather); }
static void test_arg(void** state) { (void)state, for_each_isa(check_arg); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_gather), cmocka_unit_test(test_arg)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
