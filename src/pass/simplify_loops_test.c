// Loops of known length: what pass simplify_loops makes of them. The values of recurrent layers are
// compared with TensorFlow's in tests/tensorflow/test_recurrent.py.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>

#include "pass/pass.h"

enum { kTime = 5, kBatch = 2, kUnits = 3 };

static void check(carnot_status* status) {
  if (status) fail_msg("%s", carnot_status_message(status));
}

typedef struct maker {
  carnot_graph* graph;
  carnot_block* body;
  carnot_value *x, *counter, *list, *h;  // parameters of the body
} maker;

static carnot_value* add(carnot_block* block, carnot_op op, const carnot_attrs* attrs, int count,
                         carnot_value* const* inputs) {
  carnot_node* node;
  check(carnot_block_add_node(block, op, NULL, attrs, inputs, count, NULL, 1, &node));
  return node->outputs[0];
}

static carnot_value* apply(maker* m, carnot_block* block, carnot_fn fn, carnot_value* a,
                           carnot_value* b) {
  carnot_attrs attrs = {0};
  carnot_value* inputs[2] = {a, b};
  carnot_attrs_set_int(&attrs, &m->graph->arena, "fn", fn);
  return add(block, b ? CARNOT_OP_BINARY : CARNOT_OP_UNARY, &attrs, b ? 2 : 1, inputs);
}

static carnot_value* floats(carnot_block* block, int64_t rows, int64_t columns) {
  carnot_tensor t = {.dtype = CARNOT_DTYPE_F32, .rank = 2, .dims = {rows, columns}};
  float* data = carnot_arena_alloc(&block->graph->arena, (size_t)(rows * columns), sizeof(*data));
  for (int64_t i = 0; i < rows * columns; i++) data[i] = (float)(i % 5) - 2;
  t.data = data;
  return carnot_graph_constant(block, NULL, &t);
}

static carnot_value* scalar(carnot_block* block, int64_t number) {
  return carnot_graph_ints(block, &number, -1);
}

static carnot_type tensor_type(carnot_dtype dtype, int rank, const int64_t* dims) {
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = dtype, .rank = rank};
  for (int d = 0; d < rank; d++) type.dims[d] = carnot_sym_of(dims[d]);
  return type;
}

