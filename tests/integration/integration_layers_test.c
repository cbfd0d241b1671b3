// Layers of the public interface: their shapes as they are added, and a few values after a run.
#include "carnot/builder.h"
#include "net.h"

#define SHAPE(...) \
  (&(carnot_dims){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})

static void expect(const carnot_value* value, const carnot_dims* wanted) {
  carnot_dims found = carnot_value_dims(value);
  assert_int_equal(found.rank, wanted->rank);
  for (int d = 0; d < found.rank; d++) assert_int_equal(found.d[d], wanted->d[d]);
}

static carnot_value* ints(carnot_network* n, const int64_t* values, int count) {
  carnot_value* v;
  net_ok(carnot_network_add_int64s(n, values, count, &v));
  return v;
}

static void test_shapes(void** state) {
  (void)state;
  carnot_network* n;
  carnot_value *x, *y, *z, *flag;
  static float numbers[4096];
  net_ok(carnot_network_create(&n));
  net_ok(carnot_network_add_input(n, "x", CARNOT_DTYPE_F32, SHAPE(2, 4, 6, 8), NULL, &x));
  carnot_window pool = {.rank = 2, .kernel = {2, 2}, .stride = {2, 2}};
  net_ok(carnot_network_add_pooling(n, x, CARNOT_POOLING_MAX_AVERAGE_BLEND, &pool, true, 0.5, &y));
  expect(y, SHAPE(2, 4, 3, 4));
  net_ok(carnot_network_add_constant(n, "w", CARNOT_DTYPE_F32, SHAPE(4, 3, 2, 2), numbers, &z));
  carnot_window up = {.rank = 2, .stride = {2, 2}};
  net_ok(carnot_network_add_deconvolution(n, x, z, NULL, 1, &up, &y));
  expect(y, SHAPE(2, 3, 12, 16));
  net_ok(carnot_network_add_constant(n, "fc", CARNOT_DTYPE_F32, SHAPE(5, 192), numbers, &z));
  net_ok(carnot_network_add_fully_connected(n, x, z, NULL, &y));
  expect(y, SHAPE(2, 5, 1, 1));
  net_ok(carnot_network_add_slice(n, x, (const int64_t[]){0, 1, 5, 0},
                                  (const int64_t[]){2, 2, 3, 4}, (const int64_t[]){1, 1, -2, 2},
                                  &y));
  expect(y, SHAPE(2, 2, 3, 4));
  net_ok(
      carnot_network_add_reduce(n, x, CARNOT_REDUCE_AVG, (const int64_t[]){1, -1}, 2, false, &y));
  expect(y, SHAPE(2, 6));
  net_ok(carnot_network_add_topk(n, x, ints(n, (const int64_t[]){3}, 1), 3, true, &y, &z));
  expect(y, SHAPE(2, 4, 6, 3));
  expect(z, SHAPE(2, 4, 6, 3));
  net_ok(carnot_network_add_shuffle(n, x, (const int64_t[]){0, 2, 3, 1},
                                    ints(n, (const int64_t[]){0, -1, 4}, 3),
                                    (const int64_t[]){0, 2, 1}, &y));
  expect(y, SHAPE(2, 4, 48));
  net_ok(carnot_network_add_resize(n, x, ints(n, (const int64_t[]){2, 4, 12, 4}, 4), NULL,
                                   &(carnot_resize_config){.mode = CARNOT_INTERPOLATION_LINEAR},
                                   &y));
  expect(y, SHAPE(2, 4, 12, 4));
  net_ok(carnot_network_add_padding(n, x, (const int64_t[]){0, 0, 1, 2},
                                    (const int64_t[]){0, 0, 0, -1}, CARNOT_PAD_CONSTANT, 0, &y));
  expect(y, SHAPE(2, 4, 7, 9));
  net_ok(carnot_network_add_concatenation(n, (carnot_value* const[]){x, x, x}, 3, 2, &y));
  expect(y, SHAPE(2, 4, 18, 8));
  net_ok(carnot_network_add_attention(n, x, x, x, NULL, NULL, &y));
  expect(y, SHAPE(2, 4, 6, 8));
  net_ok(carnot_network_add_einsum(n, "bhsd,bhtd->bhst", (carnot_value* const[]){x, x}, 2, &y));
  expect(y, SHAPE(2, 4, 6, 6));
  net_ok(carnot_network_add_cumulative(n, x, 1, false, true, &y));
  net_ok(carnot_network_add_lrn(n, x, 3, 1e-4, 0.75, 1, &y));
  net_ok(carnot_network_add_unary(n, x, CARNOT_UNARY_IS_INF, &flag));
  net_ok(carnot_network_add_select(n, flag, x, y, &y));
  net_ok(carnot_network_add_fill_constant(n, ints(n, (const int64_t[]){3, 2}, 2), CARNOT_DTYPE_I32,
                                          7, &y));
  expect(y, SHAPE(3, 2));
  net_ok(carnot_network_add_fill_random(n, SHAPE(3, 5), CARNOT_DTYPE_F32, true, 0, 1, 1, &y));
  expect(y, SHAPE(3, 5));
  // A call with wrong arguments returns an error with a message and adds no layer.
  carnot_status* status = carnot_network_add_activation(n, x, (carnot_activation)99, 0, 0, &y);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_ARGUMENT);
  carnot_status_free(status);
  status = carnot_network_add_elementwise(n, x, NULL, CARNOT_ELEMENTWISE_SUM, &y);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_ARGUMENT);
  carnot_status_free(status);
  carnot_network_destroy(n);
}

