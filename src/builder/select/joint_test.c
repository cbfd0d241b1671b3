// Joint selection of layouts: one change of layout where greedy choices make two.
#include "builder/select/joint.h"
#include "builder/select/select_test.h"

enum { RELU, FIRST_CONV, SECOND_CONV };

static carnot_value* conv(carnot_graph* graph, carnot_value* x) {
  carnot_attrs attrs = {.count = 0};
  carnot_attrs_set_ints(&attrs, &graph->arena, "kernel_shape", (const int64_t[]){3, 3}, 2);
  return select_node(graph, CARNOT_OP_CONV, &attrs, x,
                     select_constant(graph, 4, (const int64_t[]){32, 16, 3, 3}));
}

// x [1,16,24,24] -> relu -> convolution -> y, x -> convolution -> z
static carnot_graph* branches(void) {
  carnot_graph* graph;
  assert_null(carnot_graph_create(&graph));
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_F32, .rank = 4};
  const int64_t dims[] = {1, 16, 24, 24};
  for (int d = 0; d < 4; d++) type.dims[d] = carnot_sym_of(dims[d]);
  carnot_value* x = carnot_block_add_param(graph->main, "x", &type);
  carnot_attrs attrs = {.count = 0};
  carnot_attrs_set_int(&attrs, &graph->arena, "fn", CARNOT_FN_RELU);
  carnot_value* r = select_node(graph, CARNOT_OP_UNARY, &attrs, x, NULL);
  carnot_block_add_output(graph->main, conv(graph, r));
  carnot_block_add_output(graph->main, conv(graph, x));
  return graph;
}

// Gives the first candidate of |region| for operands in |layout| |ns|, the others a second, which
// no change of layout takes, whose times are real.
static void set_times_for(select_fixture* f, uint32_t region, carnot_layout layout, uint64_t ns) {
  const carnot_region_facts* r = &f->analysis.regions[region];
  carnot_format* formats = CARNOT_NEW_ARRAY(&f->memory, carnot_format, f->analysis.value_count + 1);
  formats[r->inputs[0]->id] = (carnot_format){.dtype = CARNOT_DTYPE_F32, .layout = layout};
  for (uint32_t i = 1; i < r->input_count; i++)
    if (r->inputs[i]) formats[r->inputs[i]->id].dtype = r->inputs[i]->type.dtype;
  const carnot_situation situation = {
      .formats = formats, .sources = SELECT_ALL_SOURCES, .on_device = true, .allow_timing = true};
  uint32_t set;
  assert_null(
      carnot_enumerate(&f->builder, &f->analysis, &f->candidates, region, &situation, &set));
  const carnot_candidate_set* found = f->candidates.sets[set];
  for (uint32_t i = 0; i < found->count; i++)
    assert_null(carnot_timing_cache_add(f->builder.timing_cache, select_key(f, &found->problem),
                                        found->items[i].tactic->name, i ? 1000000000 : ns));
}

static carnot_assignment select_at(select_fixture* f) {
  carnot_assignment assignment;
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  assert_null(carnot_select(&f->builder, &f->analysis, &f->candidates, &request, &assignment));
  return assignment;
}

static carnot_layout relu_layout(const select_fixture* f, const carnot_assignment* a) {
  return a->formats[f->analysis.regions[RELU].outputs[0]->id].layout;
}

// relu keeps the layout of its operand. Alone it runs on x as it is, and both convolutions change
// their operands; jointly x is changed once.
static void test_one_change_for_two(void** state) {
  (void)state;
  select_fixture f;
  select_open(&f, branches(), 1);  // nothing is timed: as they come
  carnot_assignment a = select_at(&f);
  assert_int_equal(relu_layout(&f, &a), CARNOT_LAYOUT_ROW_MAJOR);
  select_close(&f);
  select_open(&f, branches(), 3);
  for (uint32_t r = RELU; r <= SECOND_CONV; r++)
    for (int layout = 0; layout < CARNOT_LAYOUT_COUNT; layout++)
      set_times_for(&f, r, (carnot_layout)layout, 1000);
  a = select_at(&f);
  assert_int_equal(relu_layout(&f, &a), CARNOT_LAYOUT_CHANNELS_LAST);
  // Selecting again gives the same.
  carnot_assignment b = select_at(&f);
  assert_true(carnot_assignment_equal(&a, &f.candidates, &b));
  select_close(&f);
}

// Where relu is much slower on channels-last operands it stays as it is.
static void test_costs_of_regions_count(void** state) {
  (void)state;
  select_fixture f;
  select_open(&f, branches(), 3);
  for (uint32_t r = RELU; r <= SECOND_CONV; r++)
    for (int layout = 0; layout < CARNOT_LAYOUT_COUNT; layout++)
      set_times_for(&f, r, (carnot_layout)layout,
                    r == RELU && layout == CARNOT_LAYOUT_CHANNELS_LAST ? 100000000 : 1000);
  carnot_assignment a = select_at(&f);
  assert_int_equal(relu_layout(&f, &a), CARNOT_LAYOUT_ROW_MAJOR);
  select_close(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_change_for_two),
                                     cmocka_unit_test(test_costs_of_regions_count)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
