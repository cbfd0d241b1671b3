// Tables by number and by text, keys that are not there, types that do not fit.
#include "ops/op_test.h"

static carnot_rt_value* texts(op_test* t, const char* const* values, int count) {
  carnot_rt_value* cell = CARNOT_NEW(&t->arena, carnot_rt_value);
  cell->kind = CARNOT_VALUE_TENSOR;
  cell->tensor = (carnot_tensor){.dtype = CARNOT_DTYPE_STRING, .rank = 1, .dims = {count}};
  carnot_strview* to = CARNOT_NEW_ARRAY(&t->arena, carnot_strview, (size_t)count + 1);
  for (int i = 0; i < count; i++) to[i] = carnot_view(values[i]);
  cell->tensor.data = to;
  return cell;
}

static void numbers(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* in[4] = {
      op_test_tensor(&t, CARNOT_DTYPE_I64, DIMS(2, 3), LIST(-4, 7, 0, 8, 2, -5), 0),
      op_test_tensor(&t, CARNOT_DTYPE_I64, DIMS(4), LIST(-4, 0, 2, 7), 0),
      op_test_floats(&t, DIMS(4), LIST(1.5, 2.5, 3.5, 4.5)), op_test_floats(&t, NULL, 0, LIST(9))};
  op_test_expect(op_test_run1(&t, &carnot_op_lookup, 4, in), DIMS(2, 3),
                 LIST(1.5, 4.5, 2.5, 9, 3.5, 9), 0);
  op_test_deinit(&t);
}

static void nothing(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* in[4] = {op_test_tensor(&t, CARNOT_DTYPE_I32, DIMS(2), LIST(1, 2), 0),
                                  op_test_tensor(&t, CARNOT_DTYPE_I32, DIMS(0), LIST(0), 0),
                                  op_test_floats(&t, DIMS(0), LIST(0)),
                                  op_test_floats(&t, NULL, 0, LIST(3))};
  op_test_expect(op_test_run1(&t, &carnot_op_lookup, 4, in), DIMS(2), LIST(3, 3), 0);
  op_test_deinit(&t);
}

static void texts_by_bytes(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const char *const keys[] = {"", "a", "ab", "b", "\xc3\xa9"}, *const asked[] = {"ab", "\xc3\xa9",
                                                                                 "aa", "", "c"};
  const carnot_rt_value* in[4] = {
      texts(&t, asked, 5), texts(&t, keys, 5),
      op_test_tensor(&t, CARNOT_DTYPE_I64, DIMS(5), LIST(0, 1, 2, 3, 4), 0),
      op_test_tensor(&t, CARNOT_DTYPE_I64, DIMS(1), LIST(-1), 0)};
  op_test_expect(op_test_run1(&t, &carnot_op_lookup, 4, in), DIMS(5), LIST(2, 4, -1, 0, -1), 0);
  op_test_deinit(&t);
}

static void refuses(carnot_dtype x, int64_t keys, int64_t values, carnot_dtype absent) {
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* in[4] = {op_test_tensor(&t, x, DIMS(2), LIST(0, 1), 0),
                                  op_test_tensor(&t, CARNOT_DTYPE_I64, DIMS(keys), NULL, 1),
                                  op_test_tensor(&t, CARNOT_DTYPE_F32, DIMS(values), NULL, 1),
                                  op_test_tensor(&t, absent, NULL, 0, LIST(0), 0)};
  op_test_refuses(&t, &carnot_op_lookup, 4, in, CARNOT_INVALID_MODEL);
  op_test_deinit(&t);
}

static void refused(void** state) {
  (void)state;
  refuses(CARNOT_DTYPE_I32, 2, 2, CARNOT_DTYPE_F32);
  refuses(CARNOT_DTYPE_I64, 2, 3, CARNOT_DTYPE_F32);
  refuses(CARNOT_DTYPE_I64, 2, 2, CARNOT_DTYPE_I64);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(numbers), cmocka_unit_test(nothing),
                                     cmocka_unit_test(texts_by_bytes), cmocka_unit_test(refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
