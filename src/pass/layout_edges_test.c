// Transposes at the edges of loops and conditionals: pass layout moves them out of the bodies, and
// the results stay equal.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>

#include "ops/evaluate.h"
#include "pass/pass.h"

enum { kCount = 24, kTrips = 3 };
static const int64_t kLast[] = {1, 2, 3, 4};  // channels-last
static const int64_t kToFirst[] = {0, 3, 1, 2}, kToLast[] = {0, 2, 3, 1};

static void check(carnot_status* status) {
  if (status) fail_msg("%s", carnot_status_message(status));
}

static carnot_value* add(carnot_block* block, carnot_op op, const carnot_attrs* attrs,
                         carnot_value* const* inputs, int count) {
  carnot_node* node;
  check(carnot_block_add_node(block, op, NULL, attrs, inputs, count, NULL, 1, &node));
  return node->outputs[0];
}

static carnot_value* transpose(carnot_block* block, carnot_value* x, const int64_t* perm) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, &block->graph->arena, "perm", perm, 4);
  return add(block, CARNOT_OP_TRANSPOSE, &attrs, &x, 1);
}

// A 1x1 convolution by the number of the channels, NHWC: transposes around it.
static carnot_value* convolve(carnot_block* block, carnot_value* x, float factor) {
  carnot_tensor t = {.dtype = CARNOT_DTYPE_F32, .rank = 4, .dims = {4, 4, 1, 1}};
  float* data = carnot_arena_alloc(&block->graph->arena, 16, sizeof(*data));
  for (int i = 0; i < 16; i++) data[i] = factor * (float)(i % 3 - 1);
  t.data = data;
  carnot_value* inputs[2] = {transpose(block, x, kToFirst), carnot_graph_constant(block, NULL, &t)};
  return transpose(block, add(block, CARNOT_OP_CONV, NULL, inputs, 2), kToLast);
}

static carnot_value* relu(carnot_block* block, carnot_value* x) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &block->graph->arena, "fn", CARNOT_FN_RELU);
  return add(block, CARNOT_OP_UNARY, &attrs, &x, 1);
}

static carnot_type type_of(carnot_dtype dtype, int rank) {
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = dtype, .rank = rank};
  for (int d = 0; d < rank; d++) type.dims[d] = carnot_sym_of(kLast[d]);
  return type;
}

static void set_block(carnot_attrs* attrs, carnot_arena* arena, const char* name,
                      carnot_block* block) {
  carnot_attrs_set(attrs, arena,
                   (carnot_attr){.name = name, .type = CARNOT_ATTR_BLOCK, .block = block});
}

// for 3 iterations: x = relu(conv(x))
static void make_loop(carnot_graph* graph) {
  const carnot_type image = type_of(CARNOT_DTYPE_F32, 4), i64 = type_of(CARNOT_DTYPE_I64, 0),
                    flag = type_of(CARNOT_DTYPE_BOOL, 0);
  const int64_t trips = kTrips;
  carnot_attrs attrs = {0};
  carnot_value* x = carnot_block_add_param(graph->main, "x", &image);
  carnot_block* body = carnot_block_create(graph);
  carnot_block_add_param(body, "iteration", &i64);
  carnot_value* condition = carnot_block_add_param(body, "condition", &flag);
  carnot_value* y = convolve(body, carnot_block_add_param(body, "carried", &image), 1);
  carnot_block_add_output(body, condition);
  carnot_block_add_output(body, relu(body, y));
  set_block(&attrs, &graph->arena, "body", body);
  carnot_attrs_set_int(&attrs, &graph->arena, "carried", 1);
  carnot_value* inputs[3] = {carnot_graph_ints(graph->main, &trips, -1), NULL, x};
  carnot_block_add_output(graph->main, add(graph->main, CARNOT_OP_LOOP, &attrs, inputs, 3));
}

