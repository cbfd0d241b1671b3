// Editing a network: order, connections, attributes, types of inputs, weights.
#include "carnot/builder.h"
#include "carnot/edit.h"
#include "net.h"

#define SHAPE(...) \
  (&(carnot_dims){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})

static void expect_code(carnot_status* status, carnot_code code, const char* part) {
  assert_int_equal(carnot_status_code(status), code);
  assert_non_null(strstr(carnot_status_message(status), part));
  carnot_status_free(status);
}

static void count_weight(void* user, const char* name, carnot_dtype dtype, const carnot_dims* dims,
                         const void* data) {
  assert_string_equal(name, "w");
  assert_int_equal(dtype, CARNOT_DTYPE_F32);
  assert_int_equal(dims->rank, 2);
  assert_non_null(data);
  ++*(int*)user;
}

// y = softmax(relu(x) * w, 1), which is changed to y = softmax(tanh(x) * w, 0) over a dynamic
// batch.
static void test_edit(void** state) {
  (void)state;
  static const float weights[4] = {1, 2, 3, 4};
  carnot_network* n;
  carnot_value *x, *w, *relu, *product, *y, *tanh_x;
  net_ok(carnot_network_create(&n));
  net_ok(carnot_network_add_input(n, "x", CARNOT_DTYPE_F32, SHAPE(1, 2), NULL, &x));
  net_ok(carnot_network_add_constant(n, "w", CARNOT_DTYPE_F32, SHAPE(2, 2), weights, &w));
  net_ok(carnot_network_add_activation(n, x, CARNOT_ACTIVATION_TYPE_RELU, 0, 0, &relu));
  net_ok(carnot_network_add_matrix_multiply(n, relu, CARNOT_MATRIX_NONE, w, CARNOT_MATRIX_NONE,
                                            &product));
  net_ok(carnot_network_add_softmax(n, product, 1, &y));
  net_ok(carnot_value_set_name(y, "y"));
  net_ok(carnot_network_mark_output(n, y, NULL));
  carnot_layer* first = carnot_value_layer(relu);
  expect_code(carnot_layer_remove(n, first), CARNOT_FAILED_PRECONDITION, "still read");
  expect_code(carnot_network_remove_input(n, x), CARNOT_FAILED_PRECONDITION, "still read");

  net_ok(carnot_network_insert_before(n, first));
  net_ok(carnot_network_add_activation(n, x, CARNOT_ACTIVATION_TYPE_TANH, 0, 0, &tanh_x));
  net_ok(carnot_network_insert_before(n, NULL));
  assert_ptr_equal(carnot_layer_previous(first), carnot_value_layer(tanh_x));
  net_ok(carnot_network_replace_value(n, relu, tanh_x));
  net_ok(carnot_layer_remove(n, first));
  assert_string_equal(carnot_layer_function(carnot_network_first_layer(n)), "tanh");

  carnot_layer* softmax = carnot_value_layer(y);
  assert_ptr_equal(carnot_network_last_layer(n), softmax);
  int64_t axis;
  net_ok(carnot_layer_get_int(softmax, "axis", &axis));
  assert_int_equal(axis, 1);
  net_ok(carnot_layer_set_int(softmax, "axis", 0));
  expect_code(carnot_layer_set_int(softmax, "no_such", 0), CARNOT_NOT_FOUND, "no_such");
  expect_code(carnot_layer_set_float(softmax, "axis", 0), CARNOT_NOT_FOUND, "axis");

  net_ok(carnot_network_set_input_type(n, x, CARNOT_DTYPE_F32, SHAPE(-1, 2),
                                       (const char* const[]){"batch", NULL}));
  net_ok(carnot_network_infer(n));
  assert_int_equal(carnot_value_dims(y).d[0], -1);
  assert_string_equal(carnot_value_dim_name(n, y, 0), "batch");
  int count = 0;
  net_ok(carnot_network_visit_weights(n, count_weight, &count));
  assert_int_equal(count, 1);

  net_ok(carnot_layer_set_precision(softmax, CARNOT_DTYPE_F16));
  assert_int_equal(carnot_layer_precision(softmax), CARNOT_DTYPE_F16);
  net_ok(carnot_layer_set_precision(softmax, CARNOT_DTYPE_INVALID));
  expect_code(carnot_layer_set_output_type(softmax, 1, CARNOT_DTYPE_F32), CARNOT_INVALID_ARGUMENT,
              "output 1");

  carnot_engine* engine;
  carnot_context* context;
  net_ok(carnot_build_engine(n, NULL, &engine));
  net_ok(carnot_context_create(engine, NULL, &context));
  const float data[4] = {1, -1, 0.5f, 2};
  net_ok(carnot_context_set_input(context, "x", SHAPE(2, 2), data));
  net_ok(carnot_context_run(context));
  double wanted[4];
  for (int c = 0; c < 2; c++) {
    double e[2];
    for (int r = 0; r < 2; r++)
      e[r] = exp(tanh(data[2 * r]) * weights[c] + tanh(data[2 * r + 1]) * weights[2 + c]);
    for (int r = 0; r < 2; r++) wanted[2 * r + c] = e[r] / (e[0] + e[1]);
  }
  net_near(carnot_context_output_data(context, "y"), wanted, 4, 1e-6, 1e-6);

  void* bytes;
  size_t size;
  net_ok(carnot_engine_serialize(engine, false, &bytes, &size));
  carnot_engine* again;
  net_ok(carnot_engine_load_memory(bytes, size, NULL, NULL, &again));
  carnot_engine_release(again);
  carnot_memory_free(bytes);
  expect_code(carnot_engine_serialize(engine, true, &bytes, &size), CARNOT_FAILED_PRECONDITION,
              "not built for refit");
  carnot_context_destroy(context);
  carnot_engine_release(engine);
  carnot_network_destroy(n);
}

