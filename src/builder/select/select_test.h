// For unit tests of selection: a builder of a hand-made graph, whose times are given, not measured.
#ifndef CARNOT_BUILDER_SELECT_SELECT_TEST_H_
#define CARNOT_BUILDER_SELECT_SELECT_TEST_H_

// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "builder/measure/timing_cache.h"
#include "builder/measure/timing_key.h"
#include "builder/select/select.h"

// A build up to the analysis.
typedef struct select_fixture {
  carnot_build_config config;
  carnot_builder builder;
  carnot_arena memory;
  carnot_graph* graph;
  carnot_analysis analysis;
  carnot_candidates candidates;
} select_fixture;

enum { SELECT_ALL_SOURCES = (1u << CARNOT_SOURCE_COUNT) - 1 };

// Opens a build of |graph|, which it takes and uses as it is: no passes run. |profile| is borrowed;
// NULL: none.
static inline void select_open_profile(select_fixture* f, carnot_graph* graph, int level,
                                       const carnot_profile* profile) {
  *f = (select_fixture){.graph = graph};
  carnot_build_config_init(&f->config);
  f->config.level = level;
  f->config.profiles = profile;
  f->config.profile_count = profile != NULL;
  f->builder = (carnot_builder){
      .config = &f->config, .graph = graph, .isa = carnot_isa_of_machine(), .memory = &f->memory};
  assert_null(carnot_timing_cache_create(&f->builder.timing_cache));
  f->builder.timings = (carnot_timings){f->builder.timing_cache, carnot_timing_cache_find,
                                        carnot_timing_cache_get_or_insert};
  assert_null(carnot_find_shape_inputs(&f->builder));
  assert_null(carnot_apply_profiles(&f->builder));
  assert_null(carnot_note_symbols(&f->builder));
  assert_null(carnot_analyse(&f->builder, &f->analysis));
  assert_null(carnot_candidates_init(&f->candidates, &f->analysis));
}

static inline void select_open(select_fixture* f, carnot_graph* graph, int level) {
  select_open_profile(f, graph, level, NULL);
}

static inline void select_close(select_fixture* f) {
  carnot_candidates_deinit(&f->candidates);
  carnot_timing_cache_destroy(f->builder.timing_cache);
  carnot_arena_deinit(&f->builder.problems);
  carnot_arena_deinit(&f->builder.facts);
  carnot_arena_deinit(&f->memory);
  carnot_graph_destroy(f->graph);
}

// The candidates of |region| for row-major operands in host memory.
static inline uint32_t select_enumerate(select_fixture* f, uint32_t region) {
  carnot_format* formats = CARNOT_NEW_ARRAY(&f->memory, carnot_format, f->analysis.value_count + 1);
  for (uint32_t i = 0; i < f->analysis.region_count; i++) {
    const carnot_region_facts* r = &f->analysis.regions[i];
    for (uint32_t k = 0; k < r->input_count; k++)
      if (r->inputs[k] && !r->inputs[k]->constant)
        formats[r->inputs[k]->id].dtype = r->inputs[k]->type.dtype;
  }
  const carnot_situation situation = {
      .formats = formats, .sources = SELECT_ALL_SOURCES, .on_device = true, .allow_timing = true};
  uint32_t set;
  assert_null(
      carnot_enumerate(&f->builder, &f->analysis, &f->candidates, region, &situation, &set));
  return set;
}

static inline carnot_candidate_set* select_set(select_fixture* f, uint32_t region) {
  uint32_t set = select_enumerate(f, region);  // may move the array of sets
  return f->candidates.sets[set];
}

static inline uint64_t select_key(const select_fixture* f, const carnot_problem* problem) {
  return carnot_problem_key(problem, &f->builder.machine);
}

// Gives every candidate of |set| |ns| nanoseconds, and candidate |fastest| a tenth of it.
static inline void select_set_times(select_fixture* f, const carnot_candidate_set* set,
                                    uint32_t fastest, uint64_t ns) {
  for (uint32_t i = 0; i < set->count; i++)
    assert_null(carnot_timing_cache_add(f->builder.timing_cache, select_key(f, &set->problem),
                                        set->items[i].tactic->name, i == fastest ? ns / 10 : ns));
}

static inline const char* select_tactic(const select_fixture* f,
                                        const carnot_assignment* assignment, uint32_t region) {
  return carnot_assigned_candidate(assignment, &f->candidates, region)->tactic->name;
}

// ---- graphs ----

static inline carnot_value* select_constant(carnot_graph* graph, int rank, const int64_t* dims) {
  carnot_tensor t = {.dtype = CARNOT_DTYPE_F32, .rank = rank};
  memcpy(t.dims, dims, (size_t)rank * sizeof(*dims));
  size_t count = (size_t)carnot_tensor_count(&t);
  float* data = CARNOT_NEW_ARRAY(&graph->arena, float, count);
  for (size_t i = 0; i < count; i++) data[i] = (float)(i % 7) * 0.1f - 0.3f;  // no float16 numbers
  t.data = data;
  return carnot_graph_constant(graph->main, NULL, &t);
}

static inline carnot_value* select_node(carnot_graph* graph, carnot_op op,
                                        const carnot_attrs* attrs, carnot_value* a,
                                        carnot_value* b) {
  carnot_value* inputs[] = {a, b};
  carnot_node* node;
  assert_null(
      carnot_block_add_node(graph->main, op, NULL, attrs, inputs, b ? 2 : 1, NULL, 1, &node));
  return node->outputs[0];
}

// x [rows,17] -> matmul with [17,33] -> softmax -> y; rows < 0: between 1 and 4096.
static inline carnot_graph* select_matmul_graph(int64_t rows) {
  carnot_graph* graph;
  assert_null(carnot_graph_create(&graph));
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = CARNOT_DTYPE_F32, .rank = 2};
  type.dims[0] = rows < 0 ? carnot_sym_new(&graph->syms, "rows", 1, 4096) : carnot_sym_of(rows);
  type.dims[1] = carnot_sym_of(17);
  carnot_value* x = carnot_block_add_param(graph->main, "x", &type);
  carnot_value* product = select_node(graph, CARNOT_OP_MATMUL, NULL, x,
                                      select_constant(graph, 2, (const int64_t[]){17, 33}));
  carnot_block_add_output(graph->main, select_node(graph, CARNOT_OP_SOFTMAX, NULL, product, NULL));
  return graph;
}

#endif  // CARNOT_BUILDER_SELECT_SELECT_TEST_H_
