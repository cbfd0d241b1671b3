// GEMM of float64 against long double, whole and in parts.
#include "kernel/cpu/gemm/matmul_f64.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t m, n, k, pad;
  bool transposed;  // B
} problem;

static const problem kProblems[] = {
    {1, 1, 1, 0, false},    {3, 7, 0, 2, false},    {8, 24, 16, 0, false},  {17, 25, 33, 1, true},
    {9, 96, 256, 3, false}, {33, 49, 257, 0, true}, {5, 3, 1000, 4, false}, {64, 61, 530, 0, true},
    {2, 191, 31, 0, false}, {40, 12, 300, 5, true},
};

static double* numbers(int64_t count, unsigned seed) {
  double* x = malloc((size_t)(count + 1) * sizeof(double));
  assert_non_null(x);
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (double)seed / 4294967296.0 - 0.5;
  }
  return x;
}

static void check(const carnot_cpu_kernels* kernels, const problem* p) {
  const int64_t lda = p->k + p->pad, ldc = p->n + p->pad;
  double *a = numbers(p->m * lda, 1), *b = numbers(p->k * p->n, 2), *c = numbers(p->m * ldc, 3);
  double *parts = numbers(p->m * ldc, 3), *before = numbers(p->m * ldc, 3);
  double* workspace = numbers(carnot_matmul_f64_workspace(p->k), 4);
  carnot_matmul_f64 matmul = {.k = p->k, .a = a, .lda = lda, .b = b, .c = c, .ldc = ldc};
  matmul.rs = p->transposed ? 1 : p->n, matmul.cs = p->transposed ? p->k : 1;
  matmul.workspace = workspace;
  kernels->matmul_f64(&matmul, 0, p->m, 0, p->n);
  matmul.c = parts;
  const int64_t m = p->m / 2, n = p->n / 3;
  kernels->matmul_f64(&matmul, 0, m, 0, n), kernels->matmul_f64(&matmul, m, p->m, 0, n);
  kernels->matmul_f64(&matmul, 0, m, n, p->n), kernels->matmul_f64(&matmul, m, p->m, n, p->n);
  assert_memory_equal(c, parts, (size_t)(p->m * ldc) * sizeof(double));
  for (int64_t i = 0; i < p->m; ++i)
    for (int64_t j = 0; j < ldc; ++j) {
      if (j >= p->n) {  // nothing is written beside the result
        assert_true(c[i * ldc + j] == before[i * ldc + j]);
        continue;
      }
      long double sum = 0, size = 0;
      for (int64_t k = 0; k < p->k; ++k) {
        const long double term = (long double)a[i * lda + k] * b[k * matmul.rs + j * matmul.cs];
        sum += term, size += fabsl(term);
      }
      assert_true(fabsl(c[i * ldc + j] - sum) <= 0x1p-53L * (long double)(p->k + 1) * size);
    }
  free(a), free(b), free(c), free(parts), free(before), free(workspace);
}

static void check_all(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) check(kernels, &kProblems[i]);
}

static void test_matmul(void** state) { (void)state, for_each_isa(check_all); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_matmul)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
