// Systems with and without an inverse, and factors of matrices that are positive definite or not.
#include "ops/op_test.h"

static void solves(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* in[2] = {op_test_floats(&t, DIMS(2, 2, 2), LIST(0, 2, 1, 0, 2, 1, 1, 1)),
                                  op_test_floats(&t, DIMS(2, 2, 1), LIST(4, 3, 3, 2))};
  op_test_expect(op_test_run1(&t, &carnot_op_solve, 2, in), DIMS(2, 2, 1), LIST(3, 2, 1, 1), 1e-7);
  op_test_expect(op_test_run1(&t, &carnot_op_solve, 1, in), DIMS(2, 2, 2),
                 LIST(0, 1, 0.5, 0, 1, -1, -1, 2), 1e-7);
  op_test_deinit(&t);
}

static void nothing(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* in[2] = {op_test_floats(&t, DIMS(0, 2, 2), LIST(0)),
                                  op_test_floats(&t, DIMS(0, 2, 3), LIST(0))};
  op_test_expect(op_test_run1(&t, &carnot_op_solve, 2, in), DIMS(0, 2, 3), LIST(0), 0);
  op_test_deinit(&t);
}

static void factors(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* in[1] = {op_test_tensor(&t, CARNOT_DTYPE_F64, DIMS(3, 3),
                                                 LIST(4, 99, 99, 12, 37, 99, -16, -43, 98), 0)};
  op_test_expect(op_test_run1(&t, &carnot_op_cholesky, 1, in), DIMS(3, 3),
                 LIST(2, 0, 0, 6, 1, 0, -8, 5, 3), 1e-12);
  op_test_deinit(&t);
}

static void refused(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* singular[1] = {op_test_floats(&t, DIMS(2, 2), LIST(1, 2, 2, 4))};
  const carnot_rt_value* indefinite[1] = {op_test_floats(&t, DIMS(2, 2), LIST(1, 2, 2, 1))};
  const carnot_rt_value* oblong[1] = {op_test_floats(&t, DIMS(2, 3), NULL)};
  const carnot_rt_value* differ[2] = {op_test_floats(&t, DIMS(2, 2), NULL),
                                      op_test_floats(&t, DIMS(3, 1), NULL)};
  op_test_refuses(&t, &carnot_op_solve, 1, singular, CARNOT_INVALID_ARGUMENT);
  op_test_refuses(&t, &carnot_op_cholesky, 1, indefinite, CARNOT_INVALID_ARGUMENT);
  op_test_refuses(&t, &carnot_op_solve, 1, oblong, CARNOT_INVALID_MODEL);
  op_test_refuses(&t, &carnot_op_cholesky, 1, oblong, CARNOT_INVALID_MODEL);
  op_test_refuses(&t, &carnot_op_solve, 2, differ, CARNOT_INVALID_MODEL);
  op_test_deinit(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(solves), cmocka_unit_test(nothing),
                                     cmocka_unit_test(factors), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
