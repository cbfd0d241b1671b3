// Sums of shifted columns against double precision.
#include "kernel/cpu/conv/sum_columns_f32.h"

#include "kernel/cpu/common/kernel_test.h"

static void check_sum(const carnot_cpu_kernels* kernels, int64_t q, int64_t k, int64_t s,
                      int64_t dilation) {
  const int64_t rows = q + (s - 1) * dilation, ld = s * k + 2, dst_ld = q + 3;
  const int64_t count = (rows - 1) * ld + s * k;
  float *src = buffer(count, 31), *bias = buffer(k, 32), *dst = buffer(k * dst_ld, 0);
  carnot_sum_columns_f32 sum = {
      .q = q,
      .k = k,
      .s = s,
      .dilation = dilation,
      .src = src,
      .src_ld = ld,
      .dst = dst,
      .dst_ld = dst_ld,
      .epilogue = {.bias = bias, .activation = CARNOT_KERNEL_ACTIVATION_TANH}};
  sum.scratch = buffer(carnot_sum_columns_scratch(&sum), 0);
  kernels->sum_columns_f32(&sum);
  for (int64_t j = 0; j < k; ++j) {
    for (int64_t i = 0; i < q; ++i) {
      double want = bias[j];
      for (int64_t t = 0; t < s; ++t) want += src[(i + t * dilation) * ld + t * k + j];
      check_near(dst[j * dst_ld + i], tanh(want), 2 * FLT_EPSILON * (double)s, "sum", i, j);
    }
    for (int64_t i = q; i < dst_ld; ++i) assert_true(dst[j * dst_ld + i] == kCanary);
  }
  buffer_free(src), buffer_free(bias), buffer_free(dst), buffer_free(sum.scratch);
}

static void check_sums(const carnot_cpu_kernels* kernels) {
  check_sum(kernels, 21, 3, 9, 1);
  check_sum(kernels, 300, 4, 3, 2);
  check_sum(kernels, 5, 17, 2, 1);
}

static void test_sums(void** state) { (void)state, for_each_isa(check_sums); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sums)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
