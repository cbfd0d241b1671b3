// Random operators: moments of what is drawn, and equal seeds give equal numbers.
#include "ops/evaluate.h"
#include "ops/op_test.h"

static const carnot_tensor* draw(op_test* t, const carnot_op_row* row, int64_t count) {
  op_test_ints(t, "shape", &count, 1);
  return op_test_run1(t, row, 0, NULL);
}

static void moments(const carnot_tensor* y, double* mean, double* var) {
  int64_t n = carnot_tensor_count(y);
  *mean = *var = 0;
  for (int64_t i = 0; i < n; i++) *mean += op_test_at(y, i) / (double)n;
  for (int64_t i = 0; i < n; i++) *var += pow(op_test_at(y, i) - *mean, 2) / (double)n;
}

static void has_the_moments(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  double mean, var;
  moments(draw(&t, &carnot_op_random_uniform, 40000), &mean, &var);
  assert_true(fabs(mean - 0.5) < 0.01 && fabs(var - 1.0 / 12) < 0.005);
  carnot_attrs_set_float(&t.attrs, &t.arena, "mean", 3);
  carnot_attrs_set_float(&t.attrs, &t.arena, "scale", 2);
  moments(draw(&t, &carnot_op_random_normal, 40000), &mean, &var);
  assert_true(fabs(mean - 3) < 0.05 && fabs(var - 4) < 0.15);
  op_test_deinit(&t);
}

static void depends_on_the_seed_alone(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_tensor* a = draw(&t, &carnot_op_random_uniform, 100);
  const carnot_tensor* b = draw(&t, &carnot_op_random_uniform, 50);
  for (int i = 0; i < 50; i++) assert_true(op_test_at(a, i) == op_test_at(b, i));
  t.host.seed = 2;
  assert_true(op_test_at(draw(&t, &carnot_op_random_uniform, 1), 0) != op_test_at(a, 0));
  carnot_attrs_set_float(&t.attrs, &t.arena, "seed", 5);
  double first = op_test_at(draw(&t, &carnot_op_random_uniform, 1), 0);
  t.host.seed = 3;
  assert_true(op_test_at(draw(&t, &carnot_op_random_uniform, 1), 0) == first);
  op_test_deinit(&t);
}

static void multinomial_follows_the_weights(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  op_test_int(&t, "sample_size", 20000);
  const carnot_rt_value* in[1] = {
      op_test_floats(&t, DIMS(1, 3), LIST(log(0.2), -INFINITY, log(0.8)))};
  const carnot_tensor* y = op_test_run1(&t, &carnot_op_multinomial, 1, in);
  int64_t counts[3] = {0, 0, 0};
  for (int64_t i = 0; i < 20000; i++) counts[(int)op_test_at(y, i)]++;
  assert_int_equal(counts[1], 0);
  assert_true(llabs(counts[0] - 4000) < 300);
  op_test_deinit(&t);
}

static void dropout_keeps_the_mean(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* x = op_test_floats(&t, DIMS(10000), NULL);
  for (int i = 0; i < 10000; i++) ((float*)x->tensor.data)[i] = 1;
  const carnot_rt_value* in[3] = {x, op_test_floats(&t, NULL, 0, LIST(0.25)),
                                  op_test_tensor(&t, CARNOT_DTYPE_BOOL, NULL, 0, LIST(1), 0)};
  carnot_rt_value* out[2];
  double mean, var;
  op_test_run(&t, &carnot_op_dropout, 3, in, 2, out);
  moments(&out[0]->tensor, &mean, &var);
  assert_true(fabs(mean - 1) < 0.03);
  moments(&out[1]->tensor, &mean, &var);
  assert_true(fabs(mean - 0.75) < 0.03);
  op_test_deinit(&t);
}

static void bernoulli_follows_its_probabilities(void** state) {
  (void)state;
  op_test t;
  op_test_init(&t);
  const carnot_rt_value* p = op_test_floats(&t, DIMS(20000), NULL);
  for (int i = 0; i < 20000; i++) ((float*)p->tensor.data)[i] = i < 10000 ? 0.3f : 1.0f;
  const carnot_rt_value* in[1] = {p};
  const carnot_tensor* y = op_test_run1(&t, &carnot_op_bernoulli, 1, in);
  double low = 0, high = 0;
  for (size_t i = 0; i < 10000; i++) low += op_test_at(y, i), high += op_test_at(y, 10000 + i);
  assert_true(fabs(low / 10000 - 0.3) < 0.02 && high == 10000);
  op_test_deinit(&t);
}

// Two nodes of one run draw different numbers.
static void nodes_draw_apart(void** state) {
  (void)state;
  carnot_graph* graph;
  carnot_evaluator evaluator;
  assert_null(carnot_graph_create(&graph));
  carnot_attrs attrs = {NULL, 0};
  const int64_t count = 4;
  carnot_attrs_set_ints(&attrs, &graph->arena, "shape", &count, 1);
  for (int i = 0; i < 2; i++) {
    carnot_node* node;
    assert_null(carnot_block_add_node(graph->main, CARNOT_OP_RANDOM_NORMAL, i ? "b" : "a", &attrs,
                                      NULL, 0, NULL, 1, &node));
    carnot_block_add_output(graph->main, node->outputs[0]);
  }
  assert_null(carnot_evaluator_init(&evaluator, graph, NULL, /*seed=*/7));
  carnot_rt_value outputs[2];
  assert_null(carnot_evaluate_block(&evaluator, graph->main, 0, NULL, 2, outputs));
  assert_true(op_test_at(&outputs[0].tensor, 0) != op_test_at(&outputs[1].tensor, 0));
  carnot_evaluator_deinit(&evaluator);
  carnot_graph_destroy(graph);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(has_the_moments),
                                     cmocka_unit_test(depends_on_the_seed_alone),
                                     cmocka_unit_test(multinomial_follows_the_weights),
                                     cmocka_unit_test(dropout_keeps_the_mean),
                                     cmocka_unit_test(bernoulli_follows_its_probabilities),
                                     cmocka_unit_test(nodes_draw_apart)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
