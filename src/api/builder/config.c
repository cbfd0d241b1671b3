// Build configurations: flags, limits, requests for types, passes.
#include "api/builder/config.h"

#include <stdlib.h>

#include "carnot/plugin.h"
#include "pass/pass.h"

carnot_status* carnot_config_create(carnot_config** out_config) {
  *out_config = NULL;
  void* memory;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_config), "a configuration", &memory));
  carnot_config* config = memory;
  carnot_arena_init(&config->arena);
  carnot_status* status = carnot_arena_prepare(&config->arena);
  if (status) {
    carnot_config_destroy(config);
    return status;
  }
  *out_config = config;
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
  free(config->io_formats);
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
    case CARNOT_BUILD_QUANTIZED: config->wants_quantized = on; return NULL;
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

static carnot_status* add_request(carnot_config* config, carnot_request_list* list,
                                  const char* pattern, const carnot_dtype* dtypes, int count) {
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
  CARNOT_TRY(carnot_arena_status(&config->arena));
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
  CARNOT_TRY(carnot_arena_status(&config->arena));
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

carnot_status* carnot_config_set_tensor_formats(carnot_config* config, const char* name,
                                                uint32_t allowed) {
  CARNOT_CHECK(name, INVALID_ARGUMENT, "a format without the name of a tensor");
  CARNOT_CHECK(allowed && allowed < 1u << CARNOT_TENSOR_FORMAT_COUNT, INVALID_ARGUMENT,
               "tensor %s: allowed formats 0x%x, must be a set of bits [0, %d)", name, allowed,
               (int)CARNOT_TENSOR_FORMAT_COUNT);
  size_t count = config->build.io_format_count;
  for (size_t i = 0; i < count; i++)
    if (strcmp(config->io_formats[i].name, name) == 0) {
      config->io_formats[i].allowed = allowed;
      return NULL;
    }
  carnot_io_request* grown = realloc(config->io_formats, (count + 1) * sizeof(*grown));
  if (!grown) return CARNOT_NO_MEMORY((count + 1) * sizeof(*grown), "formats");
  const char* copy = carnot_arena_text(&config->arena, name, strlen(name));
  config->build.io_formats = config->io_formats = grown;
  CARNOT_TRY(carnot_arena_status(&config->arena));
  grown[count] = (carnot_io_request){.name = copy, .allowed = allowed};
  config->build.io_format_count = count + 1;
  return NULL;
}

carnot_status* carnot_config_set_isa(carnot_config* config, const char* isa) {
  int level = isa ? (int)carnot_isa_find(isa) : -1;
  CARNOT_CHECK(level < CARNOT_ISA_COUNT, INVALID_ARGUMENT, "there is no CPU ISA level %s", isa);
  config->build.isa = level;
  return NULL;
}

void carnot_config_set_ranges(carnot_config* config, const carnot_ranges* ranges) {
  config->build.ranges = ranges;
}

void carnot_config_set_graph_dump(carnot_config* config, const char* pass) {
  config->build.dump_pass = pass ? carnot_arena_text(&config->arena, pass, strlen(pass)) : NULL;
}

const char* carnot_pass_name(size_t index, bool* out_is_required) {
  size_t count;
  const carnot_pass_row* rows = carnot_passes(&count);
  if (out_is_required) *out_is_required = index < count && rows[index].always;
  return index < count ? rows[index].name : NULL;
}

carnot_status* carnot_config_disable_pass(carnot_config* config, const char* name) {
  CARNOT_CHECK(name, INVALID_ARGUMENT, "a pass' name is NULL");
  void* items = config->disabled;
  CARNOT_TRY(carnot_grow(&items, &config->disabled_capacity, config->disabled_count + 1,
                         sizeof(char*), "pass names"));
  config->disabled = items;
  config->disabled[config->disabled_count++] =
      carnot_arena_text(&config->arena, name, strlen(name));
  return carnot_arena_status(&config->arena);
}

carnot_status* carnot_config_serialize_plugin_library(carnot_config* config, const char* path) {
  CARNOT_CHECK(path && path[0], INVALID_ARGUMENT, "a plugin library has no path");
  void* items = config->libraries;
  CARNOT_TRY(carnot_grow(&items, &config->library_capacity, config->library_count + 1,
                         sizeof(char*), "plugin libraries"));
  config->libraries = items;
  config->libraries[config->library_count++] =
      carnot_arena_text(&config->arena, path, strlen(path));
  return carnot_arena_status(&config->arena);
}

void carnot_config_set_timing_cache(carnot_config* config, carnot_timing_cache* cache) {
  config->build.timing_cache = cache;
}

void carnot_config_set_log(carnot_config* config,
                           void (*log)(void* user, int severity, const char* message), void* user) {
  config->log = log;
  config->log_user = user;
}

void carnot_config_set_progress(carnot_config* config,
                                bool (*progress)(void* user, const char* phase, int done,
                                                 int total),
                                void* user) {
  config->progress = progress;
  config->progress_user = user;
}

void carnot_config_set_tactic_selector(
    carnot_config* config,
    bool (*select)(void* user, const carnot_layer_tactics* layer, bool* keep),
    bool (*report)(void* user, const carnot_layer_tactics* layers, uint32_t layer_count),
    void* user) {
  config->build.selector = (carnot_tactic_selector){select, report, user};
}

// The builder has one |user| for both callbacks; users of the API have one for each.
static void forward_log(void* user, int severity, const char* message) {
  const carnot_config* config = user;
  config->log(config->log_user, severity, message);
}
static bool forward_progress(void* user, const char* phase, int done, int total) {
  const carnot_config* config = user;
  return config->progress(config->progress_user, phase, done, total);
}

carnot_build_config carnot_config_for_builder(const carnot_config* config) {
  carnot_build_config build;
  carnot_build_config_init(&build);
  if (!config) return build;
  build = config->build;
  if (!config->wants_quantized) build.ranges = NULL;
  build.profiles = config->profiles;
  build.profile_count = config->profile_count;
  build.disabled_passes = config->disabled;
  build.disabled_pass_count = config->disabled_count;
  build.plugin_libraries = config->libraries;
  build.plugin_library_count = config->library_count;
  build.user = (void*)(uintptr_t)config;
  build.log = config->log ? forward_log : NULL;
  build.progress = config->progress ? forward_progress : NULL;
  return build;
}
