// Random graphs of transposes, element-wise operators, concat, pad, slice, reduce and softmax: the
// results with and without pass layout are equal. Values are small integers, so that sums are
// exact in any order.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "ops/evaluate.h"
#include "pass/pass.h"

enum { kGraphs = 2000, kSteps = 24, kMostValues = kSteps + 2, kRank = 4 };

typedef struct maker {
  uint32_t seed;
  carnot_graph* graph;
  carnot_value* values[kMostValues];
  int count;
} maker;

static uint32_t draw(maker* m, uint32_t limit) {
  m->seed = m->seed * 1664525u + 1013904223u;
  return (m->seed >> 8) % limit;
}

static carnot_value* any_value(maker* m) { return m->values[draw(m, (uint32_t)m->count)]; }

static carnot_value* floats(maker* m, const int64_t* dims, int rank) {
  carnot_tensor t = {.dtype = CARNOT_DTYPE_F32, .rank = rank};
  for (int i = 0; i < rank; i++) t.dims[i] = dims[i];
  const size_t count = (size_t)carnot_tensor_count(&t);
  float* data = carnot_arena_alloc(&m->graph->arena, count, sizeof(float));
  for (size_t i = 0; i < count; i++) data[i] = (float)draw(m, 5) - 2;
  t.data = data;
  return carnot_graph_constant(m->graph->main, NULL, &t);
}

static void add(maker* m, carnot_op op, const carnot_attrs* attrs, carnot_value** inputs,
                int count) {
  carnot_node* node;
  carnot_status* status =
      carnot_block_add_node(m->graph->main, op, NULL, attrs, inputs, count, NULL, 1, &node);
  if (status) fail_msg("%s", carnot_status_message(status));
  m->values[m->count++] = node->outputs[0];
}

static int64_t dim(const carnot_value* x, int axis) { return x->type.dims[axis].bits; }

static void add_transpose(maker* m) {
  static const int64_t kPerms[][kRank] = {
      {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 2, 1, 3}};
  carnot_value* x = any_value(m);
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, &m->graph->arena, "perm", kPerms[draw(m, 5)], kRank);
  add(m, CARNOT_OP_TRANSPOSE, &attrs, &x, 1);
}

static void add_unary(maker* m) {
  carnot_value* x = any_value(m);
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &m->graph->arena, "fn", draw(m, 2) ? CARNOT_FN_RELU : CARNOT_FN_NEG);
  add(m, CARNOT_OP_UNARY, &attrs, &x, 1);
}

// With another value, or a constant of fewer or shorter axes.
static void add_binary(maker* m) {
  carnot_value* pair[2] = {any_value(m), any_value(m)};
  carnot_attrs attrs = {0};
  if (draw(m, 2) || !carnot_same_dims(&pair[0]->type, &pair[1]->type)) {
    int64_t dims[kRank];
    const int rank = (int)draw(m, kRank + 1);
    for (int i = 0; i < rank; i++) dims[i] = draw(m, 2) ? 1 : dim(pair[0], kRank - rank + i);
    pair[1] = floats(m, dims, rank);
  }
  carnot_attrs_set_int(&attrs, &m->graph->arena, "fn", draw(m, 2) ? CARNOT_FN_MAX : CARNOT_FN_ADD);
  add(m, CARNOT_OP_BINARY, &attrs, pair, 2);
}

static void add_concat(maker* m) {
  carnot_value* x = any_value(m);
  carnot_value* pair[2] = {x, x};
  carnot_attrs attrs = {0};
  const int axis = (int)draw(m, kRank);
  if (dim(x, axis) > 8) return;
  carnot_attrs_set_int(&attrs, &m->graph->arena, "axis", draw(m, 2) ? axis : axis - kRank);
  add(m, CARNOT_OP_CONCAT, &attrs, pair, 2);
}

static void add_pad(maker* m) {
  int64_t list[2 * kRank], axes[2];
  carnot_value* inputs[4] = {any_value(m)};
  const bool named = draw(m, 2);
  const int count = named ? 2 : kRank;
  for (int i = 0; i < 2 * count; i++) list[i] = draw(m, 2);
  axes[0] = draw(m, 2), axes[1] = -1;
  inputs[1] = carnot_graph_ints(m->graph->main, list, 2 * count);
  if (named) inputs[3] = carnot_graph_ints(m->graph->main, axes, 2);
  add(m, CARNOT_OP_PAD, NULL, inputs, named ? 4 : 2);
}

static void add_slice(maker* m) {
  int64_t starts[kRank], ends[kRank], axes[1] = {draw(m, kRank)};
  carnot_value* inputs[4] = {any_value(m)};
  const bool named = draw(m, 2);
  const int count = named ? 1 : 1 + (int)draw(m, kRank);
  for (int i = 0; i < count; i++) starts[i] = 0, ends[i] = draw(m, 2) ? 1 : 100;
  inputs[1] = carnot_graph_ints(m->graph->main, starts, count);
  inputs[2] = carnot_graph_ints(m->graph->main, ends, count);
  if (named) inputs[3] = carnot_graph_ints(m->graph->main, axes, 1);
  add(m, CARNOT_OP_SLICE, NULL, inputs, named ? 4 : 3);
}

