// Candidate sets: which tactics join, at which level, and that sets are enumerated and timed once.
#include "builder/measure/cost_model.h"
#include "builder/select/select_test.h"

enum { MATMUL, SOFTMAX };

static uint32_t index_of(const carnot_candidate_set* set, const char* tactic) {
  uint32_t at = 0;
  while (at < set->count && strcmp(set->items[at].tactic->name, tactic) != 0) at++;
  return at;
}

static void test_levels(void** state) {
  (void)state;
  uint32_t counts[6];
  for (int level = 0; level <= 5; level++) {
    select_fixture f;
    select_open(&f, select_matmul_graph(5), level);
    const carnot_candidate_set* set = select_set(&f, MATMUL);
    counts[level] = set->count;
    for (uint32_t i = 0; i < set->count; i++) {
      assert_true(carnot_isa_includes(f.builder.isa, set->items[i].tactic->isa));
      assert_false(set->items[i].tactic->numerics == CARNOT_NUMERICS_HALF);
      assert_true(set->items[i].ns == UINT64_MAX);
    }
    // The reference joins wherever candidates are timed, in case the others refuse.
    assert_int_equal(index_of(set, CARNOT_REFERENCE_TACTIC) < set->count, level >= 2);
    select_close(&f);
  }
  assert_int_equal(counts[0], 1);
  assert_int_equal(counts[1], 1);
  assert_true(counts[2] > 1);
  assert_int_equal(counts[2], counts[3]);
  assert_true(counts[4] >= counts[3]);
  assert_true(counts[5] >= counts[4]);
}

static bool has_matmul(const carnot_candidate_set* set) {
  static const char kName[] = "cpu_matmul_f32";
  bool has = false;
  for (uint32_t i = 0; i < set->count; i++)
    has = has || strncmp(set->items[i].tactic->name, kName, sizeof(kName) - 1) == 0;
  return has;
}

// A constant matrix is packed at build; one of fewer columns than a vector may be read as it is.
static void test_constant_matrix(void** state) {
  (void)state;
  for (int64_t columns = 15; columns <= 16; columns++) {
    carnot_graph* graph;
    select_fixture f;
    assert_null(carnot_graph_create(&graph));
    carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_F32, .rank = 2};
    type.dims[0] = type.dims[1] = carnot_sym_of(17);
    carnot_value* x = carnot_block_add_param(graph->main, "x", &type);
    carnot_value* weights = select_constant(graph, 2, (const int64_t[]){17, columns});
    carnot_block_add_output(graph->main, select_node(graph, CARNOT_OP_MATMUL, NULL, x, weights));
    select_open(&f, graph, 3);
    assert_int_equal(has_matmul(select_set(&f, MATMUL)), columns == 15);
    select_close(&f);
  }
}

// Of one kernel the older instruction set wins only by a margin.
static void test_margin(void** state) {
  (void)state;
  const carnot_tactic newer = {.name = "cpu_gemm_f32_avx512", .isa = CARNOT_ISA_AVX512},
                      older = {.name = "cpu_gemm_f32_avx2", .isa = CARNOT_ISA_AVX2},
                      other = {.name = "cpu_matmul_f32_avx2", .isa = CARNOT_ISA_AVX2};
  const carnot_candidate items[] = {
      {.tactic = &newer, .ns = 800}, {.tactic = &older, .ns = 800}, {.tactic = &other, .ns = 800}};
  assert_int_equal(carnot_candidate_margin(items, 0), 0);
  assert_int_equal(carnot_candidate_margin(items, 1), 100);
  assert_int_equal(carnot_candidate_margin(items, 2), 0);
}

static void test_half_precision(void** state) {
  (void)state;
  select_fixture f;
  select_open(&f, select_matmul_graph(5), 5);
  f.config.typing.f16 = true;
  const carnot_candidate_set* set = select_set(&f, MATMUL);
  uint32_t half_tactics = 0;
  for (uint32_t i = 0; i < set->count; i++) {
    half_tactics += set->items[i].tactic->precision == CARNOT_DTYPE_F16;
    assert_false(set->items[i].tactic->precision == CARNOT_DTYPE_BF16);
  }
  assert_true(half_tactics >= 1);
  select_close(&f);
}

static void test_reasons(void** state) {
  (void)state;
  select_fixture f;
  select_open(&f, select_matmul_graph(5), 3);
  f.builder.isa = CARNOT_ISA_SCALAR;
  const carnot_candidate_set* set = select_set(&f, MATMUL);
  assert_non_null(strstr(set->rejections, "needs avx2, the target has scalar"));
  for (uint32_t i = 0; i < set->count; i++)
    assert_int_equal(set->items[i].tactic->isa, CARNOT_ISA_SCALAR);
  select_close(&f);
}

static void test_sets_are_kept(void** state) {
  (void)state;
  select_fixture f;
  select_open(&f, select_matmul_graph(5), 3);
  uint32_t first = select_enumerate(&f, MATMUL), other = select_enumerate(&f, SOFTMAX);
  assert_int_not_equal(first, other);
  assert_int_equal(select_enumerate(&f, MATMUL), first);
  assert_int_equal(f.candidates.count, 2);
  f.config.level = 0;  // not part of the situation: sets are of one build
  assert_int_equal(select_enumerate(&f, SOFTMAX), other);
  select_close(&f);
}

