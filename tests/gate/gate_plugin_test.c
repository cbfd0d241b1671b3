// Plugins the whole way: a program's own creator with dynamic shapes, workspace, sizes that the run
// finds out and aliased outputs; a library; what an engine says when a plugin is missing.
#include "carnot/plugin.h"

#include "engine/engine.h"
#include "gate.h"
#include "plugin/front.h"

// ---- "GateCumsum": y = running sum along the last axis, times "factor"; its second output is x
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
                              .name = "GateCumsum",
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
                                              .name = "GateCumsum",
                                              .version = "2",
                                              .fields = kFields,
                                              .field_count = 2,
                                              .create = cumsum_create};

static carnot_plugin_entry* entry_of(const char* name, const char* version) {
  carnot_plugin_entry* entry = NULL;
  gate_ok(carnot_registry_find(&(carnot_plugin_key){name, version, "", NULL}, &entry));
  return entry;
}

static carnot_graph* cumsum_net(void) {
  carnot_graph* g = NULL;
  gate_ok(carnot_graph_create(&g));
  carnot_value* x = gate_input(g, "x", CARNOT_DTYPE_F32, GATE_LIST(-1, 5));
  float factor = 2;
  carnot_plugin_field field = {"factor", &factor, CARNOT_FIELD_FLOAT32, 1};
  carnot_value* y[2];
  gate_ok(carnot_plugin_add(g->main, entry_of("GateCumsum", "2"), "sums", &field, 1, &x, 1, y, 2));
  gate_output(g, gate_fn(g, CARNOT_OP_UNARY, "relu", &y[0], 1), "y");
  gate_output(g, y[1], "rest");
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
  gate_bytes(g, &config, data, size);
}

static void check_run(carnot_context* context, int64_t rows, uint32_t seed) {
  float x[40];
  double y[40], rest[40];
  for (size_t i = 0; i < (size_t)rows * 5; i++) x[i] = gate_number(seed, i);
  for (int64_t r = 0; r < rows; r++) {
    double sum = 0;
    for (int64_t i = 0; i < 5; i++) {
      sum += (double)x[r * 5 + i];
      y[r * 5 + i] = sum > 0 ? 2 * sum : 0;
      if (r) rest[(r - 1) * 5 + i] = (double)x[r * 5 + i];
    }
  }
  gate_set(context, "x", CARNOT_DTYPE_F32, x, GATE_LIST(rows, 5));
  gate_ok(carnot_context_run_now(context));
  const carnot_tensor* found = gate_get(context, "y");
  assert_int_equal(found->dims[0], rows);
  gate_near(found->data, y, (size_t)rows * 5, 1e-6, 1e-6);
  found = gate_get(context, "rest");
  assert_int_equal(found->dims[0], rows - 1);
  gate_near(found->data, rest, (size_t)(rows - 1) * 5, 0, 0);
}

static void test_own_creator(void** state) {
  (void)state;
  gate_ok(carnot_plugin_register(&kCumsum));
  carnot_graph* g = cumsum_net();
  void* data;
  size_t size;
  bytes_of(g, &data, &size);
  carnot_engine* engine = NULL;
  gate_ok(carnot_engine_load_memory(data, size, NULL, NULL, &engine));
  clones = 0;
  carnot_context *a = gate_context(engine, -1), *b = gate_context(engine, -1);
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
  gate_ok(carnot_plugin_deregister(&kCumsum));
  // Without the creator the engine is refused at load, with what is needed and where.
  status = carnot_engine_load_memory(data, size, NULL, NULL, &engine);
  assert_int_equal(carnot_status_code(status), CARNOT_NOT_FOUND);
  assert_non_null(strstr(carnot_status_message(status), "GateCumsum version 2"));
  assert_non_null(strstr(carnot_status_message(status), "node sums"));
  carnot_status_free(status);
  // With another version it says which there is.
  carnot_plugin_creator other = kCumsum;
  other.version = "3";
  gate_ok(carnot_plugin_register(&other));
  status = carnot_engine_load_memory(data, size, NULL, NULL, &engine);
  assert_int_equal(carnot_status_code(status), CARNOT_VERSION_MISMATCH);
  assert_non_null(strstr(carnot_status_message(status), "GateCumsum version 3"));
  carnot_status_free(status);
  gate_ok(carnot_plugin_deregister(&other));
  free(data);
}

