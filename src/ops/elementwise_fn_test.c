// Element-wise functions at their edges and against the C library.
#include "ops/op_test.h"

static void set_fn(op_test* t, carnot_fn fn) { op_test_int(t, "fn", fn); }

static void test_binary(carnot_dtype dtype, carnot_fn fn, const double* x, const double* y,
                        const double* wanted, int count) {
  op_test t;
  op_test_init(&t);
  set_fn(&t, fn);
  const carnot_rt_value* in[2] = {op_test_tensor(&t, dtype, DIMS(count), x, 0),
                                  op_test_tensor(&t, dtype, DIMS(count), y, 0)};
  op_test_expect(op_test_run1(&t, &carnot_op_binary, 2, in), DIMS(count), wanted, 0);
  op_test_deinit(&t);
}

static void extremes_propagate_nan(void** state) {
  (void)state;
  const double x[] = {NAN, 1, 2, -INFINITY}, y[] = {1, NAN, 3, NAN};
  test_binary(CARNOT_DTYPE_F32, CARNOT_FN_MAX, x, y, LIST(NAN, NAN, 3, NAN), 4);
  test_binary(CARNOT_DTYPE_F16, CARNOT_FN_MIN, x, y, LIST(NAN, NAN, 2, NAN), 4);
  test_binary(CARNOT_DTYPE_F64, CARNOT_FN_MAX, y, x, LIST(NAN, NAN, 3, NAN), 4);
}

static void integers_do_not_trap(void** state) {
  (void)state;
  test_binary(CARNOT_DTYPE_I32, CARNOT_FN_DIV, LIST(7, -7, INT32_MIN, 5), LIST(2, 2, -1, 0),
              LIST(3, -3, INT32_MIN, 0), 4);
  test_binary(CARNOT_DTYPE_I8, CARNOT_FN_DIV, LIST(-128, 100), LIST(-1, 0), LIST(-128, 0), 2);
  test_binary(CARNOT_DTYPE_I32, CARNOT_FN_MOD, LIST(-7, 7, 5), LIST(3, -3, 0), LIST(2, -2, 0), 3);
  test_binary(CARNOT_DTYPE_I32, CARNOT_FN_FMOD, LIST(-7, 7), LIST(3, -3), LIST(-1, 1), 2);
  test_binary(CARNOT_DTYPE_U8, CARNOT_FN_SUB, LIST(1, 200), LIST(2, 100), LIST(255, 100), 2);
  test_binary(CARNOT_DTYPE_U64, CARNOT_FN_LESS, LIST(1, 18446744073709549568.0),
              LIST(18446744073709549568.0, 1), LIST(1, 0), 2);
  test_binary(CARNOT_DTYPE_I8, CARNOT_FN_POW, LIST(2, -1, 3), LIST(3, 5, -1), LIST(8, -1, 0), 3);
}

static void shifts_past_the_width(void** state) {
  (void)state;
  test_binary(CARNOT_DTYPE_U8, CARNOT_FN_SHIFT_LEFT, LIST(129, 1, 1), LIST(1, 8, 70), LIST(2, 0, 0),
              3);
  test_binary(CARNOT_DTYPE_I8, CARNOT_FN_SHIFT_RIGHT, LIST(-2, -2, 5), LIST(1, 9, 8),
              LIST(-1, -1, 0), 3);
}

static void broadcasts_both_ways(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  set_fn(&t, CARNOT_FN_SUB);
  const carnot_rt_value* in[2] = {op_test_floats(&t, DIMS(2, 1, 3), LIST(1, 2, 3, 4, 5, 6)),
                                  op_test_floats(&t, DIMS(2, 1), LIST(10, 20))};
  op_test_expect(op_test_run1(&t, &carnot_op_binary, 2, in), DIMS(2, 2, 3),
                 LIST(-9, -8, -7, -19, -18, -17, -6, -5, -4, -16, -15, -14), 0);
  const carnot_rt_value* unequal[2] = {in[0], op_test_floats(&t, DIMS(2), LIST(1, 2))};
  op_test_refuses(&t, &carnot_op_binary, 2, unequal, CARNOT_INVALID_MODEL);
  op_test_deinit(&t);
}

// Many rows of an odd width: chunks and parts must meet.
static void walks_large_tensors(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  set_fn(&t, CARNOT_FN_ADD);
  enum { kRows = 93, kColumns = 1031 };
  const carnot_rt_value* in[2] = {op_test_floats(&t, DIMS(kRows, kColumns), NULL),
                                  op_test_tensor(&t, CARNOT_DTYPE_F32, DIMS(kRows, 1), NULL, 7)};
  const carnot_tensor* y = op_test_run1(&t, &carnot_op_binary, 2, in);
  for (int64_t i = 0; i < (int64_t)kRows * kColumns; i++) {
    float wanted =
        (float)op_test_at(&in[0]->tensor, i) + (float)op_test_at(&in[1]->tensor, i / kColumns);
    assert_true(op_test_at(y, i) == (double)wanted);
  }
  op_test_deinit(&t);
}

