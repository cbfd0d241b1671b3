// Guarded variants: another tactic for a part of the sizes, when it is a tenth faster there.
#include "builder/select/select_test.h"

enum { MATMUL, LEAST = 1, OPTIMUM = 64, BETWEEN = 128, GREATEST = 4096 };
// Rows at which candidate 1 is the faster at the least and at the greatest size: up to, and from.
enum { FEW = 4, MANY = 1000 };

// A problem with x's rows and the result's as given: the key of what is timed at an end.
static uint64_t key_at(select_fixture* f, const carnot_problem* problem, int64_t rows) {
  carnot_problem at;
  assert_null(carnot_problem_copy(&f->memory, problem, &at));
  at.inputs[0].dims[0] = at.outputs[0].dims[0] = rows;
  return select_key(f, &at);
}

static void set_times_at(select_fixture* f, const carnot_candidate_set* set, uint32_t best,
                         int64_t rows, uint32_t fastest, uint64_t ns) {
  // The key is of the problem of the chosen candidate, with the formats that it wants.
  uint64_t key = key_at(f, &set->items[best].problem, rows);
  for (uint32_t i = 0; i < set->count; i++)
    assert_null(carnot_timing_cache_add(f->builder.timing_cache, key, set->items[i].tactic->name,
                                        i == fastest ? ns : 1000));
}

static bool refuses_one_row(select_fixture* f, const carnot_candidate* c) {
  carnot_problem one_row;
  char reason[256];
  assert_null(carnot_problem_copy(&f->memory, &c->problem, &one_row));
  one_row.inputs[0].dims[0] = one_row.outputs[0].dims[0] = 1;
  return c->tactic->reject(&one_row, reason, sizeof(reason)) != NULL;
}

// The first candidate that refuses one row, or 0.
static uint32_t refusing(select_fixture* f, const carnot_candidate_set* set) {
  for (uint32_t i = 0; i < set->count; i++)
    if (refuses_one_row(f, &set->items[i])) return i;
  return 0;
}

// The assigned region of the product, whose rows are between 1 and 4096, when candidate 1 takes
// |least| ns up to FEW rows, |greatest| from MANY on and the others 1000 everywhere, candidate 0
// being the fastest at the optimum.
static carnot_assigned_region select_region_on(select_fixture* f, bool any_isa, int level,
                                               uint64_t least, uint64_t greatest) {
  carnot_assignment assignment;
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  carnot_profile_input x = {
      .name = "x", .min = {2, {LEAST, 17}}, .opt = {2, {OPTIMUM, 17}}, .max = {2, {GREATEST, 17}}};
  const carnot_profile profile = {.inputs = &x, .input_count = 1};
  select_open_profile(f, select_matmul_graph(-1), level, &profile);
  if (!any_isa && carnot_isa_includes(f->builder.isa, CARNOT_ISA_AVX512))
    f->builder.isa = CARNOT_ISA_AVX512;  // its tactics take any number of rows
  carnot_candidate_set* set = select_set(f, MATMUL);
  if (set->count >= 2) {
    const uint32_t best = any_isa ? refusing(f, set) : 0;
    select_set_times(f, set, best, 1000);
    for (int64_t rows = LEAST; rows <= GREATEST; rows++)
      if (rows != OPTIMUM)
        set_times_at(f, set, best, rows, 1, rows <= FEW ? least : rows >= MANY ? greatest : 1000);
  }
  assert_null(carnot_select(&f->builder, &f->analysis, &f->candidates, &request, &assignment));
  return assignment.regions[MATMUL];
}

static carnot_assigned_region select_region(select_fixture* f, int level, uint64_t least,
                                            uint64_t greatest) {
  return select_region_on(f, /*any_isa=*/false, level, least, greatest);
}

static void test_none_is_faster(void** state) {
  (void)state;
  select_fixture f;
  carnot_assigned_region region = select_region(&f, 3, 1000, 901);
  assert_int_equal(region.candidate, 0);
  assert_int_equal(region.guarded_count, 0);  // less than a tenth faster
  select_close(&f);
}

