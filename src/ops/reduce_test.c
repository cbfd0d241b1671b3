// Reductions over axes, empty axes and empty tensors.
#include "ops/op_test.h"

static void reduces(const char* fn, carnot_dtype dtype, const double* values, int64_t count,
                    double wanted) {
  op_test t;
  op_test_init(&t);
  op_test_text(&t, "fn", fn);
  op_test_int(&t, "keepdims", 0);
  const carnot_rt_value* in[1] = {op_test_tensor(&t, dtype, DIMS(count), values, 0)};
  op_test_expect(op_test_run1(&t, &carnot_op_reduce, 1, in), NULL, 0, &wanted, 1e-6);
  op_test_deinit(&t);
}

static void functions(void** state) {
  (void)state;
  const double* x = LIST(1, -2, 3);
  reduces("sum", CARNOT_DTYPE_F32, x, 3, 2);
  reduces("mean", CARNOT_DTYPE_I32, x, 3, 0);
  reduces("max", CARNOT_DTYPE_I8, x, 3, 3);
  reduces("min", CARNOT_DTYPE_F16, x, 3, -2);
  reduces("prod", CARNOT_DTYPE_I64, x, 3, -6);
  reduces("l1", CARNOT_DTYPE_F64, x, 3, 6);
  reduces("l2", CARNOT_DTYPE_F32, x, 3, sqrt(14));
  reduces("sum_square", CARNOT_DTYPE_I32, x, 3, 14);
  reduces("log_sum", CARNOT_DTYPE_F32, x, 3, log(2));
  reduces("log_sum_exp", CARNOT_DTYPE_F32, LIST(1000, 1000), 2, 1000 + log(2));
  reduces("max", CARNOT_DTYPE_F32, LIST(1, NAN, 2), 3, NAN);
  reduces("min", CARNOT_DTYPE_F32, LIST(NAN, 1, 2), 3, NAN);
  reduces("max", CARNOT_DTYPE_U64, LIST(1, 18446744073709549568.0), 2, 18446744073709549568.0);
}

static void identities_of_nothing(void** state) {
  (void)state;
  reduces("sum", CARNOT_DTYPE_F32, LIST(0), 0, 0);
  reduces("prod", CARNOT_DTYPE_I32, LIST(0), 0, 1);
  reduces("max", CARNOT_DTYPE_F32, LIST(0), 0, -INFINITY);
  reduces("min", CARNOT_DTYPE_I8, LIST(0), 0, 127);
  reduces("max", CARNOT_DTYPE_BOOL, LIST(0), 0, 0);
  reduces("log_sum_exp", CARNOT_DTYPE_F32, LIST(0), 0, -INFINITY);
  reduces("mean", CARNOT_DTYPE_F32, LIST(0), 0, NAN);
}

static void axes_of_the_middle(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  op_test_text(&t, "fn", "sum");
  double x[24];
  for (int i = 0; i < 24; i++) x[i] = i;
  const carnot_rt_value* in[2] = {op_test_floats(&t, DIMS(2, 3, 4), x),
                                  op_test_tensor(&t, CARNOT_DTYPE_I64, DIMS(1), LIST(-2), 0)};
  op_test_expect(op_test_run1(&t, &carnot_op_reduce, 2, in), DIMS(2, 1, 4),
                 LIST(12, 15, 18, 21, 48, 51, 54, 57), 0);
  const carnot_rt_value* outer[2] = {in[0],
                                     op_test_tensor(&t, CARNOT_DTYPE_I64, DIMS(2), LIST(2, 0), 0)};
  op_test_expect(op_test_run1(&t, &carnot_op_reduce, 2, outer), DIMS(1, 3, 1), LIST(60, 92, 124),
                 0);
  const carnot_rt_value* wrong[2] = {in[0],
                                     op_test_tensor(&t, CARNOT_DTYPE_I64, DIMS(1), LIST(3), 0)};
  op_test_refuses(&t, &carnot_op_reduce, 2, wrong, CARNOT_INVALID_MODEL);
  op_test_deinit(&t);
}

static void top_k_orders_nan_and_ties(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* in[2] = {op_test_floats(&t, DIMS(6), LIST(3, NAN, 5, 5, -0.0, 0.0)),
                                  op_test_tensor(&t, CARNOT_DTYPE_I64, DIMS(1), LIST(4), 0)};
  carnot_rt_value* out[2];
  op_test_run(&t, &carnot_op_top_k, 2, in, 2, out);
  op_test_expect(&out[0]->tensor, DIMS(4), LIST(NAN, 5, 5, 3), 0);
  op_test_expect(&out[1]->tensor, DIMS(4), LIST(1, 2, 3, 0), 0);
  op_test_int(&t, "largest", 0);
  op_test_run(&t, &carnot_op_top_k, 2, in, 2, out);
  op_test_expect(&out[1]->tensor, DIMS(4), LIST(4, 5, 0, 2), 0);
  const carnot_rt_value* many[2] = {in[0],
                                    op_test_tensor(&t, CARNOT_DTYPE_I64, DIMS(1), LIST(7), 0)};
  op_test_refuses(&t, &carnot_op_top_k, 2, many, CARNOT_INVALID_MODEL);
  op_test_deinit(&t);
}

static void arg_reduce_takes_nan(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  op_test_text(&t, "fn", "min");
  const carnot_rt_value* in[1] = {op_test_floats(&t, DIMS(2, 3), LIST(2, 1, 1, 4, NAN, 3))};
  op_test_int(&t, "axis", 1);
  op_test_expect(op_test_run1(&t, &carnot_op_arg_reduce, 1, in), DIMS(2, 1), LIST(1, 1), 0);
  op_test_int(&t, "select_last_index", 1);
  op_test_expect(op_test_run1(&t, &carnot_op_arg_reduce, 1, in), DIMS(2, 1), LIST(2, 1), 0);
  op_test_deinit(&t);
}

static void softmax_of_large_numbers(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  op_test_int(&t, "axis", 0);
  const carnot_rt_value* in[1] = {op_test_floats(&t, DIMS(2, 2), LIST(1000, -1, 1000, -INFINITY))};
  op_test_expect(op_test_run1(&t, &carnot_op_softmax, 1, in), DIMS(2, 2), LIST(0.5, 1, 0.5, 0),
                 1e-7);
  op_test_deinit(&t);
}

static void unique_counts(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  op_test_int(&t, "sorted", 0);
  const carnot_rt_value* in[1] = {op_test_floats(&t, DIMS(6), LIST(2, NAN, 1, 2, NAN, 3))};
  carnot_rt_value* out[4];
  op_test_run(&t, &carnot_op_unique, 1, in, 4, out);
  op_test_expect(&out[0]->tensor, DIMS(4), LIST(2, NAN, 1, 3), 0);
  op_test_expect(&out[1]->tensor, DIMS(4), LIST(0, 1, 2, 5), 0);
  op_test_expect(&out[2]->tensor, DIMS(6), LIST(0, 1, 2, 0, 1, 3), 0);
  op_test_expect(&out[3]->tensor, DIMS(4), LIST(2, 2, 1, 1), 0);
  op_test_deinit(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions),
                                     cmocka_unit_test(identities_of_nothing),
                                     cmocka_unit_test(axes_of_the_middle),
                                     cmocka_unit_test(top_k_orders_nan_and_ties),
                                     cmocka_unit_test(arg_reduce_takes_nan),
                                     cmocka_unit_test(softmax_of_large_numbers),
                                     cmocka_unit_test(unique_counts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