static void test_interface_version(void** state) {
  (void)state;
  carnot_plugin_creator other = kCumsum;
  other.api_version = CARNOT_PLUGIN_API_VERSION + 1;
  carnot_status* status = carnot_plugin_register(&other);
  assert_int_equal(carnot_status_code(status), CARNOT_VERSION_MISMATCH);
  carnot_status_free(status);
  gate_ok(carnot_plugin_register(&kCumsum));
  status = carnot_plugin_register(&kCumsum);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_ARGUMENT);
  carnot_status_free(status);
  // What the program made holds the creator.
  carnot_plugin* plugin = NULL;
  gate_ok(carnot_plugin_create(&kCumsum, NULL, NULL, 0, &plugin));
  status = carnot_plugin_deregister(&kCumsum);
  assert_int_equal(carnot_status_code(status), CARNOT_FAILED_PRECONDITION);
  carnot_status_free(status);
  carnot_plugin_destroy(plugin);
  gate_ok(carnot_plugin_deregister(&kCumsum));
}

// ---- "GatePositive": the elements of x above 0, in order, and their number; its third output is
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
                                 .name = "GatePositive",
                                 .version = "1",
                                 .name_space = "gate",
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
                                                .name = "GatePositive",
                                                .version = "1",
                                                .name_space = "gate",
                                                .create = positive_create};

static void test_sizes_of_the_run(void** state) {
  (void)state;
  gate_ok(carnot_plugin_register(&kPositive));
  carnot_plugin_entry* entry = carnot_registry_lookup("GatePositive", "1", "gate");
  assert_non_null(entry);
  carnot_graph* g = NULL;
  gate_ok(carnot_graph_create(&g));
  carnot_value* x[2] = {gate_input(g, "x", CARNOT_DTYPE_F32, GATE_LIST(-1)),
                        gate_input(g, "state", CARNOT_DTYPE_F32, GATE_LIST(3))};
  carnot_value* y[3];
  gate_ok(carnot_plugin_add(g->main, entry, "positive", NULL, 0, x, 2, y, 3));
  gate_output(g, gate_fn(g, CARNOT_OP_UNARY, "neg", &y[0], 1), "y");
  gate_output(g, y[1], "count");
  gate_output(g, y[2], "next");
  carnot_engine* engine = gate_engine(g, NULL);
  carnot_context* context = gate_context(engine, -1);
  const float numbers[] = {1, -2, 3, 0, -5, 6, 7}, old[] = {10, 20, 30};
  const double wanted[] = {-1, -3, -6, -7}, next[] = {11, 21, 31};
  for (int n = 7; n >= 1; n -= 3) {  // 7, 4, 1 elements: 4, 2, 1 of them positive
    gate_set(context, "x", CARNOT_DTYPE_F32, numbers, GATE_LIST(n));
    gate_set(context, "state", CARNOT_DTYPE_F32, old, GATE_LIST(3));
    gate_ok(carnot_context_run_now(context));
    int64_t count = n == 7 ? 4 : n == 4 ? 2 : 1;
    assert_int_equal(gate_get(context, "y")->dims[0], count);
    gate_near(gate_get(context, "y")->data, wanted, (size_t)count, 0, 0);
    assert_int_equal(*(const int64_t*)gate_get(context, "count")->data, count);
    gate_near(gate_get(context, "next")->data, next, 3, 0, 0);
  }
  assert_true(old[0] == 10);  // the user's input is not written
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  gate_ok(carnot_plugin_deregister(&kPositive));
}

// ---- "GateChannels": y = x + the index of the channel, channels last only ----

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
                                 .name = "GateChannels",
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
                                                .name = "GateChannels",
                                                .version = "1",
                                                .create = channels_create};