static void test_least_end(void** state) {
  (void)state;
  select_fixture f;
  carnot_assigned_region region = select_region(&f, 3, 500, 1000);
  assert_int_equal(region.candidate, 0);
  assert_int_equal(region.guarded_count, 1);
  assert_int_equal(region.guarded[0].candidate, 1);
  const carnot_guard* guard = &region.guarded[0].guard;
  assert_int_equal(guard->operand, 0);
  assert_int_equal(guard->dim, 0);
  assert_int_equal(guard->min, 0);
  assert_int_equal(guard->multiple, 1);
  // Between 1 and 64 rows 8 are timed, then 3: the limit is the geometric mean of 3 and 8.
  assert_int_equal(guard->max, 4);
  select_close(&f);
}

static void test_greatest_end(void** state) {
  (void)state;
  select_fixture f;
  carnot_assigned_region region = select_region(&f, 3, 1000, 500);
  assert_int_equal(region.guarded_count, 1);
  assert_int_equal(region.guarded[0].candidate, 1);
  const carnot_guard* guard = &region.guarded[0].guard;
  assert_true(guard->max == INT64_MAX);
  // Between 128 and 4096 rows 724 are timed, then 1722.
  assert_int_equal(guard->min, 1117);
  select_close(&f);
}

static void test_both_ends(void** state) {
  (void)state;
  select_fixture f;
  carnot_assigned_region region = select_region(&f, 3, 500, 500);
  assert_int_equal(region.guarded_count, 2);
  assert_true(region.guarded[1].guard.max < region.guarded[0].guard.min);
  select_close(&f);
}

// The tactic that is chosen at the optimum refuses one row: another one takes it, however fast.
static void test_refused_end(void** state) {
  (void)state;
  select_fixture f;
  carnot_assigned_region region = select_region_on(&f, /*any_isa=*/true, 3, 1000, 1000);
  const carnot_candidate* best = &f.candidates.sets[region.set]->items[region.candidate];
  bool takes = !refuses_one_row(&f, best);
  if (takes) print_message("skipped: the tactics of this machine take one row\n");
  assert_int_equal(region.guarded_count, takes ? 0 : 1);
  select_close(&f);
}

// A tactic that refuses the optimum, one row, joins at the end that it takes.
static void test_end_alone(void** state) {
  (void)state;
  static const char* const kSplit = "cpu_gemm_split6_f32_amxbf16";
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  carnot_profile_input x = {
      .name = "x", .min = {2, {1, 17}}, .opt = {2, {1, 17}}, .max = {2, {GREATEST, 17}}};
  const carnot_profile profile = {.inputs = &x, .input_count = 1};
  carnot_assignment assignment;
  select_fixture f;
  select_open_profile(&f, select_matmul_graph(-1), 3, &profile);
  carnot_candidate_set* set = select_set(&f, MATMUL);
  if (!carnot_isa_includes(f.builder.isa, CARNOT_ISA_AMX_BF16)) {
    print_message("skipped: the tactics of this machine take one row\n");
    select_close(&f);
    return;
  }
  select_set_times(&f, set, 0, 1000);
  static const int64_t kRows[] = {8, 16, 32, BETWEEN, GREATEST};
  for (int i = 0; i < 5; i++) {
    set_times_at(&f, set, 0, kRows[i], 0, 1000);
    assert_null(carnot_timing_cache_add(f.builder.timing_cache,
                                        key_at(&f, &set->items[0].problem, kRows[i]), kSplit,
                                        kRows[i] > 8 ? 500 : 2000));
  }
  assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
  const carnot_assigned_region* region = &assignment.regions[MATMUL];
  assert_int_equal(region->guarded_count, 1);
  const uint32_t chosen = region->guarded[0].candidate;
  assert_true(chosen >= set->count);
  assert_string_equal(f.candidates.sets[region->set]->items[chosen].tactic->name, kSplit);
  assert_int_equal(region->guarded[0].guard.min, 12);  // behind the geometric mean of 8 and 16
  assert_true(region->guarded[0].guard.max == INT64_MAX);
  select_close(&f);
}