static void test_cached_times_are_taken(void** state) {
  (void)state;
  select_fixture f;
  select_open(&f, select_matmul_graph(5), 3);
  carnot_candidate_set* set = select_set(&f, MATMUL);
  select_set_times(&f, set, 1, 5000);
  size_t entries = carnot_timing_cache_count(f.builder.timing_cache);
  assert_null(carnot_measure(&f.builder, &f.analysis.regions[MATMUL], set));
  for (uint32_t i = 0; i < set->count; i++) {
    assert_int_equal(set->items[i].ns, i == 1 ? 500 : 5000);
    assert_null(set->items[i].prepared.arena);  // nothing ran
  }
  assert_int_equal(carnot_timing_cache_count(f.builder.timing_cache), entries);
  select_close(&f);
}

static void test_measured_times_are_cached(void** state) {
  (void)state;
  select_fixture f;
  select_open(&f, select_matmul_graph(3), 3);
  carnot_candidate_set* set = select_set(&f, MATMUL);
  assert_null(carnot_measure(&f.builder, &f.analysis.regions[MATMUL], set));
  for (uint32_t i = 0; i < set->count; i++) {
    uint64_t ns = 0;
    bool found = carnot_timing_cache_find(f.builder.timing_cache, select_key(&f, &set->problem),
                                          set->items[i].tactic->name, &ns);
    assert_int_equal(found, set->items[i].tactic->run && !set->items[i].untimed);
    if (found) assert_int_equal(ns, set->items[i].ns);
  }
  select_close(&f);
}

// 80 TB of operands: nothing is timed, nothing fails, the first tactic is taken.
static void test_too_large_to_be_timed(void** state) {
  (void)state;
  select_fixture f;
  select_open(&f, select_matmul_graph((int64_t)1 << 40), 3);
  carnot_candidate_set* set = select_set(&f, MATMUL);
  carnot_status* status = carnot_measure(&f.builder, &f.analysis.regions[MATMUL], set);
  if (status) fail_msg("%s", carnot_status_message(status));
  for (uint32_t i = 0; i < set->count; i++) {
    if (!set->items[i].tactic->run) continue;
    assert_true(set->items[i].ns == UINT64_MAX);
    assert_null(set->items[i].failed);
    assert_non_null(strstr(set->items[i].untimed, "bytes and more, this machine has"));
  }
  assert_int_equal(carnot_timing_cache_count(f.builder.timing_cache), 0);
  select_close(&f);
}

// What cannot be the fastest by the peak of its instruction set is not timed, where other levels do
// not ask for it.
static void test_hopeless(void** state) {
  (void)state;
  for (int level = 3; level <= 4; level++) {
    select_fixture f;
    bool hopeless;
    select_open(&f, select_matmul_graph(1000), level);
    carnot_candidate_set* set = select_set(&f, MATMUL);
    const uint32_t at = index_of(set, "cpu_gemm_f32_avx512"),
                   other = index_of(set, "cpu_gemm_f32_avx2");
    if (at < set->count && other < set->count) {
      set->items[at].ns = 1;
      assert_null(carnot_prune_hopeless(&f.builder, set->items, set->count, other, &hopeless));
      assert_int_equal(hopeless, level == 3);
      assert_int_equal(set->items[other].untimed != NULL, hopeless);
      set->items[at].ns = UINT64_MAX / 2;
      assert_null(carnot_prune_hopeless(&f.builder, set->items, set->count, other, &hopeless));
      assert_false(hopeless);
    }
    select_close(&f);
  }
}

static const carnot_tactic* g_pinned;
static bool pin(void* user, const carnot_tactic* tactic) {
  ++*(int*)user;
  return tactic == g_pinned;
}

static void test_pins(void** state) {
  (void)state;
  for (int level = 0; level <= 5; level += 5) {
    select_fixture f;
    int asked = 0;
    select_open(&f, select_matmul_graph(5), level);
    f.config.pins = pin;
    f.config.user = &asked;
    g_pinned = carnot_tactic_find(CARNOT_REFERENCE_TACTIC);
    const carnot_candidate_set* set = select_set(&f, MATMUL);
    assert_true(asked > 1);
    assert_int_equal(set->count, 1);
    assert_ptr_equal(set->items[0].tactic, g_pinned);
    g_pinned = NULL;  // what pins refuses changes nothing
    set = select_set(&f, SOFTMAX);
    assert_int_equal(set->count > 1, level == 5);
    select_close(&f);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels),
                                     cmocka_unit_test(test_constant_matrix),
                                     cmocka_unit_test(test_margin),
                                     cmocka_unit_test(test_half_precision),
                                     cmocka_unit_test(test_reasons),
                                     cmocka_unit_test(test_sets_are_kept),
                                     cmocka_unit_test(test_cached_times_are_taken),
                                     cmocka_unit_test(test_measured_times_are_cached),
                                     cmocka_unit_test(test_too_large_to_be_timed),
                                     cmocka_unit_test(test_hopeless),
                                     cmocka_unit_test(test_pins)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
