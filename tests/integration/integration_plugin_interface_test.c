// Optional functions of the plugin interface: data-dependent output sizes, supported layouts and
// types, shape inputs, aliased outputs.
#include "carnot/plugin.h"

#include "engine/engine.h"
#include "net.h"

// ---- "TestPositive": the elements of x above 0, in order, and their number; its third output is
// written in place of input 1 ----

static bool positive_dtypes(void* self, const carnot_dtype* in, int32_t in_count, carnot_dtype* out,
                            int32_t out_count, carnot_plugin_error* error) {
  (void)self, (void)in, (void)in_count, (void)out_count, (void)error;
  out[0] = out[2] = CARNOT_DTYPE_F32;
  out[1] = CARNOT_DTYPE_I64;
  return true;
}
static bool positive_dims(void* self, const carnot_plugin_shape* in, int32_t in_count,
                          carnot_plugin_shape* out, int32_t out_count, const carnot_exprs* e,
                          carnot_plugin_error* error) {
  (void)self, (void)in_count, (void)out_count, (void)error;
  out[0].rank = 1;
  out[0].dims[0] = e->size_of_output(e->host, 1, in[0].dims[0], in[0].dims[0]);
  out[1].rank = 0;
  out[2] = in[1];
  return true;
}
static bool positive_supports(void* self, int32_t position, const carnot_plugin_format* f,
                              int32_t in_count, int32_t out_count) {
  (void)self, (void)in_count, (void)out_count;
  return f[position].dtype == (position == 3 ? CARNOT_DTYPE_I64 : CARNOT_DTYPE_F32) &&
         f[position].layout == CARNOT_PLUGIN_LINEAR;
}
static bool positive_enqueue(void* self, const carnot_plugin_run* run, carnot_plugin_error* error) {
  (void)self, (void)error;
  const float* x = run->inputs[0].data;
  float* y = run->outputs[0].data;
  int64_t count = 0;
  for (int64_t i = 0; i < run->inputs[0].dims.d[0]; i++)
    if (x[i] > 0) y[count++] = x[i];
  memcpy(run->outputs[1].data, &count, sizeof(count));
  assert_ptr_equal(run->inputs[1].data, run->outputs[2].data);
  for (int64_t i = 0; i < run->outputs[2].dims.d[0]; i++) ((float*)run->outputs[2].data)[i] += 1;
  return true;
}
static bool no_fields(void* self, const carnot_plugin_field** out, int32_t* count,
                      carnot_plugin_error* error) {
  (void)self, (void)error;
  *out = NULL;
  *count = 0;
  return true;
}
static int32_t positive_alias(void* self, int32_t output) {
  (void)self;
  return output == 2 ? 1 : -1;
}
static void no_destroy(void* self) { (void)self; }
static carnot_plugin positive = {.size = sizeof(carnot_plugin),
                                 .api_version = CARNOT_PLUGIN_API_VERSION,
                                 .name = "TestPositive",
                                 .version = "1",
                                 .name_space = "test",
                                 .output_count = 3,
                                 .output_dtypes = positive_dtypes,
                                 .output_dims = positive_dims,
                                 .supports = positive_supports,
                                 .enqueue = positive_enqueue,
                                 .serialize = no_fields,
                                 .aliased_input = positive_alias,
                                 .destroy = no_destroy};
static carnot_plugin* positive_create(void* user, const char* name,
                                      const carnot_plugin_field* fields, int32_t count,
                                      carnot_plugin_phase phase, carnot_plugin_error* error) {
  (void)user, (void)name, (void)fields, (void)count, (void)phase, (void)error;
  return &positive;
}
static const carnot_plugin_creator kPositive = {.size = sizeof(carnot_plugin_creator),
                                                .api_version = CARNOT_PLUGIN_API_VERSION,
                                                .name = "TestPositive",
                                                .version = "1",
                                                .name_space = "test",
                                                .create = positive_create};

