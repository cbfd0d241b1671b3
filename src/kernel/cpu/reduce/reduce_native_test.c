// Reductions of integers and float64 against plain loops.
#include "kernel/cpu/reduce/reduce_native.h"

#include "kernel/cpu/common/kernel_test.h"

enum { kMost = 4000 };

typedef struct problem {
  int64_t outer, n, inner;
} problem;
static const problem kProblems[] = {{3, 1, 1},   {4, 7, 1},  {2, 131, 1}, {1, 3001, 1},
                                    {2, 9, 137}, {3, 33, 5}, {1, 2, 300}};

// Element |i| of |x|.
static long double at(carnot_element_type type, const void* x, int64_t i) {
  switch (type) {
    case CARNOT_ELEMENT_U8: return ((const uint8_t*)x)[i];
    case CARNOT_ELEMENT_I32: return ((const int32_t*)x)[i];
    case CARNOT_ELEMENT_I64: return (long double)((const int64_t*)x)[i];
    default: return ((const double*)x)[i];
  }
}

static void fill(carnot_element_type type, void* x, int64_t count, uint64_t seed) {
  for (int64_t i = 0; i < count; ++i) {
    const float r = random_f32(&seed);
    if (type == CARNOT_ELEMENT_U8) ((uint8_t*)x)[i] = (uint8_t)(127 + 127 * r);
    if (type == CARNOT_ELEMENT_I32) ((int32_t*)x)[i] = (int32_t)(1000 * r);
    if (type == CARNOT_ELEMENT_I64) ((int64_t*)x)[i] = (int64_t)(1e12 * (double)r);
    if (type == CARNOT_ELEMENT_F64) ((double*)x)[i] = 1 + (double)r / 64;
  }
}

static long double wanted(carnot_kernel_reduction reduction, carnot_element_type type,
                          const void* x, int64_t first, int64_t n, int64_t step) {
  long double acc = at(type, x, first);
  for (int64_t i = 1; i < n; ++i) {
    const long double v = at(type, x, first + i * step);
    switch (reduction) {
      case CARNOT_KERNEL_REDUCTION_MAX: acc = v > acc ? v : acc; break;
      case CARNOT_KERNEL_REDUCTION_MIN: acc = v < acc ? v : acc; break;
      case CARNOT_KERNEL_REDUCTION_PRODUCT: acc *= v; break;
      default: acc += v; break;
    }
  }
  return reduction == CARNOT_KERNEL_REDUCTION_MEAN ? acc / n : acc;
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p,
                          carnot_kernel_reduction reduction, carnot_element_type type) {
  static int64_t src[kMost], dst[kMost];
  const carnot_reduce_native reduce = {reduction, type, p->n, p->inner, src, dst};
  if (!kernels->reduce_native(&reduce, 0, 0)) return;
  // Products of integers wrap: no sum of long doubles says how.
  if (reduction == CARNOT_KERNEL_REDUCTION_PRODUCT && type != CARNOT_ELEMENT_F64) return;
  fill(type, src, p->outer * p->n * p->inner, 7);
  assert_true(kernels->reduce_native(&reduce, 0, p->outer / 2));
  assert_true(kernels->reduce_native(&reduce, p->outer / 2, p->outer));
  for (int64_t o = 0; o < p->outer; ++o)
    for (int64_t j = 0; j < p->inner; ++j) {
      const long double want =
          wanted(reduction, type, src, o * p->n * p->inner + j, p->n, p->inner);
      const long double got = at(type, dst, o * p->inner + j);
      const long double bound = type == CARNOT_ELEMENT_F64 ? 1e-14L * p->n * fabsl(want) : 0;
      assert_true(fabsl(got - want) <= bound);
    }
}

static void check_all(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i)
    for (int r = 0; r < CARNOT_KERNEL_REDUCTION_COUNT; ++r)
      for (int t = 0; t < CARNOT_ELEMENT_TYPE_COUNT; ++t)
        check_problem(kernels, &kProblems[i], (carnot_kernel_reduction)r, (carnot_element_type)t);
}

static void check_edges(const carnot_cpu_kernels* kernels) {
  double x[40], y;
  for (int k = 0; k < 40; ++k) {
    for (int i = 0; i < 40; ++i) x[i] = i == k ? NAN : i;
    for (int r = CARNOT_KERNEL_REDUCTION_SUM; r <= CARNOT_KERNEL_REDUCTION_MIN; ++r) {
      const carnot_reduce_native reduce = {
          (carnot_kernel_reduction)r, CARNOT_ELEMENT_F64, 40, 1, x, &y};
      assert_true(kernels->reduce_native(&reduce, 0, 1) && isnan(y));
    }
  }
  const int32_t wide[2] = {INT32_MAX, 1};
  int32_t sum;
  const carnot_reduce_native wraps = {
      CARNOT_KERNEL_REDUCTION_SUM, CARNOT_ELEMENT_I32, 2, 1, wide, &sum};
  assert_true(kernels->reduce_native(&wraps, 0, 1));
  assert_int_equal(sum, INT32_MIN);
}

static void test_reduce(void** state) { (void)state, for_each_isa(check_all); }
static void test_edges(void** state) { (void)state, for_each_isa(check_edges); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_reduce), cmocka_unit_test(test_edges)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