// Without a profile some sizes are timed. Where the tactic that is faster there takes the optimum
// as fast, it is the only one.
static void test_no_profile(void** state) {
  (void)state;
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  for (int equal = 0; equal < 2; equal++) {
    carnot_assignment assignment;
    select_fixture f;
    select_open(&f, select_matmul_graph(-1), 3);
    if (carnot_isa_includes(f.builder.isa, CARNOT_ISA_AVX512)) f.builder.isa = CARNOT_ISA_AVX512;
    carnot_candidate_set* set = select_set(&f, MATMUL);
    if (set->count >= 2) {
      const uint64_t key = select_key(&f, &set->problem);
      for (uint32_t i = 0; i < set->count; i++)
        assert_null(carnot_timing_cache_add(f.builder.timing_cache, key, set->items[i].tactic->name,
                                            i == 0  ? 1000
                                            : equal ? 1010
                                                    : 1500));
      set_times_at(&f, set, 0, 3, 1, 500);
      for (int64_t rows = 8; rows <= BETWEEN; rows *= 4) set_times_at(&f, set, 0, rows, 1, 500);
      set_times_at(&f, set, 0, GREATEST, 1, 500);
      assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
      const carnot_assigned_region* region = &assignment.regions[MATMUL];
      assert_int_equal(region->candidate, equal);
      assert_int_equal(region->guarded_count, !equal);
      if (!equal) {
        assert_int_equal(region->guarded[0].candidate, 1);
        assert_int_equal(region->guarded[0].guard.min, 2);  // behind the geometric mean of 1 and 3
      }
    }
    select_close(&f);
  }
}

// The greatest size is too large to be timed: one below it is.
static void test_too_large(void** state) {
  (void)state;
  enum { MOST = 1 << 22 };
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  carnot_profile_input x = {
      .name = "x", .min = {2, {64, 17}}, .opt = {2, {64, 17}}, .max = {2, {MOST, 17}}};
  const carnot_profile profile = {.inputs = &x, .input_count = 1};
  carnot_assignment assignment;
  select_fixture f;
  select_open_profile(&f, select_matmul_graph(-1), 3, &profile);
  if (carnot_isa_includes(f.builder.isa, CARNOT_ISA_AVX512)) f.builder.isa = CARNOT_ISA_AVX512;
  carnot_candidate_set* set = select_set(&f, MATMUL);
  if (set->count >= 2) {
    select_set_times(&f, set, 0, 1000);
    // 23170 rows are between 128 and the greatest; the others are between those with two winners.
    static const int64_t kRows[] = {BETWEEN, 470, 900, 1722, 23170};
    for (int i = 0; i < 5; i++)
      set_times_at(&f, set, 0, kRows[i], kRows[i] < MANY ? 0 : 1, kRows[i] < MANY ? 1000 : 500);
    assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
    const carnot_assigned_region* region = &assignment.regions[MATMUL];
    assert_int_equal(region->guarded_count, 1);
    assert_int_equal(region->guarded[0].candidate, 1);
    assert_int_equal(region->guarded[0].guard.min, 1245);  // behind the mean of 900 and 1722
  }
  select_close(&f);
}

// The candidate of the optimum, which the other's time shows to be hopeless at the greatest size,
// is not timed there and has no part in it.
static void test_hopeless_optimum(void** state) {
  (void)state;
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  carnot_profile_input x = {
      .name = "x", .min = {2, {64, 17}}, .opt = {2, {64, 17}}, .max = {2, {GREATEST, 17}}};
  const carnot_profile profile = {.inputs = &x, .input_count = 1};
  carnot_assignment assignment;
  select_fixture f;
  select_open_profile(&f, select_matmul_graph(-1), 3, &profile);
  if (carnot_isa_includes(f.builder.isa, CARNOT_ISA_AVX512)) f.builder.isa = CARNOT_ISA_AVX512;
  carnot_candidate_set* set = select_set(&f, MATMUL);
  if (set->count >= 2) {
    select_set_times(&f, set, 0, 1000);
    // 1.1 to 4.6 million operations, which no core does in 500 ns.
    for (int64_t rows = OPTIMUM + 1; rows <= GREATEST; rows++) {
      const uint64_t key = key_at(&f, &set->items[0].problem, rows);
      for (uint32_t i = rows < MANY ? 0 : 1; i < set->count; i++)
        assert_null(carnot_timing_cache_add(f.builder.timing_cache, key, set->items[i].tactic->name,
                                            i == 1 && rows >= MANY ? 500 : 1000));
    }
    assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
    const carnot_assigned_region* region = &assignment.regions[MATMUL];
    assert_int_equal(region->candidate, 0);
    assert_int_equal(region->guarded_count, 1);
    assert_int_equal(region->guarded[0].candidate, 1);
    assert_true(region->guarded[0].guard.max == INT64_MAX);
  }
  select_close(&f);
}