// conv(if flag then conv(x) else conv(x), each with weights of its own), x a convolution
static void make_if(carnot_graph* graph) {
  const carnot_type image = type_of(CARNOT_DTYPE_F32, 4), flag = type_of(CARNOT_DTYPE_BOOL, 0);
  carnot_attrs attrs = {0};
  carnot_value* inputs[3] = {carnot_block_add_param(graph->main, "flag", &flag)};
  inputs[1] = inputs[2] =
      convolve(graph->main, carnot_block_add_param(graph->main, "x", &image), 1);
  carnot_block* branches[2] = {carnot_block_create(graph), carnot_block_create(graph)};
  for (int i = 0; i < 2; i++) {
    carnot_value* x = carnot_block_add_param(branches[i], i ? "b" : "a", &image);
    carnot_block_add_output(branches[i], convolve(branches[i], x, (float)(i + 2)));
  }
  set_block(&attrs, &graph->arena, "then_branch", branches[0]);
  set_block(&attrs, &graph->arena, "else_branch", branches[1]);
  carnot_attrs_set_int(&attrs, &graph->arena, "then_inputs", 1);
  carnot_value* y = add(graph->main, CARNOT_OP_IF, &attrs, inputs, 3);
  carnot_block_add_output(graph->main, convolve(graph->main, y, 1));
}

static int count_in(const carnot_block* block, carnot_op op) {
  int count = 0;
  for (const carnot_node* node = block->first; node; node = node->next) count += node->op == op;
  return count;
}

// Runs |graph| on small integers; |out| has kCount numbers.
static void evaluate(const carnot_graph* graph, uint8_t flag, float* out) {
  float numbers[kCount];
  for (int i = 0; i < kCount; i++) numbers[i] = (float)(i % 7) - 3;
  carnot_rt_value x = {.kind = CARNOT_VALUE_TENSOR,
                       .tensor = {.dtype = CARNOT_DTYPE_F32, .rank = 4, .dims = {1, 2, 3, 4}}},
                  y = {.kind = CARNOT_VALUE_TENSOR, .tensor = {.dtype = CARNOT_DTYPE_BOOL}}, result;
  x.tensor.data = numbers;
  y.tensor.data = &flag;
  const bool has_flag = graph->main->param_count == 2;
  const carnot_rt_value* inputs[2] = {has_flag ? &y : &x, &x};
  carnot_evaluator evaluator;
  check(carnot_evaluator_init(&evaluator, graph, NULL, 1));
  check(carnot_evaluate_block(&evaluator, graph->main, has_flag ? 2 : 1, inputs, 1, &result));
  assert_int_equal(carnot_tensor_count(&result.tensor), kCount);
  memcpy(out, result.tensor.data, kCount * sizeof(*out));
  carnot_evaluator_deinit(&evaluator);
}

static carnot_node* find(const carnot_graph* graph, carnot_op op) {
  for (carnot_node* node = graph->main->first; node; node = node->next)
    if (node->op == op) return node;
  return NULL;
}

static void a_loop_carries_what_its_body_works_on(void** state) {
  (void)state;
  float before[kCount], after[kCount];
  carnot_graph* graph;
  check(carnot_graph_create(&graph));
  make_loop(graph);
  evaluate(graph, 0, before);
  check(carnot_pass_layout(graph, &(carnot_pass_options){0}));
  check(carnot_graph_verify(graph));
  evaluate(graph, 0, after);
  assert_memory_equal(before, after, sizeof(before));
  const carnot_node* loop = find(graph, CARNOT_OP_LOOP);
  assert_int_equal(count_in(carnot_attrs_find(&loop->attrs, "body")->block, CARNOT_OP_TRANSPOSE),
                   0);
  assert_int_equal(count_in(graph->main, CARNOT_OP_TRANSPOSE), 2);
  carnot_graph_destroy(graph);
}

static void a_branch_takes_and_gives_what_it_works_on(void** state) {
  (void)state;
  float before[kCount], after[kCount];
  for (uint8_t flag = 0; flag < 2; flag++) {
    carnot_graph* graph;
    check(carnot_graph_create(&graph));
    make_if(graph);
    evaluate(graph, flag, before);
    check(carnot_pass_layout(graph, &(carnot_pass_options){0}));
    check(carnot_graph_verify(graph));
    evaluate(graph, flag, after);
    assert_memory_equal(before, after, sizeof(before));
    const carnot_node* node = find(graph, CARNOT_OP_IF);
    static const char* const kNames[] = {"then_branch", "else_branch"};
    for (int i = 0; i < 2; i++)
      assert_int_equal(
          count_in(carnot_attrs_find(&node->attrs, kNames[i])->block, CARNOT_OP_TRANSPOSE), 0);
    assert_int_equal(count_in(graph->main, CARNOT_OP_TRANSPOSE), 2);
    carnot_graph_destroy(graph);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_loop_carries_what_its_body_works_on),
      cmocka_unit_test(a_branch_takes_and_gives_what_it_works_on),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
