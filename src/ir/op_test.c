// Operator rows and element-wise functions: the facts that passes rely on are consistent.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>

#include "ir/op.h"

static bool implies(unsigned traits, unsigned a, unsigned b) {
  return !(traits & a) || (traits & b);
}

static void rows_are_complete(void** state) {
  (void)state;
  for (int op = 0; op < CARNOT_OP_COUNT; op++) {
    const carnot_op_row* row = carnot_op_get((carnot_op)op);
    assert_non_null(row->name);
    assert_non_null(row->infer);
    assert_non_null(row->reference);
    assert_int_equal(carnot_op_find((carnot_strview){row->name, strlen(row->name)}), op);
    if (row->max_inputs >= 0) assert_true(row->min_inputs <= row->max_inputs);
    if (row->max_outputs >= 0) assert_true(row->min_outputs <= row->max_outputs);
  }
}

static void traits_are_consistent(void** state) {
  (void)state;
  for (int op = 0; op < CARNOT_OP_COUNT; op++) {
    const carnot_op_row* row = carnot_op_get((carnot_op)op);
    unsigned t = row->traits;
    bool consistent = implies(t, CARNOT_TRAIT_VIEW, CARNOT_TRAIT_MOVES_DATA) &&
                      implies(t, CARNOT_TRAIT_F32_AS_HALF, CARNOT_TRAIT_HALF_AS_F32) &&
                      implies(t, CARNOT_TRAIT_CONTRACTION, CARNOT_TRAIT_HALF_AS_F32) &&
                      implies(t, CARNOT_TRAIT_ELEMENTWISE, CARNOT_TRAIT_HALF_AS_F32) &&
                      !((t & CARNOT_TRAIT_CONTRACTION) && (t & CARNOT_TRAIT_MOVES_DATA)) &&
                      !(t && (row->flags & CARNOT_OP_CONTROL)) &&
                      (row->max_inputs < 0 || row->sized_by <= row->max_inputs);
    if (!consistent) fail_msg("%s has traits %#x, sized_by %d", row->name, t, row->sized_by);
  }
}

static void elementwise_operators_have_functions(void** state) {
  (void)state;
  for (int op = 0; op < CARNOT_OP_COUNT; op++) {
    const carnot_op_row* row = carnot_op_get((carnot_op)op);
    if (!(row->traits & CARNOT_TRAIT_ELEMENTWISE)) continue;
    int found = 0;
    for (int fn = 0; fn < CARNOT_FN_COUNT; fn++)
      found += carnot_fn_get((carnot_fn)fn)->arity == row->max_inputs;
    assert_true(found > 0);
  }
}

// A text attribute of |spec| alone.
static carnot_status* check_word(const carnot_op_row* row, const carnot_attr_spec* spec,
                                 const char* text) {
  carnot_attr_spec list[2] = {*spec};
  carnot_op_row one = {.name = row->name, .attrs = list};
  carnot_attr attr = {.name = spec->name, .type = CARNOT_ATTR_STRING, .s = carnot_view(text)};
  return carnot_attrs_check(&one, &(carnot_attrs){.items = &attr, .count = 1});
}

static void words_of_attributes_are_checked(void** state) {
  (void)state;
  int lists = 0;
  for (int op = 0; op < CARNOT_OP_COUNT; op++) {
    const carnot_op_row* row = carnot_op_get((carnot_op)op);
    for (const carnot_attr_spec* spec = row->attrs; spec && spec->name; spec++) {
      if (!spec->words) continue;
      lists++;
      if (spec->text) assert_null(check_word(row, spec, spec->text));
      carnot_status* status = check_word(row, spec, "no_such_word");
      assert_non_null(status);
      assert_non_null(strstr(carnot_status_message(status), spec->name));
      assert_non_null(strstr(carnot_status_message(status), "\"no_such_word\""));
      assert_non_null(strstr(carnot_status_message(status), spec->words));
      carnot_status_free(status);
      status = check_word(row, spec, "");
      assert_non_null(status);
      carnot_status_free(status);
    }
  }
  assert_true(lists > 20);
}

static void sizing_inputs(void** state) {
  (void)state;
  assert_int_equal(carnot_op_first_sizing_input(CARNOT_OP_RESHAPE), 1);
  assert_int_equal(carnot_op_first_sizing_input(CARNOT_OP_RANGE), 0);
  assert_int_equal(carnot_op_first_sizing_input(CARNOT_OP_MATMUL), -1);
  assert_true(carnot_op_wants_dims(CARNOT_OP_SHAPE));
  assert_false(carnot_op_wants_dims(CARNOT_OP_RESHAPE));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_complete),
      cmocka_unit_test(traits_are_consistent),
      cmocka_unit_test(elementwise_operators_have_functions),
      cmocka_unit_test(words_of_attributes_are_checked),
      cmocka_unit_test(sizing_inputs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
