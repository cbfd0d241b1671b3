// The registry: its index gives what a scan of the table gives, and names are unique.
// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <string.h>

#include "tactic/tactic.h"

static bool is_anchored(const carnot_tactic* tactic, const carnot_region* region) {
  if (tactic->anchor == CARNOT_OP_COUNT) return true;
  for (uint32_t i = 0; i < region->node_count; i++)
    if (region->nodes[i].op == tactic->anchor) return true;
  return false;
}

static void check_against_scan(const carnot_region* region) {
  size_t count;
  const carnot_tactic* const* table = carnot_tactics(/*backend=*/false, &count);
  carnot_tactic_iterator found = carnot_tactics_for(region, /*backend=*/false);
  for (size_t i = 0; i < count; i++)
    if (is_anchored(table[i], region)) assert_ptr_equal(carnot_tactic_next(&found), table[i]);
  assert_null(carnot_tactic_next(&found));
  assert_null(carnot_tactic_next(&found));
}

static void test_index_is_a_scan(void** state) {
  (void)state;
  for (int a = 0; a < CARNOT_OP_COUNT; a++) {
    carnot_plan_node nodes[] = {{.op = (carnot_op)a}, {.op = CARNOT_OP_CONV}, {.op = (carnot_op)a}};
    check_against_scan(&(carnot_region){.node_count = 1, .nodes = nodes});
    check_against_scan(&(carnot_region){.node_count = 3, .nodes = nodes});
  }
}

static void test_reference_is_last(void** state) {
  (void)state;
  size_t count;
  const carnot_tactic* const* table = carnot_tactics(/*backend=*/false, &count);
  assert_true(count > 1 && count <= CARNOT_MAX_TACTICS);
  assert_string_equal(table[count - 1]->name, CARNOT_REFERENCE_TACTIC);
  assert_int_equal(table[count - 1]->anchor, CARNOT_OP_COUNT);
}

static void test_names(void** state) {
  (void)state;
  size_t count;
  const carnot_tactic* const* table = carnot_tactics(/*backend=*/false, &count);
  // A name that stood twice would find one of the two.
  for (size_t i = 0; i < count; i++) assert_ptr_equal(carnot_tactic_find(table[i]->name), table[i]);
  assert_null(carnot_tactic_find(""));
  assert_null(carnot_tactic_find("cpu_"));
  assert_null(carnot_tactic_find("zzz"));
}

// The names that the builder and the runtime look up.
static void test_named_tactics(void** state) {
  (void)state;
  assert_non_null(carnot_tactic_find(CARNOT_VIEW_TACTIC));
  assert_non_null(carnot_tactic_find(CARNOT_HOST_REFORMAT_TACTIC));
}

static void test_rows(void** state) {
  (void)state;
  size_t count;
  const carnot_tactic* const* table = carnot_tactics(/*backend=*/false, &count);
  for (size_t i = 0; i < count; i++) {
    const carnot_tactic* t = table[i];
    assert_non_null(t->reject);
    assert_true((unsigned)t->isa < CARNOT_ISA_COUNT);
    assert_true((unsigned)t->numerics < CARNOT_NUMERICS_COUNT);
    assert_false(t->device);
    // Arithmetic in half precision and its class go together.
    bool is_half = t->precision == CARNOT_DTYPE_F16 || t->precision == CARNOT_DTYPE_BF16;
    assert_int_equal(is_half, t->numerics == CARNOT_NUMERICS_HALF);
  }
}

static void test_no_backend(void** state) {
  (void)state;
  size_t count;
  carnot_tactics(/*backend=*/true, &count);
  assert_int_equal(count, 0);
  carnot_plan_node node = {.op = CARNOT_OP_CONV};
  carnot_tactic_iterator none =
      carnot_tactics_for(&(carnot_region){.node_count = 1, .nodes = &node}, /*backend=*/true);
  assert_null(carnot_tactic_next(&none));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_index_is_a_scan),
                                     cmocka_unit_test(test_reference_is_last),
                                     cmocka_unit_test(test_names),
                                     cmocka_unit_test(test_named_tactics),
                                     cmocka_unit_test(test_rows),
                                     cmocka_unit_test(test_no_backend)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
