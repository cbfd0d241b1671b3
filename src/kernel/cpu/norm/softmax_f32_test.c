// Softmax and log-softmax against double precision.
#include "kernel/cpu/norm/softmax_f32.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t outer, n, inner;
} problem;

static const problem kProblems[] = {{3, 1, 1},  {4, 7, 1},   {2, 16, 1},  {3, 129, 1}, {1, 5000, 1},
                                    {2, 9, 37}, {3, 64, 16}, {1, 200, 3}, {2, 1, 5}};

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p, bool log) {
  const int64_t axis = p->inner == 1 ? 1 : p->inner + 2, ld = p->n * axis + 3;
  float *src = buffer(p->outer * ld, 41), *dst = buffer(p->outer * ld, 0);
  for (int64_t i = 0; i < p->outer * ld; ++i) src[i] *= 20;
  const carnot_softmax_f32 softmax = {.n = p->n,
                                      .inner = p->inner,
                                      .src = src,
                                      .src_outer = ld,
                                      .src_axis = axis,
                                      .dst = dst,
                                      .dst_outer = ld,
                                      .dst_axis = axis};
  (log ? kernels->log_softmax_f32 : kernels->softmax_f32)(&softmax, 0, p->outer);
  for (int64_t o = 0; o < p->outer; ++o) {
    for (int64_t j = 0; j < p->inner; ++j) {
      const float* x = src + o * ld + j;
      double max = -INFINITY, sum = 0;
      for (int64_t i = 0; i < p->n; ++i) max = fmax(max, x[i * axis]);
      for (int64_t i = 0; i < p->n; ++i) sum += exp(x[i * axis] - max);
      for (int64_t i = 0; i < p->n; ++i) {
        const double d = x[i * axis] - max, want = log ? d - log1p(sum - 1) : exp(d) / sum;
        const double bound = log ? 4 * FLT_EPSILON * (fabs(d) + 3) : 40 * FLT_EPSILON * want;
        check_near(dst[o * ld + i * axis + j], want, bound, "softmax", o, i);
      }
    }
    assert_true(dst[(o + 1) * ld - 1] == kCanary);
    if (p->inner > 1) assert_true(dst[o * ld + p->inner] == kCanary);
  }
  buffer_free(src), buffer_free(dst);
}

static void check_softmax(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    check_problem(kernels, &kProblems[i], /*log=*/false);
    check_problem(kernels, &kProblems[i], /*log=*/true);
  }
}

// In place; a NaN makes its row NaN, -inf has no weight, a row of -inf is NaN as 0 / 0.
static void check_specials(const carnot_cpu_kernels* kernels) {
  enum { kRows = 3, kWidth = 19 };
  float* x = buffer(kRows * kWidth, 42);
  x[4] = NAN, x[kWidth + 18] = -INFINITY;
  for (int i = 0; i < kWidth; ++i) x[2 * kWidth + i] = -INFINITY;
  const carnot_softmax_f32 softmax = {kWidth, 1, x, kWidth, 1, x, kWidth, 1};
  kernels->softmax_f32(&softmax, 0, kRows);
  for (int i = 0; i < kWidth; ++i) {
    assert_true(isnan(x[i]) && isnan(x[2 * kWidth + i]));
    assert_true(i == 18 ? x[kWidth + i] == 0 : x[kWidth + i] > 0);
  }
  buffer_free(x);
}

static void test_softmax(void** state) { (void)state, for_each_isa(check_softmax); }
static void test_specials(void** state) { (void)state, for_each_isa(check_specials); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_softmax),
                                     cmocka_unit_test(test_specials)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