// for (i = 0; i < limit; i++) { h = tanh(x[i] * W + h * R + h * h..); list = insert(list, h) }
static carnot_node* make(maker* m, bool by_data, bool squares) {
  static const int64_t kX[] = {kTime, kBatch, kUnits}, kH[] = {kBatch, kUnits};
  carnot_attrs attrs = {0}, axis = {0}, kind = {0};
  check(carnot_graph_create(&m->graph));
  carnot_block* main = m->graph->main;
  carnot_arena* arena = &m->graph->arena;
  const carnot_type types[] = {
      tensor_type(CARNOT_DTYPE_I64, 0, NULL), tensor_type(CARNOT_DTYPE_BOOL, 0, NULL),
      tensor_type(CARNOT_DTYPE_F32, 2, kH), tensor_type(CARNOT_DTYPE_F32, 3, kX)};
  carnot_value* x = carnot_block_add_param(main, "x", &types[3]);
  carnot_attrs_set_int(&kind, arena, "dtype", CARNOT_DTYPE_F32);
  carnot_value* list = add(main, CARNOT_OP_SEQUENCE_EMPTY, &kind, 0, NULL);
  m->body = carnot_block_create(m->graph);
  carnot_block_add_param(m->body, "iteration", &types[0]);
  carnot_block_add_param(m->body, "condition", &types[1]);
  m->counter = carnot_block_add_param(m->body, "counter", &types[0]);
  m->list = carnot_block_add_param(m->body, "list", &list->type);
  m->h = carnot_block_add_param(m->body, "h", &types[2]);
  m->x = carnot_block_add_param(m->body, "all", &types[3]);
  carnot_attrs_set_int(&axis, arena, "axis", 0);
  carnot_value* step =
      add(m->body, CARNOT_OP_GATHER, &axis, 2, (carnot_value*[]){m->x, m->counter});
  carnot_value *w = floats(m->body, kUnits, kUnits), *r = floats(m->body, kUnits, kUnits);
  carnot_value* sum = apply(m, m->body, CARNOT_FN_ADD,
                            add(m->body, CARNOT_OP_MATMUL, NULL, 2, (carnot_value*[]){step, w}),
                            add(m->body, CARNOT_OP_MATMUL, NULL, 2, (carnot_value*[]){m->h, r}));
  if (squares)
    sum = apply(m, m->body, CARNOT_FN_ADD, sum, apply(m, m->body, CARNOT_FN_MUL, m->h, m->h));
  carnot_value* h = apply(m, m->body, CARNOT_FN_TANH, sum, NULL);
  carnot_value* next = apply(m, m->body, CARNOT_FN_ADD, m->counter, scalar(m->body, 1));
  carnot_value* longer =
      add(m->body, CARNOT_OP_SEQUENCE_INSERT, NULL, 2, (carnot_value*[]){m->list, h});
  carnot_value* limit = scalar(m->body, kTime);
  if (by_data) limit = add(m->body, CARNOT_OP_SIZE, NULL, 1, &h);
  carnot_block_add_output(m->body, apply(m, m->body, CARNOT_FN_LESS, next, limit));
  carnot_block_add_output(m->body, next);
  carnot_block_add_output(m->body, longer);
  carnot_block_add_output(m->body, h);
  carnot_attrs_set(&attrs, arena,
                   (carnot_attr){.name = "body", .type = CARNOT_ATTR_BLOCK, .block = m->body});
  carnot_attrs_set_int(&attrs, arena, "carried", 3);
  carnot_value* begin = apply(m, main, CARNOT_FN_LESS, scalar(main, 0), scalar(main, kTime));
  carnot_value* inputs[6] = {NULL, begin, scalar(main, 0), list, floats(main, kBatch, kUnits), x};
  carnot_node* loop;
  check(carnot_block_add_node(main, CARNOT_OP_LOOP, "loop", &attrs, inputs, 6, NULL, 3, &loop));
  carnot_attrs stack = {0};
  carnot_attrs_set_int(&stack, arena, "axis", 0);
  carnot_attrs_set_int(&stack, arena, "new_axis", 1);
  carnot_block_add_output(main,
                          add(main, CARNOT_OP_CONCAT_FROM_SEQUENCE, &stack, 1, &loop->outputs[1]));
  carnot_block_add_output(main, loop->outputs[2]);
  carnot_block_add_output(main, loop->outputs[0]);
  return loop;
}

static int count_of(const carnot_graph* graph, carnot_op op) {
  int count = 0;
  for (const carnot_node* node = graph->main->first; node; node = node->next)
    count += node->op == op;
  return count;
}

static void run(maker* m) {
  check(carnot_pass_simplify_loops(m->graph, &(carnot_pass_options){0}));
  check(carnot_graph_verify(m->graph));
}

static void assert_dims(const carnot_value* value, int rank, const int64_t* dims) {
  assert_int_equal(value->type.rank, rank);
  for (int d = 0; d < rank; d++) assert_true(carnot_sym_is(value->type.dims[d], dims[d]));
}

static void a_list_becomes_a_stacked_result(void** state) {
  (void)state;
  static const int64_t kStacked[] = {kTime, kBatch, kUnits};
  maker m;
  make(&m, false, /*squares=*/true);
  run(&m);
  assert_int_equal(count_of(m.graph, CARNOT_OP_LOOP), 1);
  assert_int_equal(count_of(m.graph, CARNOT_OP_SEQUENCE_EMPTY), 0);
  assert_int_equal(count_of(m.graph, CARNOT_OP_CONCAT_FROM_SEQUENCE), 0);
  assert_dims(m.graph->main->outputs[0], 3, kStacked);
  assert_int_equal(m.graph->main->outputs[1]->producer->input_count, 4);  // h and x are left
  carnot_graph_destroy(m.graph);
}

static void a_cell_becomes_its_operator(void** state) {
  (void)state;
  static const int64_t kStacked[] = {kTime, kBatch, kUnits};
  maker m;
  make(&m, false, false);
  run(&m);
  assert_int_equal(count_of(m.graph, CARNOT_OP_LOOP), 0);
  assert_int_equal(count_of(m.graph, CARNOT_OP_RNN), 1);
  assert_dims(m.graph->main->outputs[0], 3, kStacked);
  assert_dims(m.graph->main->outputs[1], 2, kStacked + 1);
  carnot_graph_destroy(m.graph);
}

