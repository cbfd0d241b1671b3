// MatMul, Gemm: broadcast batches, transposed operands, alpha and beta.
#include "ops/op_test.h"

// a[b] times b[0] for [B,m,k] and [1,k,n], against sums in double; sizes cross the blocks of the
// product.
static void check(carnot_dtype dtype, int64_t batch, int64_t m, int64_t k, int64_t n, bool swap_a,
                  bool swap_b, double tolerance) {
  op_test t;
  op_test_init(&t);
  op_test_int(&t, "transA", swap_a);
  op_test_int(&t, "transB", swap_b);
  int64_t a_dims[3] = {batch, swap_a ? k : m, swap_a ? m : k};
  int64_t b_dims[3] = {1, swap_b ? n : k, swap_b ? k : n};
  const carnot_rt_value* in[2] = {op_test_tensor(&t, dtype, a_dims, 3, NULL, 3),
                                  op_test_tensor(&t, dtype, b_dims, 3, NULL, 4)};
  const carnot_tensor* y = op_test_run1(&t, &carnot_op_matmul, 2, in);
  assert_int_equal(carnot_tensor_count(y), batch * m * n);
  for (int64_t i = 0; i < batch * m * n; i++) {
    int64_t s = i / (m * n), row = i / n % m, column = i % n;
    double sum = 0;
    for (int64_t p = 0; p < k; p++) {
      sum += op_test_at(&in[0]->tensor, s * m * k + (swap_a ? p * m + row : row * k + p)) *
             op_test_at(&in[1]->tensor, swap_b ? column * k + p : p * n + column);
    }
    if (fabs(sum - op_test_at(y, i)) > tolerance) {
      fail_msg("element %lld is %g, wanted %g", (long long)i, op_test_at(y, i), sum);
    }
  }
  op_test_deinit(&t);
}

static void products(void** state) {
  (void)state;
  check(CARNOT_DTYPE_F32, 1, 1, 1, 1, false, false, 1e-5);
  check(CARNOT_DTYPE_F32, 2, 131, 300, 67, false, false, 1e-4);
  check(CARNOT_DTYPE_F32, 3, 7, 513, 17, true, true, 1e-4);
  check(CARNOT_DTYPE_F64, 1, 9, 257, 19, false, true, 1e-12);
  check(CARNOT_DTYPE_F16, 1, 5, 40, 33, true, false, 2e-2);
  check(CARNOT_DTYPE_F32, 1, 4, 0, 3, false, false, 0);
}

static void integers_wrap(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* in[2] = {
      op_test_tensor(&t, CARNOT_DTYPE_I32, DIMS(1, 2), LIST(INT32_MAX, 2), 0),
      op_test_tensor(&t, CARNOT_DTYPE_I32, DIMS(2, 1), LIST(2, 3), 0)};
  op_test_expect(op_test_run1(&t, &carnot_op_matmul, 2, in), DIMS(1, 1), LIST(4), 0);
  op_test_deinit(&t);
}

static void vectors_lose_their_dimension(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* row[2] = {op_test_floats(&t, DIMS(2), LIST(1, 2)),
                                   op_test_floats(&t, DIMS(2, 3), LIST(1, 2, 3, 4, 5, 6))};
  op_test_expect(op_test_run1(&t, &carnot_op_matmul, 2, row), DIMS(3), LIST(9, 12, 15), 0);
  const carnot_rt_value* dot[2] = {row[0], row[0]};
  op_test_expect(op_test_run1(&t, &carnot_op_matmul, 2, dot), NULL, 0, LIST(5), 0);
  const carnot_rt_value* unequal[2] = {row[1], row[1]};
  op_test_refuses(&t, &carnot_op_matmul, 2, unequal, CARNOT_INVALID_MODEL);
  op_test_deinit(&t);
}

static void gemm_adds_c(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  carnot_attrs_set_float(&t.attrs, &t.arena, "alpha", 2);
  carnot_attrs_set_float(&t.attrs, &t.arena, "beta", 0.5);
  const carnot_rt_value* in[3] = {op_test_floats(&t, DIMS(1, 2), LIST(1, 2)),
                                  op_test_floats(&t, DIMS(2, 2), LIST(1, 2, 3, 4)),
                                  op_test_floats(&t, DIMS(2), LIST(10, 20))};
  op_test_expect(op_test_run1(&t, &carnot_op_gemm, 3, in), DIMS(1, 2), LIST(19, 30), 0);
  op_test_deinit(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(integers_wrap),
                                     cmocka_unit_test(vectors_lose_their_dimension),
                                     cmocka_unit_test(gemm_adds_c)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