// y = c ? normalised x : x + x, with the scale from outside of the branch.
static void test_conditional(void** state) {
  (void)state;
  carnot_network* n;
  carnot_value *c, *x, *half, *t, *e, *y;
  net_ok(carnot_network_create(&n));
  net_ok(carnot_network_add_input(n, "c", CARNOT_DTYPE_BOOL, &(carnot_dims){0}, NULL, &c));
  net_ok(carnot_network_add_input(n, "x", CARNOT_DTYPE_F32, SHAPE(2), NULL, &x));
  net_ok(carnot_network_add_scalar(n, CARNOT_DTYPE_F32, 0.5, &half));
  carnot_conditional* branch;
  net_ok(carnot_network_begin_if(n, c, &branch));
  net_ok(carnot_network_add_elementwise(n, x, half, CARNOT_ELEMENTWISE_PROD, &t));
  net_ok(carnot_conditional_else(branch, &t, 1));
  net_ok(carnot_network_add_elementwise(n, x, x, CARNOT_ELEMENTWISE_SUM, &e));
  net_ok(carnot_conditional_end(branch, &e, 1, &y));
  net_ok(carnot_network_mark_output(n, y, "y"));
  carnot_engine* engine;
  carnot_context* context;
  carnot_config* config;
  net_ok(carnot_config_create(&config));
  net_ok(carnot_config_set_device(config, net_device() ? net_device() : "cpu"));
  net_ok(carnot_build_engine(n, config, &engine));
  carnot_config_destroy(config);
  carnot_network_destroy(n);
  carnot_context_config in_host = {.thread_count = 1, .host_tensors = true};
  net_ok(carnot_context_create(engine, &in_host, &context));
  float data[2] = {4, -6};
  for (int i = 0; i < 2; i++) {
    bool choice = i == 0;
    net_ok(carnot_context_set_tensor_address(context, "c", &choice, 1));
    net_ok(carnot_context_set_tensor_address(context, "x", data, sizeof(data)));
    net_ok(carnot_context_run(context));
    net_near(carnot_context_output_data(context, "y"),
             choice ? (const double[]){2, -3} : (const double[]){8, -12}, 2, 0, 0);
  }
  carnot_context_destroy(context);
  carnot_engine_release(engine);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_shapes),
                                     cmocka_unit_test(test_conditional)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