static void test_sizes_of_the_run(void** state) {
  (void)state;
  net_ok(carnot_plugin_register(&kPositive));
  carnot_plugin_entry* entry = carnot_registry_lookup("TestPositive", "1", "test");
  assert_non_null(entry);
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x[2] = {net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(-1)),
                        net_input(g, "state", CARNOT_DTYPE_F32, NET_LIST(3))};
  carnot_value* y[3];
  net_ok(carnot_plugin_add(g->main, entry, "positive", NULL, 0, x, 2, y, 3));
  net_output(g, net_fn(g, CARNOT_OP_UNARY, "neg", &y[0], 1), "y");
  net_output(g, y[1], "count");
  net_output(g, y[2], "next");
  carnot_engine* engine = net_engine(g, NULL);
  carnot_context* context = net_context(engine, -1);
  const float numbers[] = {1, -2, 3, 0, -5, 6, 7}, old[] = {10, 20, 30};
  const double wanted[] = {-1, -3, -6, -7}, next[] = {11, 21, 31};
  for (int n = 7; n >= 1; n -= 3) {  // 7, 4, 1 elements: 4, 2, 1 of them positive
    net_set(context, "x", CARNOT_DTYPE_F32, numbers, NET_LIST(n));
    net_set(context, "state", CARNOT_DTYPE_F32, old, NET_LIST(3));
    net_ok(carnot_context_run_now(context));
    int64_t count = n == 7 ? 4 : n == 4 ? 2 : 1;
    assert_int_equal(net_get(context, "y")->dims[0], count);
    net_near(net_get(context, "y")->data, wanted, (size_t)count, 0, 0);
    assert_int_equal(*(const int64_t*)net_get(context, "count")->data, count);
    net_near(net_get(context, "next")->data, next, 3, 0, 0);
  }
  assert_true(old[0] == 10);  // the user's input is not written
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  net_ok(carnot_plugin_deregister(&kPositive));
}

// ---- "TestChannels": y = x + the index of the channel, channels last only ----

static bool channels_dims(void* self, const carnot_plugin_shape* in, int32_t in_count,
                          carnot_plugin_shape* out, int32_t out_count, const carnot_exprs* e,
                          carnot_plugin_error* error) {
  (void)self, (void)in_count, (void)out_count, (void)e, (void)error;
  out[0] = in[0];
  return true;
}
static carnot_dtype channels_dtype;
static bool channels_supports(void* self, int32_t position, const carnot_plugin_format* f,
                              int32_t in_count, int32_t out_count) {
  (void)self, (void)in_count, (void)out_count;
  return f[position].dtype == channels_dtype && f[position].layout == CARNOT_PLUGIN_CHANNELS_LAST;
}
static bool channels_enqueue(void* self, const carnot_plugin_run* run, carnot_plugin_error* error) {
  (void)self, (void)error;
  const carnot_plugin_tensor *x = &run->inputs[0], *y = &run->outputs[0];
  assert_int_equal(x->format.layout, CARNOT_PLUGIN_CHANNELS_LAST);
  assert_int_equal(x->strides[1], 1);
  int64_t channels = x->dims.d[1], count = x->dims.d[0] * channels * x->dims.d[2] * x->dims.d[3];
  for (int64_t i = 0; i < count; i++)
    ((float*)y->data)[i] = ((const float*)x->data)[i] + (float)(i % channels);
  return true;
}
static carnot_plugin channels = {.size = sizeof(carnot_plugin),
                                 .api_version = CARNOT_PLUGIN_API_VERSION,
                                 .name = "TestChannels",
                                 .version = "1",
                                 .output_count = 1,
                                 .output_dims = channels_dims,
                                 .supports = channels_supports,
                                 .enqueue = channels_enqueue,
                                 .serialize = no_fields,
                                 .destroy = no_destroy};
static carnot_plugin* channels_create(void* user, const char* name,
                                      const carnot_plugin_field* fields, int32_t count,
                                      carnot_plugin_phase phase, carnot_plugin_error* error) {
  (void)user, (void)name, (void)fields, (void)count, (void)phase, (void)error;
  return &channels;
}
static const carnot_plugin_creator kChannels = {.size = sizeof(carnot_plugin_creator),
                                                .api_version = CARNOT_PLUGIN_API_VERSION,
                                                .name = "TestChannels",
                                                .version = "1",
                                                .create = channels_create};

static carnot_graph* channels_net(void) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value *x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(2, 3, 4, 5)), *y;
  x = net_fn(g, CARNOT_OP_UNARY, "neg", &x, 1);
  net_ok(
      carnot_plugin_add(g->main, net_plugin("TestChannels", "1"), "last", NULL, 0, &x, 1, &y, 1));
  net_output(g, net_fn(g, CARNOT_OP_UNARY, "neg", &y, 1), "y");
  return g;
}

static void test_layouts_and_types(void** state) {
  (void)state;
  net_ok(carnot_plugin_register(&kChannels));
  carnot_graph* g = channels_net();
  channels_dtype = CARNOT_DTYPE_F32;
  carnot_engine* engine = net_engine(g, NULL);
  carnot_context* context = net_context(engine, -1);
  float x[120];
  double wanted[120];
  for (size_t i = 0; i < 120; i++) {
    x[i] = net_number(9, i);
    wanted[i] = (double)x[i] - (double)(i / 20 % 3);
  }
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(2, 3, 4, 5));
  net_ok(carnot_context_run_now(context));
  net_near(net_get(context, "y")->data, wanted, 120, 1e-6, 1e-6);
  carnot_context_free(context);
  carnot_engine_release(engine);
  // A type that the plugin does not support is a build error that names the operand.
  channels_dtype = CARNOT_DTYPE_F16;
  carnot_build_config config;
  carnot_build_config_init(&config);
  carnot_plan* plan = NULL;
  carnot_status* status = carnot_build_plan(g, &config, &plan);
  assert_int_equal(carnot_status_code(status), CARNOT_UNSUPPORTED);
  assert_non_null(strstr(carnot_status_message(status), "does not take input 0 as float32"));
  assert_non_null(strstr(carnot_status_message(status), "node last"));
  carnot_status_free(status);
  carnot_graph_destroy(g);
  net_ok(carnot_plugin_deregister(&kChannels));
}

