// A program's own plugin: dynamic shapes, workspace, an aliased output, serialized fields, and what
// an engine says when its creator is missing.
#include "carnot/plugin.h"

#include "engine/engine.h"
#include "net.h"
#include "plugin/front.h"

// ---- "TestCumsum": y = running sum along the last axis, times "factor"; its second output is x
// without its first row ----

typedef struct cumsum {
  carnot_plugin plugin;
  float factor;
  int configured, shape_changes;
  carnot_plugin_field fields[2];
} cumsum;

static int live_plugins, clones, fields_seen_configured;

static bool cumsum_dims(void* self, const carnot_plugin_shape* in, int32_t in_count,
                        carnot_plugin_shape* out, int32_t out_count, const carnot_exprs* e,
                        carnot_plugin_error* error) {
  (void)self, (void)in_count, (void)out_count;
  if (in[0].rank != 2) {
    snprintf(error->message, sizeof(error->message), "rank %d, must be 2", in[0].rank);
    return false;
  }
  out[0] = out[1] = in[0];
  out[1].dims[0] = e->operation(e->host, CARNOT_EXPR_SUB, in[0].dims[0], e->constant(e->host, 1));
  return true;
}

static bool cumsum_configure(void* self, const carnot_plugin_range* in, int32_t in_count,
                             const carnot_plugin_range* out, int32_t out_count,
                             carnot_plugin_error* error) {
  (void)error;
  assert_int_equal(in_count, 1);
  assert_int_equal(out_count, 2);
  assert_int_equal(in[0].min.d[0], 2);
  assert_int_equal(in[0].opt.d[0], 4);
  assert_int_equal(in[0].max.d[0], 8);
  assert_int_equal(out[1].max.d[0], 7);
  ((cumsum*)self)->configured = 1;
  return true;
}

static bool cumsum_shape_change(void* self, const carnot_plugin_tensor* in, int32_t in_count,
                                const carnot_plugin_tensor* out, int32_t out_count,
                                carnot_plugin_error* error) {
  (void)in, (void)in_count, (void)out, (void)out_count, (void)error;
  ((cumsum*)self)->shape_changes++;
  return true;
}

static size_t cumsum_workspace(void* self, const carnot_plugin_tensor* in, int32_t in_count,
                               const carnot_plugin_tensor* out, int32_t out_count) {
  (void)self, (void)in_count, (void)out, (void)out_count;
  return (size_t)in[0].dims.d[1] * sizeof(double);
}

static bool cumsum_enqueue(void* self, const carnot_plugin_run* run, carnot_plugin_error* error) {
  const cumsum* c = self;
  int64_t rows = run->inputs[0].dims.d[0], columns = run->inputs[0].dims.d[1];
  if (run->workspace_bytes < (size_t)columns * sizeof(double) || !c->shape_changes) {
    snprintf(error->message, sizeof(error->message), "no workspace, or shapes were not told");
    return false;
  }
  double* sums = run->workspace;
  const float* x = run->inputs[0].data;
  float *y = run->outputs[0].data, *rest = run->outputs[1].data;
  for (int64_t r = 0; r < rows; r++) {
    for (int64_t i = 0; i < columns; i++)
      sums[i] = (i ? sums[i - 1] : 0) + (double)x[r * columns + i];
    for (int64_t i = 0; i < columns; i++) y[r * columns + i] = (float)(sums[i] * (double)c->factor);
  }
  memcpy(rest, x + columns, (size_t)((rows - 1) * columns) * sizeof(float));
  return true;
}

static bool cumsum_serialize(void* self, const carnot_plugin_field** out, int32_t* count,
                             carnot_plugin_error* error) {
  cumsum* c = self;
  (void)error;
  c->fields[0] = (carnot_plugin_field){"factor", &c->factor, CARNOT_FIELD_FLOAT32, 1};
  c->fields[1] = (carnot_plugin_field){"configured", &c->configured, CARNOT_FIELD_INT32, 1};
  *out = c->fields;
  *count = 2;
  return true;
}