static carnot_graph* channels_net(void) {
  carnot_graph* g = NULL;
  gate_ok(carnot_graph_create(&g));
  carnot_value *x = gate_input(g, "x", CARNOT_DTYPE_F32, GATE_LIST(2, 3, 4, 5)), *y;
  x = gate_fn(g, CARNOT_OP_UNARY, "neg", &x, 1);
  gate_ok(carnot_plugin_add(g->main, entry_of("GateChannels", "1"), "last", NULL, 0, &x, 1, &y, 1));
  gate_output(g, gate_fn(g, CARNOT_OP_UNARY, "neg", &y, 1), "y");
  return g;
}

static void test_layouts_and_types(void** state) {
  (void)state;
  gate_ok(carnot_plugin_register(&kChannels));
  carnot_graph* g = channels_net();
  channels_dtype = CARNOT_DTYPE_F32;
  carnot_engine* engine = gate_engine(g, NULL);
  carnot_context* context = gate_context(engine, -1);
  float x[120];
  double wanted[120];
  for (size_t i = 0; i < 120; i++) {
    x[i] = gate_number(9, i);
    wanted[i] = (double)x[i] - (double)(i / 20 % 3);
  }
  gate_set(context, "x", CARNOT_DTYPE_F32, x, GATE_LIST(2, 3, 4, 5));
  gate_ok(carnot_context_run_now(context));
  gate_near(gate_get(context, "y")->data, wanted, 120, 1e-6, 1e-6);
  carnot_context_free(context);
  carnot_engine_release(engine);
  // A type that it does not take is an error of the build, which names the operand.
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
  gate_ok(carnot_plugin_deregister(&kChannels));
}

// ---- "GateFill": as large as the elements of input 0 say, all ones ----

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
                             .name = "GateFill",
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
                                            .name = "GateFill",
                                            .version = "1",
                                            .create = fill_create};

static void check_fill(carnot_context* context, int64_t rows, int64_t columns) {
  const float x[64] = {0};
  gate_set(context, "x", CARNOT_DTYPE_F32, x, GATE_LIST(rows, columns));
  gate_ok(carnot_context_run_now(context));
  const carnot_tensor* y = gate_get(context, "y");
  assert_int_equal(y->rank, 2);
  assert_int_equal(y->dims[0], (rows + 1) / 2);
  assert_int_equal(y->dims[1], (columns + 1) / 2);
  for (int64_t i = 0; i < y->dims[0] * y->dims[1]; i++)
    assert_true(((const float*)y->data)[i] == 1);
}

static void test_shape_input(void** state) {
  (void)state;
  gate_ok(carnot_plugin_register(&kFill));
  carnot_graph* g = NULL;
  gate_ok(carnot_graph_create(&g));
  carnot_value *x = gate_input(g, "x", CARNOT_DTYPE_F32, GATE_LIST(-1, -2)), *y;
  carnot_value* shape = gate_node(g, CARNOT_OP_SHAPE, NULL, &x, 1);
  gate_ok(carnot_plugin_add(g->main, entry_of("GateFill", "1"), "fill", NULL, 0, &shape, 1, &y, 1));
  assert_int_equal(y->type.rank, 2);
  gate_output(g, y, "y");
  carnot_engine* engine = gate_engine(g, NULL);
  carnot_context* context = gate_context(engine, -1);
  check_fill(context, 5, 6);
  check_fill(context, 8, 7);
  carnot_context_free(context);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  gate_ok(carnot_plugin_deregister(&kFill));
}

// ---- a library ----

static carnot_graph* library_net(void) {
  carnot_graph* g = NULL;
  gate_ok(carnot_graph_create(&g));
  carnot_value *x = gate_input(g, "x", CARNOT_DTYPE_F32, GATE_LIST(-1, 3)), *y;
  gate_ok(carnot_plugin_add(g->main, entry_of("ExampleHardSwish", "1"), "swish", NULL, 0, &x, 1, &y,
                            1));
  gate_output(g, y, "y");
  return g;
}

static void check_library_run(carnot_engine* engine) {
  carnot_context* context = gate_context(engine, -1);
  const float x[] = {-4, -1, 0, 1, 2, 5};
  double wanted[6];
  for (int i = 0; i < 6; i++) wanted[i] = (double)x[i] * fmin(fmax((double)x[i] / 6 + 0.5, 0), 1);
  gate_set(context, "x", CARNOT_DTYPE_F32, x, GATE_LIST(2, 3));
  gate_ok(carnot_context_run_now(context));
  gate_near(gate_get(context, "y")->data, wanted, 6, 1e-6, 1e-7);
  carnot_context_free(context);
}