// for (i = 0; i < 5; i++) y = concat(y, unsqueeze(x[i], 0)), from |rows| rows on
static void check_grown(int64_t rows, int concats) {
  static const int64_t kX[] = {kTime, kBatch, kUnits}, kOpen[] = {0, kUnits};
  const carnot_type types[] = {
      tensor_type(CARNOT_DTYPE_I64, 0, NULL), tensor_type(CARNOT_DTYPE_BOOL, 0, NULL),
      tensor_type(CARNOT_DTYPE_F32, 3, kX), tensor_type(CARNOT_DTYPE_F32, 2, kOpen)};
  carnot_graph* graph;
  check(carnot_graph_create(&graph));
  carnot_block *main = graph->main, *body = carnot_block_create(graph);
  carnot_attrs attrs = {0}, axis = {0};
  carnot_value* x = carnot_block_add_param(main, "x", &types[2]);
  carnot_value* index = carnot_block_add_param(body, "iteration", &types[0]);
  carnot_value* condition = carnot_block_add_param(body, "condition", &types[1]);
  carnot_value* y = carnot_block_add_param(body, "y", &types[3]);
  carnot_value* all = carnot_block_add_param(body, "all", &types[2]);
  carnot_attrs_set_int(&axis, &graph->arena, "axis", 0);
  carnot_value* pair = add(body, CARNOT_OP_GATHER, &axis, 2, (carnot_value*[]){all, index});
  carnot_value* row =
      add(body, CARNOT_OP_GATHER, &axis, 2, (carnot_value*[]){pair, scalar(body, 1)});
  int64_t zero = 0;
  carnot_value* item = add(body, CARNOT_OP_UNSQUEEZE, NULL, 2,
                           (carnot_value*[]){row, carnot_graph_ints(body, &zero, 1)});
  carnot_block_add_output(body, condition);
  carnot_block_add_output(body, add(body, CARNOT_OP_CONCAT, &axis, 2, (carnot_value*[]){y, item}));
  carnot_attrs_set(&attrs, &graph->arena,
                   (carnot_attr){.name = "body", .type = CARNOT_ATTR_BLOCK, .block = body});
  carnot_attrs_set_int(&attrs, &graph->arena, "carried", 1);
  carnot_value* inputs[4] = {scalar(main, kTime), NULL, floats(main, rows, kUnits), x};
  carnot_node* loop;
  check(carnot_block_add_node(main, CARNOT_OP_LOOP, "loop", &attrs, inputs, 4, NULL, 1, &loop));
  carnot_block_add_output(main, loop->outputs[0]);
  check(carnot_pass_simplify_loops(graph, &(carnot_pass_options){0}));
  check(carnot_graph_verify(graph));
  const int64_t wanted[] = {rows + kTime, kUnits};
  assert_dims(main->outputs[0], 2, wanted);
  assert_int_equal(count_of(graph, CARNOT_OP_CONCAT), concats);
  for (const carnot_node* node = body->first; node; node = node->next)
    assert_int_not_equal(node->op, CARNOT_OP_CONCAT);
  carnot_graph_destroy(graph);
}

static void a_tensor_that_grows_becomes_a_stacked_result(void** state) {
  (void)state;
  check_grown(/*rows=*/0, /*concats=*/0);
  check_grown(/*rows=*/2, /*concats=*/1);
}

static void a_loop_that_data_end_stays(void** state) {
  (void)state;
  maker m;
  const carnot_node* loop = make(&m, /*by_data=*/true, false);
  run(&m);
  assert_int_equal(count_of(m.graph, CARNOT_OP_LOOP), 1);
  assert_int_equal(count_of(m.graph, CARNOT_OP_CONCAT_FROM_SEQUENCE), 1);
  assert_ptr_equal(m.graph->main->outputs[1]->producer, loop);
  carnot_graph_destroy(m.graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_list_becomes_a_stacked_result),
      cmocka_unit_test(a_cell_becomes_its_operator),
      cmocka_unit_test(a_tensor_that_grows_becomes_a_stacked_result),
      cmocka_unit_test(a_loop_that_data_end_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