static void cumsum_destroy(void* self) {
  live_plugins--;
  free(self);
}

static carnot_plugin* cumsum_new(float factor, int configured);
static carnot_plugin* cumsum_clone(void* self, carnot_plugin_error* error) {
  (void)error;
  clones++;
  return cumsum_new(((cumsum*)self)->factor, ((cumsum*)self)->configured);
}

static carnot_plugin* cumsum_new(float factor, int configured) {
  cumsum* c = calloc(1, sizeof(*c));
  assert_non_null(c);
  live_plugins++;
  c->factor = factor;
  c->configured = configured;
  c->plugin = (carnot_plugin){.size = sizeof(carnot_plugin),
                              .api_version = CARNOT_PLUGIN_API_VERSION,
                              .name = "TestCumsum",
                              .version = "2",
                              .self = c,
                              .output_count = 2,
                              .output_dims = cumsum_dims,
                              .configure = cumsum_configure,
                              .on_shape_change = cumsum_shape_change,
                              .workspace_bytes = cumsum_workspace,
                              .enqueue = cumsum_enqueue,
                              .serialize = cumsum_serialize,
                              .clone = cumsum_clone,
                              .destroy = cumsum_destroy};
  return &c->plugin;
}

static carnot_plugin* cumsum_create(void* user, const char* name, const carnot_plugin_field* fields,
                                    int32_t count, carnot_plugin_phase phase,
                                    carnot_plugin_error* error) {
  (void)user, (void)name, (void)error;
  float factor = 1;
  int configured = 0;
  for (int32_t i = 0; i < count; i++) {
    if (strcmp(fields[i].name, "factor") == 0) memcpy(&factor, fields[i].data, sizeof(factor));
    if (strcmp(fields[i].name, "configured") == 0)
      memcpy(&configured, fields[i].data, sizeof(configured));
  }
  if (phase == CARNOT_PLUGIN_RUNTIME) fields_seen_configured = configured;
  return cumsum_new(factor, configured);
}

static const carnot_plugin_field kFields[] = {{"factor", NULL, CARNOT_FIELD_FLOAT32, 1},
                                              {"configured", NULL, CARNOT_FIELD_INT32, 1}};
static const carnot_plugin_creator kCumsum = {.size = sizeof(carnot_plugin_creator),
                                              .api_version = CARNOT_PLUGIN_API_VERSION,
                                              .name = "TestCumsum",
                                              .version = "2",
                                              .fields = kFields,
                                              .field_count = 2,
                                              .create = cumsum_create};

static carnot_graph* cumsum_net(void) {
  carnot_graph* g = NULL;
  net_ok(carnot_graph_create(&g));
  carnot_value* x = net_input(g, "x", CARNOT_DTYPE_F32, NET_LIST(-1, 5));
  float factor = 2;
  carnot_plugin_field field = {"factor", &factor, CARNOT_FIELD_FLOAT32, 1};
  carnot_value* y[2];
  net_ok(carnot_plugin_add(g->main, net_plugin("TestCumsum", "2"), "sums", &field, 1, &x, 1, y, 2));
  net_output(g, net_fn(g, CARNOT_OP_UNARY, "relu", &y[0], 1), "y");
  net_output(g, y[1], "rest");
  return g;
}

static void bytes_of(carnot_graph* g, void** data, size_t* size) {
  carnot_profile_input range = {
      .name = "x", .min = {2, {2, 5}}, .opt = {2, {4, 5}}, .max = {2, {8, 5}}};
  carnot_profile profile = {&range, 1};
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.profiles = &profile;
  config.profile_count = 1;
  net_bytes(g, &config, data, size);
}

