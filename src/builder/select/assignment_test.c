// Assignments: what makes two equal, and that equal ones have equal hashes.
#include "builder/select/select_test.h"

enum { MATMUL, SOFTMAX };

static carnot_assignment select_with(select_fixture* f, const carnot_tactic* matmul) {
  carnot_assignment assignment;
  const carnot_tactic* pinned[] = {matmul, NULL};
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES, .pinned = pinned};
  assert_null(carnot_select(&f->builder, &f->analysis, &f->candidates, &request, &assignment));
  return assignment;
}

static void open_with_times(select_fixture* f) {
  select_open(f, select_matmul_graph(5), 3);
  for (uint32_t r = 0; r < 2; r++) select_set_times(f, select_set(f, r), 0, 1000);
}

static void test_empty(void** state) {
  (void)state;
  select_fixture f;
  carnot_assignment a;
  select_open(&f, select_matmul_graph(5), 0);
  assert_null(carnot_assignment_create(&f.memory, &f.analysis, &a));
  assert_int_equal(a.region_count, f.analysis.region_count);
  assert_int_equal(a.value_count, f.analysis.value_count);
  select_close(&f);
}

static void test_tactics_count(void** state) {
  (void)state;
  select_fixture f;
  open_with_times(&f);
  carnot_assignment a = select_with(&f, NULL), b = select_with(&f, NULL),
                    other = select_with(&f, carnot_tactic_find(CARNOT_REFERENCE_TACTIC));
  assert_true(carnot_assignment_equal(&a, &f.candidates, &b));
  assert_true(carnot_assignment_hash(&a, &f.candidates) ==
              carnot_assignment_hash(&b, &f.candidates));
  assert_false(carnot_assignment_equal(&a, &f.candidates, &other));
  assert_true(carnot_assignment_hash(&a, &f.candidates) !=
              carnot_assignment_hash(&other, &f.candidates));
  // What was fastest when timed alone is no decision.
  b.regions[MATMUL].fastest = 1;
  assert_true(carnot_assignment_equal(&a, &f.candidates, &b));
  assert_true(carnot_assignment_hash(&a, &f.candidates) ==
              carnot_assignment_hash(&b, &f.candidates));
  select_close(&f);
}

static void test_formats_count(void** state) {
  (void)state;
  select_fixture f;
  open_with_times(&f);
  carnot_assignment a = select_with(&f, NULL), b = select_with(&f, NULL);
  b.formats[f.analysis.regions[MATMUL].outputs[0]->id].layout = CARNOT_LAYOUT_CHANNELS_LAST;
  assert_false(carnot_assignment_equal(&a, &f.candidates, &b));
  assert_true(carnot_assignment_hash(&a, &f.candidates) !=
              carnot_assignment_hash(&b, &f.candidates));
  select_close(&f);
}

static void test_guards_count(void** state) {
  (void)state;
  select_fixture f;
  open_with_times(&f);
  carnot_assignment a = select_with(&f, NULL), b = select_with(&f, NULL);
  const carnot_guard guard = {.min = 1, .max = 8, .multiple = 1};
  a.regions[MATMUL].guarded_count = 1;
  a.regions[MATMUL].guarded[0].candidate = 1;
  a.regions[MATMUL].guarded[0].guard = guard;
  assert_false(carnot_assignment_equal(&a, &f.candidates, &b));
  b.regions[MATMUL] = a.regions[MATMUL];
  assert_true(carnot_assignment_equal(&a, &f.candidates, &b));
  b.regions[MATMUL].guarded[0].guard.max = 9;
  assert_false(carnot_assignment_equal(&a, &f.candidates, &b));
  assert_true(carnot_assignment_hash(&a, &f.candidates) !=
              carnot_assignment_hash(&b, &f.candidates));
  b.regions[MATMUL].guarded[0].guard = guard;
  b.regions[MATMUL].guarded[0].candidate = 0;
  assert_false(carnot_assignment_equal(&a, &f.candidates, &b));
  select_close(&f);
}

// Two builds of one graph come to the same hash.
static void test_hash_across_builds(void** state) {
  (void)state;
  uint64_t hashes[2];
  for (int i = 0; i < 2; i++) {
    select_fixture f;
    open_with_times(&f);
    carnot_assignment a = select_with(&f, NULL);
    hashes[i] = carnot_assignment_hash(&a, &f.candidates);
    select_close(&f);
  }
  assert_true(hashes[0] == hashes[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_empty), cmocka_unit_test(test_tactics_count),
      cmocka_unit_test(test_formats_count), cmocka_unit_test(test_guards_count),
      cmocka_unit_test(test_hash_across_builds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
