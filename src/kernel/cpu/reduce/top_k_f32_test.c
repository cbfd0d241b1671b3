// TopK against a sort.
#include "kernel/cpu/reduce/top_k_f32.h"

#include "kernel/cpu/common/kernel_test.h"

static bool goes_before(float a, float b, bool largest) {
  if (isnan(a) || isnan(b)) return largest ? !isnan(b) : !isnan(a);
  return largest ? a > b : a < b;
}

// The i-th of |k| by going through all: indices of equal elements rise.
static int64_t nth(const float* x, int64_t n, int64_t inner, int64_t i, bool largest) {
  for (int64_t at = 0; at < n; ++at) {
    int64_t before = 0;
    for (int64_t o = 0; o < n; ++o)
      before += goes_before(x[o * inner], x[at * inner], largest) ||
                (o < at && !goes_before(x[at * inner], x[o * inner], largest));
    if (before == i) return at;
  }
  return -1;
}

static void check_lanes(const carnot_cpu_kernels* kernels, int64_t n, int64_t k, int64_t inner,
                        bool largest, bool ties) {
  enum { kOuter = 3 };
  const int64_t lanes = kOuter * inner;
  float *x = buffer(lanes * n, 5), *values = buffer(lanes * k, 0);
  int64_t* index = malloc((size_t)(lanes * k) * sizeof(*index));
  void* work = malloc((size_t)carnot_top_k_f32_workspace(n, k));
  for (int64_t i = 0; ties && i < lanes * n; ++i) x[i] = rintf(x[i] * 3) / 3 * (i % 2 ? 1 : -1);
  if (n > 4) x[1] = NAN, x[3 * inner] = NAN, x[2 * inner] = -INFINITY, x[lanes * n - 1] = INFINITY;
  const carnot_top_k_f32 arg = {n, k, inner, x, values, index, largest};
  kernels->top_k_f32(&arg, 0, 1, work);
  kernels->top_k_f32(&arg, 1, lanes, work);
  for (int64_t l = 0; l < lanes; ++l) {
    const float* lane = x + l / inner * n * inner + l % inner;
    for (int64_t i = 0; i < k; ++i) {
      const int64_t to = l / inner * k * inner + l % inner + i * inner;
      assert_int_equal(index[to], nth(lane, n, inner, i, largest));
      assert_memory_equal(&values[to], &lane[index[to] * inner], sizeof(float));
    }
  }
  buffer_free(x), buffer_free(values);
  free(index), free(work);
}

static void check_top_k(const carnot_cpu_kernels* kernels) {
  for (int form = 0; form < 8; ++form) {
    const bool largest = form & 1, ties = form & 2;
    const int64_t inner = form & 4 ? 3 : 1;
    check_lanes(kernels, 1, 1, inner, largest, ties);
    check_lanes(kernels, 53, 1, inner, largest, ties);
    check_lanes(kernels, 53, 53, inner, largest, ties);
    check_lanes(kernels, 200, 7, inner, largest, ties);
    check_lanes(kernels, 64, 40, inner, largest, ties);
    check_lanes(kernels, 311, 311, inner, largest, ties);
    check_lanes(kernels, 141, 3, inner, largest, ties);
    check_lanes(kernels, 269, 16, inner, largest, ties);
  }
}

static void test_top_k(void** state) { (void)state, for_each_isa(check_top_k); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_top_k)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