// ---- "TestFill": ones; the elements of input 0 are the output's dimensions ----

static bool fill_dtypes(void* self, const carnot_dtype* in, int32_t in_count, carnot_dtype* out,
                        int32_t out_count, carnot_plugin_error* error) {
  (void)self, (void)in, (void)in_count, (void)out_count, (void)error;
  out[0] = CARNOT_DTYPE_F32;
  return true;
}
static bool fill_shape_input(void* self, int32_t input) {
  (void)self;
  return input == 0;
}
static bool fill_dims(void* self, const carnot_plugin_shape* in, int32_t in_count,
                      carnot_plugin_shape* out, int32_t out_count, const carnot_exprs* e,
                      carnot_plugin_error* error) {
  (void)self, (void)in_count, (void)out_count, (void)error;
  out[0].rank = in[0].value_count;
  for (int32_t i = 0; i < in[0].value_count; i++)
    out[0].dims[i] =
        e->operation(e->host, CARNOT_EXPR_CEIL_DIV, in[0].values[i], e->constant(e->host, 2));
  return true;
}
static bool fill_supports(void* self, int32_t position, const carnot_plugin_format* f,
                          int32_t in_count, int32_t out_count) {
  (void)self, (void)in_count, (void)out_count;
  return f[position].layout == CARNOT_PLUGIN_LINEAR;
}
static bool fill_enqueue(void* self, const carnot_plugin_run* run, carnot_plugin_error* error) {
  (void)self, (void)error;
  int64_t count = 1;
  for (int32_t d = 0; d < run->outputs[0].dims.rank; d++) count *= run->outputs[0].dims.d[d];
  for (int64_t i = 0; i < count; i++) ((float*)run->outputs[0].data)[i] = 1;
  return true;
}
static carnot_plugin fill = {.size = sizeof(carnot_plugin),
                             .api_version = CARNOT_PLUGIN_API_VERSION,
                             .name = "TestFill",
                             .version = "1",
                             .output_count = 1,
                             .output_dtypes = fill_dtypes,
                             .output_dims = fill_dims,
                             .shape_input = fill_shape_input,
                             .supports = fill_supports,
                             .enqueue = fill_enqueue,
                             .serialize = no_fields,
                             .destroy = no_destroy};
static carnot_plugin* fill_create(void* user, const char* name, const carnot_plugin_field* fields,
                                  int32_t count, carnot_plugin_phase phase,
                                  carnot_plugin_error* error) {
  (void)user, (void)name, (void)fields, (void)count, (void)phase, (void)error;
  return &fill;
}
static const carnot_plugin_creator kFill = {.size = sizeof(carnot_plugin_creator),
                                            .api_version = CARNOT_PLUGIN_API_VERSION,
                                            .name = "TestFill",
                                            .version = "1",
                                            .create = fill_create};

static void check_fill(carnot_context* context, int64_t rows, int64_t columns) {
  const float x[64] = {0};
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(rows, columns));
  net_ok(carnot_context_run_now(context));
  const carnot_tensor* y = net_get(context, "y");
  assert_int_equal(y->rank, 2);
  assert_int_equal(y->dims[0], (rows + 1) / 2);
  assert_int_equal(y->dims[1], (columns + 1) / 2);
  for (int64_t i = 0; i < y->dims[0] * y->dims[1]; i++)
    assert_true(((const float*)y->data)[i] == 1);
}

static void test_shape_input(void** state) {
  (void)state;
  net_ok(carnot_plugin_register(&kFill));
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value *x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(-1, -2)), *y;
  carnot_value* shape = net_node(g, CARNOT_OP_SHAPE, NULL, &x, 1);
  net_ok(
      carnot_plugin_add(g->main, net_plugin("TestFill", "1"), "fill", NULL, 0, &shape, 1, &y, 1));
  assert_int_equal(y->type.rank, 2);
  net_output(g, y, "y");
  carnot_engine* engine = net_engine(g, NULL);
  carnot_context* context = net_context(engine, -1);
  check_fill(context, 5, 6);
  check_fill(context, 8, 7);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  net_ok(carnot_plugin_deregister(&kFill));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes_of_the_run),
                                     cmocka_unit_test(test_layouts_and_types),
                                     cmocka_unit_test(test_shape_input)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
