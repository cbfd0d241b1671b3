// Builds, runs and checks graphs for the integration tests.
#include "net.h"

void net_ok(carnot_status* status) {
  if (!status) return;
  print_error("%s\n", carnot_status_message(status));
  carnot_status_free(status);
  fail();
}

float net_number(uint32_t seed, size_t index) {
  uint32_t h = seed * 2654435761u + (uint32_t)index * 2246822519u + 374761393u;
  h = (h ^ (h >> 15)) * 2246822519u;
  h = (h ^ (h >> 13)) * 3266489917u;
  return (float)((double)(h >> 8) / (1 << 23) - 1.0);
}

float* net_numbers(carnot_arena* arena, uint32_t seed, size_t count) {
  float* data = CARNOT_NEW_ARRAY(arena, float, count + 1);
  for (size_t i = 0; i < count; i++) data[i] = net_number(seed, i);
  return data;
}

carnot_value* net_input(carnot_graph* graph, const char* name, carnot_dtype dtype,
                        const int64_t* dims, int rank) {
  carnot_type type = {.kind = CARNOT_VALUE_TENSOR, .dtype = dtype, .rank = rank};
  for (int d = 0; d < rank; d++) {
    type.dims[d] = carnot_sym_of(dims[d]);
    if (dims[d] >= 0) continue;
    char text[16];
    snprintf(text, sizeof(text), "d%d", (int)-dims[d]);
    type.dims[d] = carnot_sym_new(&graph->syms, text, 0, CARNOT_DIM_UNBOUNDED);
    for (int e = 0; e < d; e++)
      if (dims[e] == dims[d]) type.dims[d] = type.dims[e];
  }
  return carnot_block_add_param(graph->main, name, &type);
}

carnot_value* net_weight(carnot_graph* graph, const char* name, uint32_t seed, float* data,
                         const int64_t* dims, int rank) {
  carnot_tensor t = {.dtype = CARNOT_DTYPE_F32, .rank = rank};
  memcpy(t.dims, dims, (size_t)rank * sizeof(*dims));
  t.data = data ? data : net_numbers(&graph->arena, seed, (size_t)carnot_dims_count(dims, rank));
  return carnot_graph_constant(graph->main, name, &t);
}

carnot_value* net_node(carnot_graph* graph, carnot_op op, const carnot_attrs* attrs,
                       carnot_value* const* inputs, int input_count) {
  carnot_node* node = NULL;
  net_ok(carnot_block_add_node(graph->main, op, NULL, attrs, inputs, input_count, NULL, 1, &node));
  return node->outputs[0];
}

carnot_value* net_fn(carnot_graph* graph, carnot_op op, const char* fn, carnot_value* const* inputs,
                     int input_count) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &graph->arena, "fn", carnot_fn_find(carnot_view(fn)));
  return net_node(graph, op, &attrs, inputs, input_count);
}

carnot_plugin_entry* net_plugin(const char* name, const char* version) {
  carnot_plugin_entry* entry = NULL;
  net_ok(carnot_registry_find(&(carnot_plugin_key){name, version, "", NULL}, &entry));
  return entry;
}

void net_output(carnot_graph* graph, carnot_value* value, const char* name) {
  value->name = name;
  carnot_block_add_output(graph->main, value);
}

const char* net_device(void) { return getenv("CARNOT_TEST_DEVICE"); }
bool net_computes(void) { return getenv("CARNOT_FAKE_KERNELS") == NULL; }

void net_bytes(const carnot_graph* graph, const carnot_build_config* config, void** out_data,
               size_t* out_size) {
  carnot_build_config used;
  carnot_build_config_init(&used);
  used.level = 1;
  if (config) used = *config;
  if (net_device()) net_ok(carnot_device_open(net_device(), &used.device));
  carnot_plan* plan = NULL;
  net_ok(carnot_build_plan(graph, &used, &plan));
  net_ok(carnot_plan_write_memory(plan, out_data, out_size));
  carnot_plan_destroy(plan);
}

carnot_engine* net_engine(const carnot_graph* graph, const carnot_build_config* config) {
  void* data;
  size_t size;
  net_bytes(graph, config, &data, &size);
  carnot_engine* engine = NULL;
  net_ok(carnot_engine_load_memory(data, size, NULL, NULL, &engine));
  free(data);
  return engine;
}

carnot_context* net_context(carnot_engine* engine, int isa) {
  carnot_context_options options = {.isa = isa, .host_io = net_device() != NULL};
  carnot_context* context = NULL;
  net_ok(carnot_context_create_on(engine, &options, &context));
  return context;
}

void net_set(carnot_context* context, const char* name, carnot_dtype dtype, const void* data,
             const int64_t* dims, int rank) {
  carnot_rt_value cell = {.kind = CARNOT_VALUE_TENSOR,
                          .tensor = {.dtype = dtype, .rank = rank, .data = (void*)(uintptr_t)data}};
  for (int d = 0; d < rank; d++) cell.tensor.dims[d] = dims[d];
  uint32_t index = 0;
  net_ok(carnot_plan_find_binding(context->plan, name, &index));
  net_ok(carnot_context_set_input_cell(context, index, &cell));
}

const carnot_tensor* net_get(const carnot_context* context, const char* name) {
  uint32_t index = 0;
  net_ok(carnot_plan_find_binding(context->plan, name, &index));
  return &carnot_context_output(context, index)->tensor;
}

void net_near(const float* found, const double* wanted, size_t count, double relative,
              double absolute) {
  if (!net_computes()) return;
  for (size_t i = 0; i < count; i++) {
    if (fabs((double)found[i] - wanted[i]) <= absolute + relative * fabs(wanted[i])) continue;
    print_error("element %zu of %zu is %.9g, must be %.9g\n", i, count, (double)found[i],
                wanted[i]);
    fail();
  }
}
