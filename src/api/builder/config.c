// Build configurations and the build itself.
#include <stdlib.h>

#include "api/builder/network.h"
#include "backend/device.h"
#include "builder/builder.h"
#include "carnot/builder.h"
#include "carnot/plugin.h"
#include "engine/engine.h"

typedef struct requests {
  carnot_precision_request* items;
  size_t count, capacity;
} requests;

struct carnot_config {
  carnot_arena arena;
  carnot_build_config build;
  carnot_profile* profiles;
  size_t profile_count, profile_capacity;
  const char** disabled;
  size_t disabled_count, disabled_capacity;
  requests layers, outputs;
  const char** libraries;
  size_t library_count, library_capacity;
  const char* device;  // NULL: the device rule
  int thread_count;
};

carnot_status* carnot_config_create(carnot_config** out_config) {
  *out_config = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_config), "a configuration", &memory));
  *out_config = memory;
  carnot_arena_init(&(*out_config)->arena);
  carnot_build_config_init(&(*out_config)->build);
  (*out_config)->thread_count = 1;
  return NULL;
}

void carnot_config_destroy(carnot_config* config) {
  if (!config) return;
  for (size_t i = 0; i < config->profile_count; i++) free(config->profiles[i].inputs);
  free(config->profiles);
  free(config->disabled);
  free(config->layers.items);
  free(config->outputs.items);
  free(config->libraries);
  carnot_arena_deinit(&config->arena);
  free(config);
}

static void set_constraints(carnot_config* config, carnot_constraint_mode wanted, bool on) {
  carnot_constraint_mode* now = &config->build.typing.constraints;
  if (on)
    *now = wanted;
  else if (*now == wanted)
    *now = CARNOT_CONSTRAINTS_NONE;
}

carnot_status* carnot_config_set_flag(carnot_config* config, carnot_build_flag flag, bool on) {
  switch (flag) {
    case CARNOT_BUILD_REFIT: config->build.refit = on; return NULL;
    case CARNOT_BUILD_STRIP:
      config->build.strip = on;
      config->build.refit |= on;
      return NULL;
    case CARNOT_BUILD_FAST_F32: config->build.fast_fp32 = on; return NULL;
    case CARNOT_BUILD_NO_PASSES: config->build.no_passes = on; return NULL;
    case CARNOT_BUILD_F16: config->build.typing.f16 = on; return NULL;
    case CARNOT_BUILD_BF16: config->build.typing.bf16 = on; return NULL;
    case CARNOT_BUILD_STRONGLY_TYPED: config->build.typing.strong = on; return NULL;
    case CARNOT_BUILD_PREFER_TYPES:
      set_constraints(config, CARNOT_CONSTRAINTS_PREFER, on);
      return NULL;
    case CARNOT_BUILD_OBEY_TYPES: set_constraints(config, CARNOT_CONSTRAINTS_OBEY, on); return NULL;
  }
  return CARNOT_ERROR(INVALID_ARGUMENT, "build flag %d", (int)flag);
}

carnot_status* carnot_config_set_level(carnot_config* config, int level) {
  CARNOT_CHECK(level >= 0 && level <= 5, OUT_OF_RANGE, "level %d, must be 0 to 5", level);
  config->build.level = level;
  return NULL;
}

void carnot_config_set_tactic_sources(carnot_config* config, uint32_t sources) {
  config->build.tactic_sources = sources;
}

carnot_status* carnot_config_set_device(carnot_config* config, const char* device) {
  config->device = device ? carnot_arena_text(&config->arena, device, strlen(device)) : NULL;
  return NULL;
}

carnot_status* carnot_config_set_thread_count(carnot_config* config, int thread_count) {
  CARNOT_CHECK(thread_count >= 0 && thread_count <= 4096, OUT_OF_RANGE, "%d threads", thread_count);
  config->thread_count = thread_count;
  return NULL;
}

carnot_status* carnot_config_set_time_budget(carnot_config* config, double seconds) {
  CARNOT_CHECK(seconds >= 0, OUT_OF_RANGE, "a time budget of %g s", seconds);
  config->build.time_budget_s = seconds;
  return NULL;
}

carnot_status* carnot_config_add_profile(carnot_config* config, uint32_t* out_profile) {
  void* items = config->profiles;
  CARNOT_TRY(carnot_grow(&items, &config->profile_capacity, config->profile_count + 1,
                         sizeof(carnot_profile), "profiles"));
  config->profiles = items;
  config->profiles[config->profile_count] = (carnot_profile){0};
  *out_profile = (uint32_t)config->profile_count++;
  return NULL;
}

