// Reductions against double precision.
#include "kernel/cpu/reduce/reduce_f32.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t outer, n, inner;
} problem;

static const problem kProblems[] = {{3, 1, 1},  {4, 7, 1},   {2, 130, 1},  {1, 100003, 1},
                                    {2, 9, 37}, {3, 64, 16}, {1, 2000, 3}, {2, 300, 150}};

// The reduction of x[0], x[axis], … in double; the sum of sizes for the bound.
static double reference(carnot_kernel_reduction reduction, const float* x, int64_t n, int64_t axis,
                        double* out_size) {
  double acc = reduction == CARNOT_KERNEL_REDUCTION_MAX ? -INFINITY
               : reduction == CARNOT_KERNEL_REDUCTION_MIN
                   ? INFINITY
                   : reduction == CARNOT_KERNEL_REDUCTION_PRODUCT;
  *out_size = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double v = x[i * axis];
    const bool squares =
        reduction == CARNOT_KERNEL_REDUCTION_SUM_SQUARE || reduction == CARNOT_KERNEL_REDUCTION_L2;
    const double term = squares                                            ? v * v
                        : reduction == CARNOT_KERNEL_REDUCTION_SUM_ABS     ? fabs(v)
                        : reduction == CARNOT_KERNEL_REDUCTION_LOG_SUM_EXP ? exp(v)
                                                                           : v;
    *out_size += fabs(term);
    switch (reduction) {
      case CARNOT_KERNEL_REDUCTION_MAX: acc = fmax(acc, v); break;
      case CARNOT_KERNEL_REDUCTION_MIN: acc = fmin(acc, v); break;
      case CARNOT_KERNEL_REDUCTION_PRODUCT: acc *= v; break;
      default: acc += term; break;
    }
  }
  if (reduction == CARNOT_KERNEL_REDUCTION_L2) acc = sqrt(acc), *out_size = acc;
  if (reduction == CARNOT_KERNEL_REDUCTION_LOG_SUM_EXP) acc = log(acc), *out_size = 2 + fabs(acc);
  if (reduction == CARNOT_KERNEL_REDUCTION_MEAN) acc /= (double)n, *out_size /= (double)n;
  if (reduction == CARNOT_KERNEL_REDUCTION_PRODUCT) *out_size = fabs(acc) * (double)n;
  return acc;
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p,
                          carnot_kernel_reduction reduction, bool src_is_bf16) {
  const int64_t axis = p->inner == 1 ? 1 : p->inner + 2, ld = p->n * axis, dst_ld = p->inner + 1;
  float *src = buffer(p->outer * ld, 51), *dst = buffer(p->outer * dst_ld, 0);
  if (reduction == CARNOT_KERNEL_REDUCTION_PRODUCT) {
    for (int64_t i = 0; i < p->outer * ld; ++i) src[i] = 1 + src[i] / 64;
  }
  uint16_t* half_src = malloc((size_t)(p->outer * ld) * sizeof *half_src);
  if (src_is_bf16) round_all(WEIGHTS_BF16, src, p->outer * ld);
  kernels->bf16_of_f32(p->outer * ld, src, half_src);
  const void* from = src_is_bf16 ? (const void*)half_src : src;
  const carnot_reduce_f32 reduce = {reduction, p->n, p->inner, from,       ld,
                                    axis,      dst,  dst_ld,   src_is_bf16};
  const int64_t half = p->inner / 2 / 16 * 16;
  kernels->reduce_f32(&reduce, 0, p->outer, 0, half);
  kernels->reduce_f32(&reduce, 0, p->outer, half, p->inner);
  for (int64_t o = 0; o < p->outer; ++o) {
    for (int64_t j = 0; j < p->inner; ++j) {
      double size;
      const double want = reference(reduction, src + o * ld + j, p->n, axis, &size);
      check_near(dst[o * dst_ld + j], want, 4 * FLT_EPSILON * size, "reduce", o, j);
    }
    assert_true(dst[o * dst_ld + p->inner] == kCanary);
  }
  buffer_free(src), buffer_free(dst), free(half_src);
}

static void check_reduce(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    for (int r = 0; r < CARNOT_KERNEL_REDUCTION_COUNT; ++r) {
      check_problem(kernels, &kProblems[i], (carnot_kernel_reduction)r, false);
      check_problem(kernels, &kProblems[i], (carnot_kernel_reduction)r, true);
    }
  }
}

// A NaN anywhere is the result of every reduction.
static void check_nan(const carnot_cpu_kernels* kernels) {
  for (int r = 0; r < CARNOT_KERNEL_REDUCTION_COUNT; ++r) {
    for (int at = 0; at < 40; ++at) {
      float *src = buffer(80, 52), dst[2];
      src[at] = NAN;
      carnot_reduce_f32 reduce = {(carnot_kernel_reduction)r, 40, 1, src, 40, 1, dst, 1, false};
      kernels->reduce_f32(&reduce, 0, 2, 0, 1);
      assert_true(isnan(dst[0]) && !isnan(dst[1]));
      reduce.inner = 2, reduce.src_axis = 2;
      kernels->reduce_f32(&reduce, 0, 1, 0, 2);
      assert_true(isnan(dst[at % 2]) && !isnan(dst[1 - at % 2]));
      buffer_free(src);
    }
  }
}

// exp of the elements alone overflows, or vanishes.
static void check_log_sum_exp(const carnot_cpu_kernels* kernels) {
  static const float kOffsets[] = {200, -200, INFINITY, -INFINITY};
  for (size_t k = 0; k < sizeof kOffsets / sizeof *kOffsets; ++k) {
    for (int64_t inner = 1; inner < 20; inner += 18) {
      float *src = buffer(40 * inner, 0), *dst = buffer(inner, 0);
      for (int64_t i = 0; i < 40 * inner; ++i) src[i] = kOffsets[k];
      const carnot_reduce_f32 reduce = {CARNOT_KERNEL_REDUCTION_LOG_SUM_EXP,
                                        40,
                                        inner,
                                        src,
                                        40 * inner,
                                        inner,
                                        dst,
                                        inner,
                                        false};
      kernels->reduce_f32(&reduce, 0, 1, 0, inner);
      for (int64_t j = 0; j < inner; ++j)
        check_near(dst[j], kOffsets[k] + log(40.0), 1e-4, "log_sum_exp", j, 0);
      buffer_free(src), buffer_free(dst);
    }
  }
}

static void test_log_sum_exp(void** state) { (void)state, for_each_isa(check_log_sum_exp); }
static void test_reduce(void** state) { (void)state, for_each_isa(check_reduce); }
static void test_nan(void** state) { (void)state, for_each_isa(check_nan); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reduce), cmocka_unit_test(test_nan),
                                     cmocka_unit_test(test_log_sum_exp)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