static void check_run(carnot_context* context, int64_t rows, uint32_t seed) {
  float x[40];
  double y[40], rest[40];
  for (size_t i = 0; i < (size_t)rows * 5; i++) x[i] = net_number(seed, i);
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0;
    for (int64_t i = 0; i < 5; i++) {
      sum += (double)x[r * 5 + i];
      y[r * 5 + i] = sum > 0 ? 2 * sum : 0;
      if (r) rest[(r - 1) * 5 + i] = (double)x[r * 5 + i];
    }
  }
  net_set(context, "x", CARNOT_DTYPE_F32, x, NET_LIST(rows, 5));
  net_ok(carnot_context_run_now(context));
  const carnot_tensor* found = net_get(context, "y");
  assert_int_equal(found->dims[0], rows);
  net_near(found->data, y, (size_t)rows * 5, 1e-6, 1e-6);
  found = net_get(context, "rest");
  assert_int_equal(found->dims[0], rows - 1);
  net_near(found->data, rest, (size_t)(rows - 1) * 5, 0, 0);
}

static void test_own_creator(void** state) {
  (void)state;
  net_ok(carnot_plugin_register(&kCumsum));
  carnot_graph* g = cumsum_net();
  void* data;
  size_t size;
  bytes_of(g, &data, &size);
  carnot_engine* engine = NULL;
  net_ok(carnot_engine_load_memory(data, size, NULL, NULL, &engine));
  clones = 0;
  carnot_context *a = net_context(engine, -1), *b = net_context(engine, -1);
  assert_int_equal(clones, 2);
  assert_int_equal(fields_seen_configured, 1);
  check_run(a, 4, 1);
  check_run(b, 8, 2);
  check_run(a, 2, 3);
  check_run(a, 4, 1);
  carnot_status* status = carnot_plugin_deregister(&kCumsum);
  assert_int_equal(carnot_status_code(status), CARNOT_FAILED_PRECONDITION);
  carnot_status_free(status);
  carnot_context_free(a);
  carnot_context_free(b);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  assert_int_equal(live_plugins, 0);
  net_ok(carnot_plugin_deregister(&kCumsum));
  // Without the creator, load fails and names the plugin and the step.
  status = carnot_engine_load_memory(data, size, NULL, NULL, &engine);
  assert_int_equal(carnot_status_code(status), CARNOT_NOT_FOUND);
  assert_non_null(strstr(carnot_status_message(status), "TestCumsum version 2"));
  assert_non_null(strstr(carnot_status_message(status), "node sums"));
  carnot_status_free(status);
  // With another version the message names the version that is registered.
  carnot_plugin_creator other = kCumsum;
  other.version = "3";
  net_ok(carnot_plugin_register(&other));
  status = carnot_engine_load_memory(data, size, NULL, NULL, &engine);
  assert_int_equal(carnot_status_code(status), CARNOT_VERSION_MISMATCH);
  assert_non_null(strstr(carnot_status_message(status), "TestCumsum version 3"));
  carnot_status_free(status);
  net_ok(carnot_plugin_deregister(&other));
  free(data);
}

static void test_interface_version(void** state) {
  (void)state;
  carnot_plugin_creator other = kCumsum;
  other.api_version = CARNOT_PLUGIN_API_VERSION + 1;
  carnot_status* status = carnot_plugin_register(&other);
  assert_int_equal(carnot_status_code(status), CARNOT_VERSION_MISMATCH);
  carnot_status_free(status);
  net_ok(carnot_plugin_register(&kCumsum));
  status = carnot_plugin_register(&kCumsum);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_ARGUMENT);
  carnot_status_free(status);
  // A creator cannot be deregistered while a plugin of it exists.
  carnot_plugin* plugin = NULL;
  net_ok(carnot_plugin_create(&kCumsum, NULL, NULL, 0, &plugin));
  status = carnot_plugin_deregister(&kCumsum);
  assert_int_equal(carnot_status_code(status), CARNOT_FAILED_PRECONDITION);
  carnot_status_free(status);
  carnot_plugin_destroy(plugin);
  net_ok(carnot_plugin_deregister(&kCumsum));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_own_creator),
                                     cmocka_unit_test(test_interface_version)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