// What profile |index| says of input |name|, added where it says nothing yet.
static carnot_status* profile_input(carnot_config* config, uint32_t index, const char* name,
                                    carnot_profile_input** out_input) {
  CARNOT_CHECK(index < config->profile_count, INVALID_ARGUMENT, "profile %u of %zu", index,
               config->profile_count);
  CARNOT_CHECK(name, INVALID_ARGUMENT, "a profile needs the name of an input");
  carnot_profile* profile = &config->profiles[index];
  size_t at = 0;
  while (at < profile->input_count && strcmp(profile->inputs[at].name, name) != 0) at++;
  if (at == profile->input_count) {
    size_t capacity = at;
    void* items = profile->inputs;
    CARNOT_TRY(carnot_grow(&items, &capacity, at + 1, sizeof(carnot_profile_input), "profile"));
    profile->inputs = items;
    profile->input_count++;
    profile->inputs[at] = (carnot_profile_input){
        .name = carnot_arena_text(&config->arena, name, strlen(name)), .no_shape = true};
  }
  *out_input = &profile->inputs[at];
  return NULL;
}

carnot_status* carnot_config_set_profile_shapes(carnot_config* config, uint32_t index,
                                                const char* name, const carnot_dims* min,
                                                const carnot_dims* opt, const carnot_dims* max) {
  CARNOT_CHECK(min && opt && max, INVALID_ARGUMENT, "a profile needs three shapes");
  carnot_profile_input* input;
  CARNOT_TRY(profile_input(config, index, name, &input));
  input->no_shape = false;
  input->min = *min;
  input->opt = *opt;
  input->max = *max;
  return NULL;
}

carnot_status* carnot_config_set_profile_values(carnot_config* config, uint32_t index,
                                                const char* name, const int64_t* min,
                                                const int64_t* opt, const int64_t* max,
                                                size_t count) {
  const int64_t* values[] = {min, opt, max};
  CARNOT_CHECK(min && opt && max && count >= 1 && count <= CARNOT_MAX_SHAPE_ELEMENTS,
               INVALID_ARGUMENT, "a profile bounds %zu elements, at most %d are allowed", count,
               CARNOT_MAX_SHAPE_ELEMENTS);
  for (size_t i = 0; i < count; i++)
    CARNOT_CHECK(min[i] <= opt[i] && opt[i] <= max[i], INVALID_ARGUMENT,
                 "element %zu: min %lld, opt %lld, max %lld are not in order", i, (long long)min[i],
                 (long long)opt[i], (long long)max[i]);
  carnot_profile_input* input;
  CARNOT_TRY(profile_input(config, index, name, &input));
  input->value_count = (uint32_t)count;
  for (int k = 0; k < 3; k++)
    input->values[k] = carnot_arena_copy(&config->arena, values[k], count * sizeof(int64_t));
  return NULL;
}

static carnot_status* add_request(carnot_config* config, requests* list, const char* pattern,
                                  const carnot_dtype* dtypes, int count) {
  carnot_precision_request request = {.type_count = count};
  CARNOT_CHECK(pattern && dtypes && count >= 1 &&
                   count <= (int)(sizeof(request.types) / sizeof(request.types[0])),
               INVALID_ARGUMENT, "a request for layer %s with %d types", pattern ? pattern : "NULL",
               count);
  for (int i = 0; i < count; i++) {
    CARNOT_CHECK(dtypes[i] > CARNOT_DTYPE_INVALID && dtypes[i] < CARNOT_DTYPE_COUNT,
                 INVALID_ARGUMENT, "a request for layer %s: type %d", pattern, (int)dtypes[i]);
    request.types[i] = dtypes[i];
  }
  request.pattern = carnot_arena_text(&config->arena, pattern, strlen(pattern));
  void* items = list->items;
  CARNOT_TRY(carnot_grow(&items, &list->capacity, list->count + 1, sizeof(request), "requests"));
  list->items = items;
  list->items[list->count++] = request;
  return NULL;
}

carnot_status* carnot_config_add_layer_precision(carnot_config* config, const char* pattern,
                                                 carnot_dtype dtype) {
  CARNOT_TRY(add_request(config, &config->layers, pattern, &dtype, 1));
  config->build.typing.layers = config->layers.items;
  config->build.typing.layer_count = config->layers.count;
  return NULL;
}

carnot_status* carnot_config_add_layer_output_types(carnot_config* config, const char* pattern,
                                                    const carnot_dtype* dtypes, int count) {
  CARNOT_TRY(add_request(config, &config->outputs, pattern, dtypes, count));
  config->build.typing.outputs = config->outputs.items;
  config->build.typing.output_count = config->outputs.count;
  return NULL;
}