// A layer that reads a later one moves behind it; a cycle is an error that names a layer.
static void test_order(void** state) {
  (void)state;
  carnot_network* n;
  carnot_value *x, *a, *b, *c;
  net_ok(carnot_network_create(&n));
  net_ok(carnot_network_add_input(n, "x", CARNOT_DTYPE_F32, SHAPE(3), NULL, &x));
  net_ok(carnot_network_add_unary(n, x, CARNOT_UNARY_EXP, &a));
  net_ok(carnot_network_add_unary(n, x, CARNOT_UNARY_NEG, &b));
  net_ok(carnot_network_add_unary(n, b, CARNOT_UNARY_ABS, &c));
  net_ok(carnot_layer_set_input(n, carnot_value_layer(a), 0, c));
  net_ok(carnot_network_infer(n));
  assert_ptr_equal(carnot_network_last_layer(n), carnot_value_layer(a));
  assert_ptr_equal(carnot_network_first_layer(n), carnot_value_layer(b));
  net_ok(carnot_layer_set_input(n, carnot_value_layer(b), 0, a));
  expect_code(carnot_network_infer(n), CARNOT_INVALID_MODEL, "its own output");
  net_ok(carnot_layer_set_input(n, carnot_value_layer(b), 0, x));
  net_ok(carnot_network_infer(n));
  expect_code(carnot_layer_set_input(n, carnot_value_layer(b), 0, NULL), CARNOT_INVALID_ARGUMENT,
              "needs input 0");
  expect_code(carnot_network_unmark_output(n, c), CARNOT_NOT_FOUND, "no output");
  carnot_network_destroy(n);
}

// y = reshape(x, shape), the shape an input: marked as a shape input, bounded by the profile, read
// again when its memory changed.
static void test_shape_input(void** state) {
  (void)state;
  static const int64_t least[2] = {1, 1}, usual[2] = {2, 3}, most[2] = {6, 6}, low[2] = {0, 1};
  carnot_network* n;
  carnot_value *x, *shape, *y;
  net_ok(carnot_network_create(&n));
  net_ok(carnot_network_add_input(n, "x", CARNOT_DTYPE_F32, SHAPE(6), NULL, &x));
  net_ok(carnot_network_add_input(n, "shape", CARNOT_DTYPE_I64, SHAPE(2), NULL, &shape));
  bool is_shape = true;
  net_ok(carnot_network_is_shape_input(n, shape, &is_shape));
  assert_false(is_shape);
  net_ok(carnot_network_add_shuffle(n, x, NULL, shape, NULL, &y));
  net_ok(carnot_value_set_name(y, "y"));
  net_ok(carnot_network_mark_output(n, y, NULL));
  net_ok(carnot_network_is_shape_input(n, shape, &is_shape));
  assert_true(is_shape);
  net_ok(carnot_network_is_shape_input(n, x, &is_shape));
  assert_false(is_shape);

  carnot_config* config;
  uint32_t profile;
  net_ok(carnot_config_create(&config));
  net_ok(carnot_config_add_profile(config, &profile));
  expect_code(carnot_config_set_profile_values(config, profile, "shape", usual, least, most, 2),
              CARNOT_INVALID_ARGUMENT, "not in order");
  net_ok(carnot_config_set_profile_values(config, profile, "shape", least, usual, most, 2));
  carnot_engine* engine;
  net_ok(carnot_build_engine(n, config, &engine));
  int64_t told[64];
  size_t count;
  net_ok(carnot_engine_profile_values(engine, 0, "shape", NULL, NULL, told, &count));
  assert_int_equal(count, 2);
  assert_int_equal(told[1], 6);

  carnot_context* context;
  net_ok(carnot_context_create(engine, NULL, &context));
  float data[6] = {1, 2, 3, 4, 5, 6};
  int64_t elements[2] = {2, 3};
  carnot_dims dims;
  net_ok(carnot_context_set_input(context, "x", SHAPE(6), data));
  net_ok(carnot_context_set_input(context, "shape", SHAPE(2), elements));
  net_ok(carnot_context_infer_shapes(context));
  net_ok(carnot_context_tensor_dims(context, "y", &dims));
  assert_int_equal(dims.d[1], 3);
  net_ok(carnot_context_run(context));
  elements[0] = 6, elements[1] = 1;
  net_ok(carnot_context_run(context));
  net_ok(carnot_context_tensor_dims(context, "y", &dims));
  assert_int_equal(dims.d[0], 6);
  assert_memory_equal(carnot_context_output_data(context, "y"), data, sizeof(data));
  memcpy(elements, low, sizeof(low));
  expect_code(carnot_context_run(context), CARNOT_INVALID_ARGUMENT,
              "shape input shape: element 0 is 0, profile 0 allows [1, 6]");
  memcpy(elements, usual, sizeof(usual));
  net_ok(carnot_context_run(context));
  carnot_context_destroy(context);
  carnot_engine_release(engine);
  carnot_config_destroy(config);
  carnot_network_destroy(n);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_edit), cmocka_unit_test(test_order),
                                     cmocka_unit_test(test_shape_input)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