static void test_library(void** state) {
  (void)state;
  carnot_plugin_library *library = NULL, *again = NULL;
  gate_ok(carnot_plugin_library_load(GATE_PLUGIN_LIBRARY, NULL, &library));
  gate_ok(carnot_plugin_library_load(GATE_PLUGIN_LIBRARY, NULL, &again));
  assert_ptr_equal(library, again);
  gate_ok(carnot_plugin_library_unload(again));
  carnot_graph* g = library_net();
  const char* carried = GATE_PLUGIN_LIBRARY;
  carnot_build_config config;
  carnot_build_config_init(&config);
  void *data, *with;
  size_t size, with_size;
  gate_bytes(g, &config, &data, &size);
  config.plugin_libraries = &carried;
  config.plugin_library_count = 1;
  gate_bytes(g, &config, &with, &with_size);
  assert_true(with_size > size + 1000);
  carnot_engine* engine = NULL;
  gate_ok(carnot_engine_load_memory(data, size, NULL, NULL, &engine));
  check_library_run(engine);
  carnot_engine_release(engine);
  carnot_graph_destroy(g);
  gate_ok(carnot_plugin_library_unload(library));
  carnot_status* status = carnot_engine_load_memory(data, size, NULL, NULL, &engine);
  assert_int_equal(carnot_status_code(status), CARNOT_NOT_FOUND);
  assert_non_null(strstr(carnot_status_message(status), "plugin_hard_swish"));
  carnot_status_free(status);
  // Code inside an engine is used only where the host allows it.
  status = carnot_engine_load_memory(with, with_size, NULL, NULL, &engine);
  assert_int_equal(carnot_status_code(status), CARNOT_FAILED_PRECONDITION);
  carnot_status_free(status);
  carnot_plugin_allow_engine_code(true);
  gate_ok(carnot_engine_load_memory(with, with_size, NULL, NULL, &engine));
  carnot_plugin_allow_engine_code(false);
  check_library_run(engine);
  carnot_engine_release(engine);
  free(data);
  free(with);
}

static void test_refused_libraries(void** state) {
  (void)state;
  carnot_plugin_library* library;
  carnot_status* status = carnot_plugin_library_load(GATE_NVINFER_LIBRARY, NULL, &library);
  assert_int_equal(carnot_status_code(status), CARNOT_UNSUPPORTED);
  assert_non_null(strstr(carnot_status_message(status), "libnvinfer"));
  assert_non_null(strstr(carnot_status_message(status), "how-to-port"));
  carnot_status_free(status);
  status = carnot_plugin_library_load(__FILE__, NULL, &library);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
  carnot_status_free(status);
  status = carnot_plugin_library_load("/nowhere/libplugin.so", NULL, &library);
  assert_int_equal(carnot_status_code(status), CARNOT_IO);
  carnot_status_free(status);
}