static carnot_status* copy_types(carnot_config* config, const carnot_dtype* dtypes, size_t count,
                                 const carnot_dtype** out, size_t* out_count) {
  for (size_t i = 0; i < count; i++)
    CARNOT_CHECK(dtypes[i] >= CARNOT_DTYPE_INVALID && dtypes[i] < CARNOT_DTYPE_COUNT,
                 INVALID_ARGUMENT, "type %d of tensor %zu", (int)dtypes[i], i);
  *out = count ? carnot_arena_copy(&config->arena, dtypes, count * sizeof(*dtypes)) : NULL;
  *out_count = count;
  return NULL;
}

carnot_status* carnot_config_set_input_types(carnot_config* config, const carnot_dtype* dtypes,
                                             size_t count) {
  carnot_precision_constraints* typing = &config->build.typing;
  return copy_types(config, dtypes, count, &typing->input_types, &typing->input_type_count);
}

carnot_status* carnot_config_set_output_types(carnot_config* config, const carnot_dtype* dtypes,
                                              size_t count) {
  carnot_precision_constraints* typing = &config->build.typing;
  return copy_types(config, dtypes, count, &typing->result_types, &typing->result_type_count);
}

carnot_status* carnot_config_disable_pass(carnot_config* config, const char* name) {
  CARNOT_CHECK(name, INVALID_ARGUMENT, "a pass' name is NULL");
  void* items = config->disabled;
  CARNOT_TRY(carnot_grow(&items, &config->disabled_capacity, config->disabled_count + 1,
                         sizeof(char*), "pass names"));
  config->disabled = items;
  config->disabled[config->disabled_count++] =
      carnot_arena_text(&config->arena, name, strlen(name));
  return NULL;
}

carnot_status* carnot_config_serialize_plugin_library(carnot_config* config, const char* path) {
  CARNOT_CHECK(path && path[0], INVALID_ARGUMENT, "a plugin library has no path");
  void* items = config->libraries;
  CARNOT_TRY(carnot_grow(&items, &config->library_capacity, config->library_count + 1,
                         sizeof(char*), "plugin libraries"));
  config->libraries = items;
  config->libraries[config->library_count++] =
      carnot_arena_text(&config->arena, path, strlen(path));
  return NULL;
}

void carnot_config_set_timing_cache(carnot_config* config, carnot_timing_cache* cache) {
  config->build.timing_cache = cache;
}

void carnot_config_set_log(carnot_config* config,
                           void (*log)(void* user, int severity, const char* message), void* user) {
  config->build.log = log;
  config->build.user = user;
}

void carnot_config_set_progress(carnot_config* config,
                                bool (*progress)(void* user, const char* phase, int done,
                                                 int total),
                                void* user) {
  config->build.progress = progress;
  config->build.user = user;
}

// ---- build ----

static carnot_status* build_plan(const carnot_network* network, const carnot_config* config,
                                 carnot_plan** out_plan) {
  *out_plan = NULL;
  CARNOT_CHECK(network->scope == &network->main, FAILED_PRECONDITION,
               "a loop or conditional of the network is still open");
  CARNOT_CHECK(network->graph->main->output_count > 0, FAILED_PRECONDITION,
               "the network has no output: mark one");
  carnot_build_config build;
  carnot_build_config_init(&build);
  if (config) {
    build = config->build;
    build.profiles = config->profiles;
    build.profile_count = config->profile_count;
    build.disabled_passes = config->disabled;
    build.disabled_pass_count = config->disabled_count;
    build.plugin_libraries = config->libraries;
    build.plugin_library_count = config->library_count;
  }
  CARNOT_TRY(carnot_device_choose(config ? config->device : NULL, &build.device));
  if (config && config->thread_count != 1)
    CARNOT_TRY(carnot_executor_create(config->thread_count, &build.executor));
  carnot_status* status = carnot_build_plan(network->graph, &build, out_plan);
  if (build.executor) carnot_executor_destroy(build.executor);
  return status;
}

carnot_status* carnot_build_file(const carnot_network* network, const carnot_config* config,
                                 const char* path) {
  carnot_plan* plan;
  CARNOT_TRY(build_plan(network, config, &plan));
  carnot_status* status = carnot_plan_write_file(plan, path);
  carnot_plan_destroy(plan);
  return status;
}

carnot_status* carnot_build_memory(const carnot_network* network, const carnot_config* config,
                                   void** out_data, size_t* out_size) {
  *out_data = NULL;
  *out_size = 0;
  carnot_plan* plan;
  CARNOT_TRY(build_plan(network, config, &plan));
  carnot_status* status = carnot_plan_write_memory(plan, out_data, out_size);
  carnot_plan_destroy(plan);
  return status;
}

carnot_status* carnot_build_engine(const carnot_network* network, const carnot_config* config,
                                   carnot_engine** out_engine) {
  *out_engine = NULL;
  void* data;
  size_t size;
  CARNOT_TRY(carnot_build_memory(network, config, &data, &size));
  carnot_status* status = carnot_engine_load_memory(data, size, NULL, NULL, out_engine);
  free(data);
  return status;
}