static void clip_with_absent_bounds(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  set_fn(&t, CARNOT_FN_CLIP);
  const carnot_rt_value* in[3] = {op_test_floats(&t, DIMS(4), LIST(-5, 0.5, 9, NAN)), NULL,
                                  op_test_floats(&t, NULL, 0, LIST(2))};
  op_test_expect(op_test_run1(&t, &carnot_op_ternary, 3, in), DIMS(4), LIST(-5, 0.5, 2, NAN), 0);
  op_test_deinit(&t);
}

static void casts(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  op_test_int(&t, "to", CARNOT_DTYPE_I8);
  const carnot_rt_value* in[1] = {
      op_test_floats(&t, DIMS(6), LIST(1.9, -1.9, 300, -300, NAN, INFINITY))};
  op_test_expect(op_test_run1(&t, &carnot_op_cast, 1, in), DIMS(6), LIST(1, -1, 127, -128, 0, 127),
                 0);
  const carnot_rt_value* whole[1] = {
      op_test_tensor(&t, CARNOT_DTYPE_I32, DIMS(2), LIST(200, -129), 0)};
  op_test_expect(op_test_run1(&t, &carnot_op_cast, 1, whole), DIMS(2), LIST(-56, 127), 0);
  op_test_deinit(&t);
}

// [floor(cast(n) * 0.5)] for a symbol n, as exporters write scaled sizes.
static void expressions_pass_through(void** state) {
  (void)state;
  carnot_arena arena;
  carnot_syms syms;
  carnot_arena_init(&arena);
  carnot_syms_init(&syms);
  const carnot_op_row* rows[4] = {&carnot_op_cast, &carnot_op_binary, &carnot_op_unary,
                                  &carnot_op_cast};
  float half = 0.5f;
  carnot_tensor constant = {CARNOT_DTYPE_F32, 0, {0}, &half};
  carnot_type scalar = {CARNOT_VALUE_TENSOR, CARNOT_DTYPE_F32, 0, {{0}}, NULL};
  carnot_type type = {CARNOT_VALUE_TENSOR, CARNOT_DTYPE_I64, 1, {{1}}, NULL};
  carnot_sym n = carnot_sym_new(&syms, "n", 1, 1000);
  const carnot_sym* value = &n;
  for (int i = 0; i < 4; i++) {
    carnot_attrs attrs = {NULL, 0};
    if (i == 0) carnot_attrs_set_int(&attrs, &arena, "to", CARNOT_DTYPE_F32);
    if (i == 1) carnot_attrs_set_int(&attrs, &arena, "fn", CARNOT_FN_MUL);
    if (i == 2) carnot_attrs_set_int(&attrs, &arena, "fn", CARNOT_FN_FLOOR);
    if (i == 3) carnot_attrs_set_int(&attrs, &arena, "to", CARNOT_DTYPE_I64);
    carnot_infer_input in[2] = {{&type, value, 1, NULL}, {&scalar, NULL, 0, &constant}};
    carnot_infer_output out = {.wanted = true};
    carnot_infer infer = {.row = rows[i],
                          .attrs = &attrs,
                          .syms = &syms,
                          .arena = &arena,
                          .input_count = i == 1 ? 2 : 1,
                          .output_count = 1,
                          .inputs = in,
                          .outputs = &out};
    assert_null(rows[i]->infer(&infer));
    assert_non_null(out.syms);
    value = out.syms;
    type = out.type;
  }
  int64_t* values = CARNOT_NEW_ARRAY(&arena, int64_t, syms.count);
  bool* known = CARNOT_NEW_ARRAY(&arena, bool, syms.count);
  int64_t result = 0;
  values[carnot_sym_index(n)] = 15;
  known[carnot_sym_index(n)] = true;
  assert_null(carnot_sym_eval(&syms, value[0], values, known, &result));
  assert_int_equal(result, 7);
  carnot_syms_deinit(&syms);
  carnot_arena_deinit(&arena);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(extremes_propagate_nan),
      cmocka_unit_test(integers_do_not_trap),
      cmocka_unit_test(shifts_past_the_width),
      cmocka_unit_test(broadcasts_both_ways),
      cmocka_unit_test(walks_large_tensors),
      cmocka_unit_test(clip_with_absent_bounds),
      cmocka_unit_test(casts),
      cmocka_unit_test(expressions_pass_through),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