// Names, versions and fields as TensorRT's creators have them.
static void test_builtins_are_listed(void** state) {
  static const struct {
    const char *name, *versions, *fields;
  } kWanted[] = {
      {"GroupNormalizationPlugin", "1", "eps num_groups"},
      {"InstanceNormalization_TRT", "123", "epsilon scales bias relu alpha"},
      {"Normalize_TRT", "1", "weights acrossSpatial channelShared nbWeights eps"},
      {"CustomSkipLayerNormPluginDynamic", "1256", "type_id ld beta gamma bias"},
      {"CustomSkipLayerNormPluginDynamic", "3478", "beta gamma"},
      {"CustomQKVToContextPluginDynamic", "1245",
       "type_id hidden_size num_heads has_mask dq_probs var_seqlen use_int8_scale_max"},
      {"CustomQKVToContextPluginDynamic", "36",
       "hidden_size num_heads dq_probs use_int8_scale_max use_explicit_int8 input_qkv_scale "
       "output_ctx_scale"},
      {"CustomEmbLayerNormPluginDynamic", "123456", "output_fp16 full_mask mha_type_id"},
      {"CustomFCPluginDynamic", "1", "out_dims type_id W"},
      {"CustomGeluPluginDynamic", "1", "type_id bias"},
      {"DisentangledAttention_TRT", "12", "span factor"},
      {"EfficientNMS_TRT", "1",
       "score_threshold iou_threshold max_output_boxes background_class score_activation "
       "class_agnostic box_coding"},
      {"EfficientNMS_ONNX_TRT", "1", "max_output_boxes_per_class center_point_box"},
      {"EfficientNMS_Explicit_TF_TRT", "1", "max_output_size_per_class pad_per_class clip_boxes"},
      {"EfficientNMS_Implicit_TF_TRT", "1", "max_total_size"},
      {"BatchedNMS_TRT", "1",
       "shareLocation backgroundLabelId numClasses topK keepTopK scoreThreshold iouThreshold "
       "isNormalized clipBoxes scoreBits caffeSemantics"},
      {"BatchedNMSDynamic_TRT", "1", "caffeSemantics"},
      {"NMS_TRT", "1", "inputOrder confSigmoid codeType isBatchAgnostic varianceEncodedInTarget"},
      {"NMSDynamic_TRT", "1", "nmsThreshold confidenceThreshold"},
      {"PriorBox_TRT", "1",
       "minSize maxSize aspectRatios flip clip variance imgH imgW stepH stepW offset"},
      {"GridAnchor_TRT", "1", "minSize maxSize aspectRatios featureMapShapes variance numLayers"},
      {"GridAnchorRect_TRT", "1", "numLayers"},
      {"ROIAlign_TRT", "12",
       "coordinate_transformation_mode mode output_height output_width sampling_ratio "
       "spatial_scale"},
      {"ScatterND", "1", ""},
      {"ScatterElements", "12", "axis reduction"},
      {"ModulatedDeformConv2d", "12", "stride padding dilation group deformable_group"},
      {"MultiscaleDeformableAttnPlugin_TRT", "12", ""},
      {"Region_TRT", "1", "num coords classes smTree"},
      {"Reorg_TRT", "12", "stride"},
      {"CropAndResize", "1", "crop_width crop_height"},
      {"CropAndResizeDynamic", "12", "crop_width crop_height"},
      {"ResizeNearest_TRT", "1", "scale"},
      {"FlattenConcat_TRT", "1", "axis ignoreBatch"},
      {"TopkLastDim", "1", "type_id k is_largest axis"},
      {"BatchTilePlugin_TRT", "1", ""},
      {"Clip_TRT", "1", "clipMin clipMax"},
      {"CoordConvAC", "1", ""},
      {"LReLU_TRT", "1", "negSlope"},
      {"Split", "1", "axis output_lengths"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof(kWanted) / sizeof(kWanted[0]); i++)
    for (const char* v = kWanted[i].versions; *v; v++) {
      const carnot_plugin_entry* entry = entry_of(kWanted[i].name, (const char[]){*v, 0});
      char words[256], *rest = words;
      snprintf(words, sizeof(words), "%s", kWanted[i].fields);
      for (char* field; (field = strtok_r(rest, " ", &rest));)
        assert_non_null(
            carnot_field_find(entry->creator.fields, entry->creator.field_count, field));
    }
  const carnot_plugin_creator* creator = NULL;
  gate_ok(carnot_plugin_find("GroupNormalizationPlugin", "1", NULL, &creator));
  assert_int_equal(creator->field_count, 2);
  assert_string_equal(creator->fields[0].name, "eps");
  assert_int_equal(creator->fields[1].type, CARNOT_FIELD_INT32);
  carnot_status* status = carnot_plugin_find("GroupNormalisationPlugin", "1", NULL, &creator);
  assert_int_equal(carnot_status_code(status), CARNOT_NOT_FOUND);
  assert_non_null(strstr(carnot_status_message(status), "GroupNormalizationPlugin version 1"));
  carnot_status_free(status);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_own_creator),       cmocka_unit_test(test_interface_version),
      cmocka_unit_test(test_sizes_of_the_run),  cmocka_unit_test(test_library),
      cmocka_unit_test(test_layouts_and_types), cmocka_unit_test(test_shape_input),
      cmocka_unit_test(test_refused_libraries), cmocka_unit_test(test_builtins_are_listed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