// One kernel's older instruction set is faster where the newer one takes |newer| ns for its 600: at
// one row, the optimum. The region without a profile, or with one.
static carnot_assigned_region select_narrow(select_fixture* f, uint64_t newer, bool has_profile) {
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  carnot_profile_input x = {
      .name = "x", .min = {2, {1, 17}}, .opt = {2, {1, 17}}, .max = {2, {BETWEEN, 17}}};
  const carnot_profile profile = {.inputs = &x, .input_count = 1};
  carnot_assignment assignment = {.region_count = 0};
  select_open_profile(f, select_matmul_graph(-1), 3, has_profile ? &profile : NULL);
  f->builder.isa = CARNOT_ISA_AVX512;
  const carnot_candidate_set* set = select_set(f, MATMUL);
  const uint64_t key = select_key(f, &set->problem);
  for (uint32_t i = 0; i < set->count; i++)
    assert_null(carnot_timing_cache_add(f->builder.timing_cache, key, set->items[i].tactic->name,
                                        i == 0   ? newer
                                        : i == 1 ? 600
                                                 : 9000));
  for (int64_t rows = 2; rows <= GREATEST; rows++) set_times_at(f, set, 0, rows, 0, 500);
  assert_null(carnot_select(&f->builder, &f->analysis, &f->candidates, &request, &assignment));
  return assignment.regions[MATMUL];
}

static void test_narrow_optimum(void** state) {
  (void)state;
  select_fixture f;
  if (!carnot_isa_includes(carnot_isa_of_machine(), CARNOT_ISA_AVX512)) {
    print_message("skipped: this machine has one instruction set of them\n");
    return;
  }
  for (int i = 0; i < 3; i++) {
    const bool has_profile = i == 1, is_far = i == 2;
    const carnot_assigned_region region = select_narrow(&f, is_far ? 1300 : 1000, has_profile);
    assert_int_equal(region.candidate, has_profile || is_far);
    assert_int_equal(region.guarded_count, has_profile || is_far);
    select_close(&f);
  }
}

// x [batch,sequence,17] -> matmul with [17,33] -> softmax -> y.
static carnot_graph* two_dimensions_graph(void) {
  carnot_graph* graph;
  assert_null(carnot_graph_create(&graph));
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_F32, .rank = 3};
  type.dims[0] = carnot_sym_new(&graph->syms, "batch", 1, INT64_MAX);
  type.dims[1] = carnot_sym_new(&graph->syms, "sequence", 1, INT64_MAX);
  type.dims[2] = carnot_sym_of(17);
  carnot_value* x = carnot_block_add_param(graph->main, "x", &type);
  carnot_value* product = select_node(graph, CARNOT_OP_MATMUL, NULL, x,
                                      select_constant(graph, 2, (const int64_t[]){17, 33}));
  carnot_block_add_output(graph->main, select_node(graph, CARNOT_OP_SOFTMAX, NULL, product, NULL));
  return graph;
}

// Candidate 1 takes |ns| at a size, the others 1000.
static void set_times_at_two(select_fixture* f, const carnot_candidate_set* set, int64_t batch,
                             int64_t sequence, uint64_t ns) {
  carnot_problem at;
  assert_null(carnot_problem_copy(&f->memory, &set->items[0].problem, &at));
  at.inputs[0].dims[0] = at.outputs[0].dims[0] = batch;
  at.inputs[0].dims[1] = at.outputs[0].dims[1] = sequence;
  for (uint32_t i = 0; i < set->count; i++)
    assert_null(carnot_timing_cache_add(f->builder.timing_cache, select_key(f, &at),
                                        set->items[i].tactic->name, i == 1 ? ns : 1000));
}

