// Greedy selection: the fastest candidate by the cached times, pins, formats that earlier choices
// leave.
#include "builder/select/select_test.h"

enum { MATMUL, SOFTMAX };

static void test_fastest_wins(void** state) {
  (void)state;
  select_fixture probe;
  select_open(&probe, select_matmul_graph(5), 3);
  uint32_t count = select_set(&probe, MATMUL)->count;
  select_close(&probe);
  for (uint32_t fastest = 0; fastest < count; fastest++) {
    select_fixture f;
    carnot_assignment assignment;
    const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
    select_open(&f, select_matmul_graph(5), 3);
    uint32_t set = select_enumerate(&f, MATMUL);
    select_set_times(&f, f.candidates.sets[set], fastest, 5000);
    assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
    assert_int_equal(assignment.region_count, 2);
    assert_int_equal(assignment.regions[MATMUL].set, set);
    assert_int_equal(assignment.regions[MATMUL].candidate, fastest);
    assert_int_equal(assignment.regions[MATMUL].fastest, fastest);
    assert_int_equal(assignment.regions[MATMUL].guarded_count, 0);
    assert_false(assignment.regions[MATMUL].is_late);
    select_close(&f);
  }
}

// At equal times, and without any, the first of the table wins.
static void test_ties(void** state) {
  (void)state;
  for (int level = 0; level <= 3; level += 3) {
    select_fixture f;
    carnot_assignment assignment;
    const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
    select_open(&f, select_matmul_graph(5), level);
    for (uint32_t r = 0; r < 2; r++) select_set_times(&f, select_set(&f, r), UINT32_MAX, 700);
    assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
    for (uint32_t r = 0; r < 2; r++) assert_int_equal(assignment.regions[r].candidate, 0);
    select_close(&f);
  }
}

static void test_pinned_by_region(void** state) {
  (void)state;
  select_fixture f;
  carnot_assignment assignment;
  const carnot_tactic* reference = carnot_tactic_find(CARNOT_REFERENCE_TACTIC);
  const carnot_tactic* pinned[] = {reference, NULL};
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES, .pinned = pinned};
  select_open(&f, select_matmul_graph(5), 3);
  select_set_times(&f, select_set(&f, MATMUL), 0, 5000);
  assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
  assert_string_equal(select_tactic(&f, &assignment, MATMUL), CARNOT_REFERENCE_TACTIC);
  assert_int_equal(assignment.regions[MATMUL].fastest, 0);
  assert_string_not_equal(select_tactic(&f, &assignment, SOFTMAX), CARNOT_REFERENCE_TACTIC);
  // A tactic that is no candidate of the region is not taken.
  pinned[MATMUL] = carnot_tactic_find("cpu_concat");
  assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
  assert_int_equal(assignment.regions[MATMUL].candidate, 0);
  select_close(&f);
}

// x [1,8,9,9] -> convolution -> max pool -> y
static carnot_graph* conv_graph(void) {
  carnot_graph* graph;
  assert_null(carnot_graph_create(&graph));
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_F32, .rank = 4};
  const int64_t dims[] = {1, 8, 9, 9};
  for (int d = 0; d < 4; d++) type.dims[d] = carnot_sym_of(dims[d]);
  carnot_value* x = carnot_block_add_param(graph->main, "x", &type);
  carnot_value* y = select_node(graph, CARNOT_OP_CONV, NULL, x,
                                select_constant(graph, 4, (const int64_t[]){16, 8, 3, 3}));
  carnot_attrs attrs = {.count = 0};
  carnot_attrs_set_ints(&attrs, &graph->arena, "kernel_shape", (const int64_t[]){3, 3}, 2);
  carnot_block_add_output(graph->main, select_node(graph, CARNOT_OP_MAX_POOL, &attrs, y, NULL));
  return graph;
}

// The convolution stores channels-last, and the pool is asked with that format.
static void test_formats_follow_choices(void** state) {
  (void)state;
  select_fixture f;
  carnot_assignment assignment;
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  select_open(&f, conv_graph(), 1);
  assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
  const carnot_region_facts* conv = &f.analysis.regions[0];
  assert_int_equal(assignment.formats[conv->inputs[0]->id].layout, CARNOT_LAYOUT_ROW_MAJOR);
  assert_int_equal(assignment.formats[conv->outputs[0]->id].layout, CARNOT_LAYOUT_CHANNELS_LAST);
  const carnot_candidate_set* pool = f.candidates.sets[assignment.regions[1].set];
  assert_int_equal(pool->inputs[0].layout, CARNOT_LAYOUT_CHANNELS_LAST);
  select_close(&f);
}

static void test_selecting_again(void** state) {
  (void)state;
  select_fixture f;
  carnot_assignment first, second;
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  select_open(&f, select_matmul_graph(5), 3);
  assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &first));
  size_t sets = f.candidates.count;
  assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &second));
  assert_int_equal(f.candidates.count, sets);
  assert_true(carnot_assignment_equal(&first, &f.candidates, &second));
  select_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fastest_wins), cmocka_unit_test(test_ties),
      cmocka_unit_test(test_pinned_by_region), cmocka_unit_test(test_formats_follow_choices),
      cmocka_unit_test(test_selecting_again)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