// A result of fewer axes is only a result of the graph.
static void add_reduce(maker* m) {
  int64_t axes[2] = {draw(m, 2), 2 + (int64_t)draw(m, 2)};
  carnot_value* pair[2] = {any_value(m), carnot_graph_ints(m->graph->main, axes, 2)};
  carnot_attrs attrs = {0};
  const bool keeps = draw(m, 2);
  carnot_attrs_set_text(&attrs, &m->graph->arena, "fn", draw(m, 2) ? "max" : "sum");
  carnot_attrs_set_int(&attrs, &m->graph->arena, "keepdims", keeps);
  add(m, CARNOT_OP_REDUCE, &attrs, pair, 2);
  if (!keeps) carnot_block_add_output(m->graph->main, m->values[--m->count]);
}

static void add_arg_reduce(maker* m) {
  carnot_value* x = any_value(m);
  carnot_attrs attrs = {0};
  carnot_attrs_set_text(&attrs, &m->graph->arena, "fn", "max");
  carnot_attrs_set_int(&attrs, &m->graph->arena, "axis", draw(m, kRank));
  carnot_attrs_set_int(&attrs, &m->graph->arena, "keepdims", draw(m, 2));
  add(m, CARNOT_OP_ARG_REDUCE, &attrs, &x, 1);
  carnot_block_add_output(m->graph->main, m->values[--m->count]);
}

static void make_graph(maker* m) {
  static void (*const kMakers[])(maker*) = {add_transpose, add_transpose,  add_transpose, add_unary,
                                            add_binary,    add_binary,     add_concat,    add_pad,
                                            add_slice,     add_arg_reduce, add_reduce};
  const carnot_type type = {.kind = CARNOT_VALUE_TENSOR,
                            .dtype = CARNOT_DTYPE_F32,
                            .rank = kRank,
                            .dims = {carnot_sym_of(1 + draw(m, 2)), carnot_sym_of(3),
                                     carnot_sym_of(2 + draw(m, 2)), carnot_sym_of(4)}};
  m->values[m->count++] = carnot_block_add_param(m->graph->main, "x", &type);
  for (int i = 0; i < kSteps; i++) kMakers[draw(m, sizeof(kMakers) / sizeof(kMakers[0]))](m);
  for (int i = 0; i < m->count; i++)
    if (m->values[i]->producer && (!m->values[i]->use_count || draw(m, 8) == 0))
      carnot_block_add_output(m->graph->main, m->values[i]);
}

enum { kMostResults = 2 * kSteps };

static size_t run(const carnot_graph* graph, carnot_evaluator* evaluator, carnot_rt_value* out) {
  static float data[1024];  // results may be the input's
  const carnot_type* type = &graph->main->params[0]->type;
  carnot_rt_value x = {.kind = CARNOT_VALUE_TENSOR, .tensor = {.dtype = type->dtype, .data = data}};
  x.tensor.rank = type->rank;
  for (int i = 0; i < type->rank; i++) x.tensor.dims[i] = type->dims[i].bits;
  for (int64_t i = 0; i < carnot_tensor_count(&x.tensor); i++) data[i] = (float)(i * 7 % 11) - 5;
  const carnot_rt_value* inputs[1] = {&x};
  assert_null(carnot_evaluator_init(evaluator, graph, NULL, 1));
  carnot_status* status =
      carnot_evaluate_block(evaluator, graph->main, 1, inputs, (int)graph->main->output_count, out);
  if (status) fail_msg("%s", carnot_status_message(status));
  return graph->main->output_count;
}

static int count_transposes(const carnot_graph* graph) {
  int count = 0;
  for (const carnot_node* node = graph->main->first; node; node = node->next)
    count += node->op == CARNOT_OP_TRANSPOSE && !carnot_value_is_constant(node->inputs[0]);
  return count;
}

static void expect_equal(const carnot_rt_value* a, const carnot_rt_value* b, uint32_t graph) {
  assert_int_equal(a->tensor.rank, b->tensor.rank);
  for (int d = 0; d < a->tensor.rank; d++) assert_int_equal(a->tensor.dims[d], b->tensor.dims[d]);
  const size_t bytes = carnot_tensor_bytes(&a->tensor);
  if (bytes && memcmp(a->tensor.data, b->tensor.data, bytes) != 0)
    fail_msg("graph %u has another result after the pass", graph);
}

static void random_graphs_keep_their_results(void** state) {
  (void)state;
  int fewer = 0;
  for (uint32_t g = 0; g < kGraphs; g++) {
    maker m = {.seed = g * 7919 + 1};
    carnot_graph* before;
    const carnot_pass_options options = {.none = false};
    carnot_rt_value wanted[kMostResults], found[kMostResults];
    carnot_evaluator a, b;
    assert_null(carnot_graph_create(&m.graph));
    make_graph(&m);
    assert_null(carnot_graph_clone(m.graph, &before));
    carnot_status* status = carnot_pass_layout(m.graph, &options);
    if (status) fail_msg("graph %u: %s", g, carnot_status_message(status));
    status = carnot_graph_verify(m.graph);
    if (status) fail_msg("graph %u: %s", g, carnot_status_message(status));
    const size_t count = run(before, &a, wanted);
    assert_int_equal(run(m.graph, &b, found), count);
    for (size_t i = 0; i < count; i++) expect_equal(&wanted[i], &found[i], g);
    fewer += count_transposes(m.graph) < count_transposes(before);
    carnot_evaluator_deinit(&a);
    carnot_evaluator_deinit(&b);
    carnot_graph_destroy(before);
    carnot_graph_destroy(m.graph);
  }
  assert_true(fewer > kGraphs / 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_keep_their_results)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