// One of two dimensions alone decides.
static void test_deciding_dimension(void** state) {
  (void)state;
  static const int64_t kSizes[] = {1, 8, 16, 32, BETWEEN};
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  select_fixture f;
  carnot_assignment assignment;
  select_open(&f, two_dimensions_graph(), 3);
  if (!carnot_isa_includes(f.builder.isa, CARNOT_ISA_AVX512)) {
    print_message("skipped: without AVX-512 there is one candidate\n");
    select_close(&f);
    return;
  }
  f.builder.isa = CARNOT_ISA_AVX512;
  const carnot_candidate_set* set = select_set(&f, MATMUL);
  select_set_times(&f, set, 0, 1000);
  for (int b = 0; b < 5; b++)
    for (int s = b == 0; s < 5; s++)
      set_times_at_two(&f, set, kSizes[b], kSizes[s], kSizes[s] > 8 ? 500 : 3000);
  assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
  const carnot_assigned_region* region = &assignment.regions[MATMUL];
  assert_int_equal(region->candidate, 0);
  assert_int_equal(region->guarded_count, 1);
  assert_int_equal(region->guarded[0].candidate, 1);
  assert_int_equal(region->guarded[0].guard.dim, 1);
  assert_int_equal(region->guarded[0].guard.min, 12);  // behind the geometric mean of 8 and 16
  select_close(&f);
}

// Where several dimensions are open the guard is on their product.
static void test_two_open_dimensions(void** state) {
  (void)state;
  const carnot_select_request request = {.sources = SELECT_ALL_SOURCES};
  select_fixture f;
  carnot_assignment assignment;
  select_open(&f, two_dimensions_graph(), 3);
  if (carnot_isa_includes(f.builder.isa, CARNOT_ISA_AVX512)) f.builder.isa = CARNOT_ISA_AVX512;
  carnot_candidate_set* set = select_set(&f, MATMUL);
  if (!carnot_isa_includes(f.builder.isa, CARNOT_ISA_AVX512)) {
    print_message(
        "skipped: without AVX-512 a measured layout change may outweigh the made-up times\n");
    select_close(&f);
    return;
  }
  if (set->count >= 2) {
    select_set_times(&f, set, 0, 1000);
    static const int64_t kSizes[] = {2, 3, 8, 32, BETWEEN};
    for (int s = 0; s < 5; s++) {
      set_times_at_two(&f, set, kSizes[s], kSizes[s], 500);
      set_times_at_two(&f, set, 1, kSizes[s], 500);
      set_times_at_two(&f, set, kSizes[s], 1, 500);
    }
    assert_null(carnot_select(&f.builder, &f.analysis, &f.candidates, &request, &assignment));
    const carnot_assigned_region* region = &assignment.regions[MATMUL];
    assert_int_equal(region->guarded_count, 1);
    assert_int_equal(region->guarded[0].candidate, 1);
    const carnot_guard* guard = &region->guarded[0].guard;
    assert_int_equal(guard->dim, CARNOT_GUARD_ELEMENTS);
    // Behind the geometric mean of 1x1x17 and 2x2x17.
    assert_int_equal(guard->min, 2 * 17 + 1);
    const int64_t below[] = {1, 2, 17}, above[] = {1, 3, 17};
    assert_false(carnot_guard_holds(guard, below, 3));
    assert_true(carnot_guard_holds(guard, above, 3));
  }
  select_close(&f);
}

static void test_low_levels(void** state) {
  (void)state;
  for (int level = 0; level < 3; level++) {
    select_fixture f;
    assert_int_equal(select_region(&f, level, 500, 500).guarded_count, 0);
    select_close(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_none_is_faster),      cmocka_unit_test(test_least_end),
      cmocka_unit_test(test_greatest_end),        cmocka_unit_test(test_both_ends),
      cmocka_unit_test(test_refused_end),         cmocka_unit_test(test_end_alone),
      cmocka_unit_test(test_narrow_optimum),      cmocka_unit_test(test_deciding_dimension),
      cmocka_unit_test(test_two_open_dimensions), cmocka_unit_test(test_no_profile),
      cmocka_unit_test(test_too_large),           cmocka_unit_test(test_hopeless_optimum),
      cmocka_unit_test(test_low_levels)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
