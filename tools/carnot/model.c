// Models and engines: recognising files, building, loading.
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/device.h"
#include "builder/measure/timing_cache.h"
#include "cli.h"
#include "engine/header.h"
#include "import/onnx/onnx.h"
#include "pass/pass.h"

double cli_now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// The high-water mark of this program's own memory; getrusage would tell that of the process that
// started it.
double cli_peak_rss_mb(void) {
  FILE* file = fopen("/proc/self/status", "r");
  char line[256];
  double mb = 0;
  while (file && fgets(line, sizeof(line), file))
    if (strncmp(line, "VmHWM:", 6) == 0) mb = strtod(line + 6, NULL) / 1024;
  if (file) fclose(file);
  return mb;
}

// TensorRT's plans begin with "ftrt", some behind a JSON prefix with its length before it.
static bool is_tensorrt(const unsigned char* data, size_t size) {
  if (size >= 4 && memcmp(data, "ftrt", 4) == 0) return true;
  uint32_t prefix;
  if (size < 8) return false;
  memcpy(&prefix, data, 4);
  return data[4] == '{' && prefix < size - 8 && memcmp(data + 4 + prefix, "ftrt", 4) == 0;
}

carnot_status* cli_file_recognise(const char* path, cli_file_kind* out) {
  carnot_mapping map;
  CARNOT_TRY(carnot_map_file(path, &map));
  const unsigned char* data = map.data;
  carnot_status* status = NULL;
  *out = CLI_FILE_ONNX;
  if (map.size >= 8 && memcmp(data, CARNOT_ENGINE_MAGIC, 8) == 0) {
    *out = CLI_FILE_ENGINE;
  } else if (is_tensorrt(data, map.size)) {
    status = CARNOT_ERROR(UNSUPPORTED, "%s is a TensorRT engine; rebuild from ONNX", path);
  }
  carnot_unmap(&map);
  return status;
}

void cli_build_options_init(cli_build_options* options) {
  *options = (cli_build_options){0};
  carnot_build_config_init(&options->config);
}

// ---- profiles from shapes ----

static bool has_shapes(const cli_shapes* shapes) { return shapes && shapes->count; }

static void fill_dims(const carnot_value* input, const cli_shapes* shapes,
                      const carnot_dims* otherwise, bool* out_missing, carnot_dims* out) {
  const carnot_dims* given = cli_shapes_find(shapes, input->name);
  out->rank = input->type.rank;
  for (int d = 0; d < out->rank; d++) {
    carnot_sym dim = input->type.dims[d];
    if (carnot_sym_is_const(dim)) {
      out->d[d] = dim.bits;
    } else if (given && given->rank == out->rank && given->d[d] >= 0) {
      out->d[d] = given->d[d];
    } else if (otherwise) {
      out->d[d] = otherwise->d[d];
    } else {
      out->d[d] = 1;
      *out_missing = true;
    }
  }
}

static carnot_status* check_shapes(const carnot_graph* graph, const cli_shapes* shapes) {
  for (size_t i = 0; shapes && i < shapes->count; i++) {
    char names[512] = "";
    size_t at = 0;
    bool found = false;
    for (size_t k = 0; k < graph->main->param_count; k++) {
      const carnot_value* input = graph->main->params[k];
      if (cli_shapes_find(&(cli_shapes){.items = {shapes->items[i]}, .count = 1}, input->name)) {
        found = true;
        CARNOT_CHECK(input->type.rank == shapes->items[i].dims.rank, INVALID_ARGUMENT,
                     "input %s has %d dimensions, the shape given has %d", input->name,
                     input->type.rank, shapes->items[i].dims.rank);
        for (int d = 0; d < input->type.rank; d++) {
          carnot_sym dim = input->type.dims[d];
          CARNOT_CHECK(!carnot_sym_is_const(dim) || dim.bits == shapes->items[i].dims.d[d],
                       INVALID_ARGUMENT,
                       "input %s: dimension %d is %lld in the model, %lld was given", input->name,
                       d, (long long)dim.bits, (long long)shapes->items[i].dims.d[d]);
        }
      }
      if (at < sizeof(names))
        at += (size_t)snprintf(names + at, sizeof(names) - at, at ? ", %s" : "%s", input->name);
    }
    CARNOT_CHECK(found, INVALID_ARGUMENT, "the model has no input %s; it has %s",
                 shapes->items[i].name, names);
  }
  return NULL;
}

static carnot_status* make_profile(const carnot_graph* graph, const cli_shapes* min,
                                   const cli_shapes* given_opt, const cli_shapes* max,
                                   carnot_profile* out) {
  CARNOT_TRY(check_shapes(graph, min));
  CARNOT_TRY(check_shapes(graph, given_opt));
  CARNOT_TRY(check_shapes(graph, max));
  void* items;
  CARNOT_TRY(
      carnot_calloc(graph->main->param_count, sizeof(carnot_profile_input), "a profile", &items));
  *out = (carnot_profile){.inputs = items};
  const cli_shapes* opt = has_shapes(given_opt) ? given_opt : has_shapes(max) ? max : min;
  for (size_t i = 0; i < graph->main->param_count; i++) {
    const carnot_value* input = graph->main->params[i];
    if (input->type.kind != CARNOT_VALUE_TENSOR || input->type.rank < 0) continue;
    carnot_profile_input* p = &out->inputs[out->input_count++];
    bool missing = false;
    p->name = input->name;
    fill_dims(input, opt, NULL, &missing, &p->opt);
    fill_dims(input, has_shapes(min) ? min : opt, &p->opt, &missing, &p->min);
    fill_dims(input, has_shapes(max) ? max : opt, &p->opt, &missing, &p->max);
    if (missing)
      fprintf(
          stderr,
          "warning: input %s has dynamic dimensions and no shape was given: 1 is taken for each\n",
          input->name);
  }
  return NULL;
}

static carnot_status* make_profiles(const carnot_graph* graph, const cli_build_options* options,
                                    carnot_profile* profiles, carnot_build_config* config) {
  bool given = has_shapes(options->min) || has_shapes(options->opt) || has_shapes(options->max);
  config->profiles = profiles;
  if (given || options->override_dynamic || options->more_count)
    CARNOT_TRY(make_profile(graph, options->min, options->opt, options->max,
                            &profiles[config->profile_count++]));
  for (size_t i = 0; i < options->more_count; i++) {
    const cli_profile_shapes* more = &options->more[i];
    CARNOT_TRY_AT(
        make_profile(graph, &more->min, &more->opt, &more->max, &profiles[config->profile_count++]),
        "profile %zu", i + 1);
  }
  return NULL;
}

// With the threads and the timing cache that are asked for.
static carnot_status* build_and_write(const carnot_graph* graph, const cli_build_options* options,
                                      carnot_build_config* config, const char* engine_path) {
  carnot_executor* executor = NULL;
  carnot_timing_cache* cache = NULL;
  carnot_plan* plan = NULL;
  carnot_status* status = carnot_executor_create(options->threads, &executor);
  config->executor = executor;
  if (!status && options->timing_cache_path) {
    status = carnot_timing_cache_create(&cache);
    if (!status)
      status = carnot_status_annotate(carnot_timing_cache_load(cache, options->timing_cache_path),
                                      "timing cache %s", options->timing_cache_path);
    config->timing_cache = cache;
  }
  if (!status) status = carnot_build_plan(graph, config, &plan);
  if (!status) status = carnot_plan_write_file(plan, engine_path);
  if (!status && cache) status = carnot_timing_cache_save(cache, options->timing_cache_path);
  carnot_plan_destroy(plan);
  if (cache) carnot_timing_cache_destroy(cache);
  if (executor) carnot_executor_destroy(executor);
  return status;
}

carnot_status* cli_build_file(const char* model, const cli_build_options* options,
                              const char* engine_path) {
  carnot_model_source* source;
  carnot_graph* graph;
  CARNOT_TRY(carnot_onnx_import_file(model, &options->import, &source, &graph));
  carnot_build_config config = options->config;
  config.plugin_libraries = options->carried;
  void* profiles = NULL;
  carnot_status* status =
      carnot_calloc(options->more_count + 1, sizeof(carnot_profile), "profiles", &profiles);
  if (!status) status = make_profiles(graph, options, profiles, &config);
  if (!status) status = carnot_device_choose(options->device, &config.device);
  if (!status) status = build_and_write(graph, options, &config, engine_path);
  for (size_t i = 0; profiles && i <= options->more_count; i++)
    free(((carnot_profile*)profiles)[i].inputs);
  free(profiles);
  carnot_graph_destroy(graph);
  carnot_model_source_destroy(source);
  return status;
}

carnot_status* cli_disable_passes(const char* text, carnot_arena* arena, carnot_build_config* out) {
  size_t most = 1, row_count;
  for (const char* at = text; *at; at++) most += *at == ',';
  const char** names = CARNOT_NEW_ARRAY(arena, const char*, most);
  const carnot_pass_row* rows = carnot_passes(&row_count);
  out->disabled_passes = names;
  out->disabled_pass_count = 0;
  for (const char* at = text; *at;) {
    size_t length = strcspn(at, ",");
    const char* name = carnot_arena_text(arena, at, length);
    char list[1024] = "";
    bool found = false;
    for (size_t i = 0; i < row_count; i++) {
      found |= strcmp(rows[i].name, name) == 0;
      snprintf(list + strlen(list), sizeof(list) - strlen(list), i ? ", %s" : "%s", rows[i].name);
    }
    CARNOT_CHECK(found, NOT_FOUND, "there is no pass %s; the passes are %s", name, list);
    names[out->disabled_pass_count++] = name;
    at += length + (at[length] == ',');
  }
  return NULL;
}

carnot_status* cli_tactic_sources(const char* text, uint32_t* out_sources) {
  static const char* const kNames[] = {"CUBLAS", "CUBLAS_LT", "CUDNN", "EDGE_MASK_CONVOLUTIONS",
                                       "JIT_CONVOLUTIONS"};
  for (const char* at = text; *at;) {
    size_t length = strcspn(at, ",");
    int found = -1;
    for (int i = 0; i < CARNOT_SOURCE_COUNT; i++)
      if (strlen(kNames[i]) + 1 == length && memcmp(at + 1, kNames[i], length - 1) == 0) found = i;
    CARNOT_CHECK(found >= 0 && (*at == '+' || *at == '-'), INVALID_ARGUMENT,
                 "tactic source '%.*s' must be + or - and CUBLAS, CUBLAS_LT, CUDNN, "
                 "EDGE_MASK_CONVOLUTIONS or JIT_CONVOLUTIONS",
                 (int)length, at);
    uint32_t bit = 1u << found;
    *out_sources = *at == '+' ? *out_sources | bit : *out_sources & ~bit;
    at += length + (at[length] == ',');
  }
  return NULL;
}

static carnot_status* typing_flags(cli_flags* flags, carnot_precision_constraints* out) {
  cli_typing typing = {0};
  for (const char* const* name = cli_typing_flags; *name; name++) {
    bool takes_value = strchr(*name, 'C') || strstr(*name, "layer") || strstr(*name, "Formats");
    const char* value = takes_value ? cli_flag_text(flags, *name) : NULL;
    if (takes_value ? value != NULL : cli_flag_set(flags, *name))
      CARNOT_TRY(cli_typing_flag(*name, value, &flags->arena, &typing));
  }
  cli_typing_finish(&typing);
  *out = typing.typing;
  return NULL;
}

static void warn(void* user, int severity, const char* message) {
  (void)user;
  if (severity <= 1) fprintf(stderr, "warning: %s\n", message);
}

carnot_status* cli_build_flags(cli_flags* flags, cli_build_options* options) {
  long long level = options->config.level, threads = 0;
  CARNOT_TRY(cli_flag_int(flags, "builderOptimizationLevel", 0, 5, &level));
  CARNOT_TRY(cli_flag_int(flags, "threads", 0, 1024, &threads));
  CARNOT_TRY(cli_flag_number(flags, "timeBudget", 0, 1e6, &options->config.time_budget_s));
  options->config.level = (int)level;
  options->threads = (int)threads;
  options->timing_cache_path = cli_flag_text(flags, "timingCacheFile");
  options->device = cli_flag_text(flags, "backend");
  options->config.no_passes = cli_flag_set(flags, "noPasses");
  options->config.dump_pass = cli_flag_text(flags, "dumpGraph");
  options->config.log = warn;
  const char* disabled = cli_flag_text(flags, "disablePasses");
  if (disabled) CARNOT_TRY(cli_disable_passes(disabled, &flags->arena, &options->config));
  const char* sources = cli_flag_text(flags, "tacticSources");
  if (sources) CARNOT_TRY(cli_tactic_sources(sources, &options->config.tactic_sources));
  CARNOT_TRY(typing_flags(flags, &options->config.typing));
  const char* fp32 = cli_flag_text(flags, "fp32");
  CARNOT_CHECK(!fp32 || strcmp(fp32, "fast") == 0 || strcmp(fp32, "exact") == 0, INVALID_ARGUMENT,
               "--fp32 is '%s', must be exact or fast", fp32);
  options->config.fast_fp32 = fp32 && strcmp(fp32, "fast") == 0;
  return cli_plugin_flags(flags, options);
}

// ---- loading ----

carnot_status* cli_build_apart(const char* path, const cli_build_options* options,
                               const char* engine_path, cli_loaded* out) {
  int channel[2];
  CARNOT_CHECK(pipe(channel) == 0, IO, "cannot make a pipe");
  fflush(NULL);
  double start = cli_now_ms();
  pid_t child = fork();
  CARNOT_CHECK(child >= 0, OUT_OF_MEMORY, "cannot start the process that builds");
  if (child == 0) {
    close(channel[0]);
    carnot_status* status = cli_build_file(path, options, engine_path);
    const char* message = status ? carnot_status_message(status) : "";
    ssize_t written = write(channel[1], message, strlen(message));
    fflush(NULL);
    _exit(status ? (int)carnot_status_code(status) : written < 0 ? CARNOT_IO : 0);
  }
  close(channel[1]);
  char message[8192];
  size_t length = 0;
  ssize_t got;
  while (length + 1 < sizeof(message) &&
         (got = read(channel[0], message + length, sizeof(message) - 1 - length)) > 0)
    length += (size_t)got;
  message[length] = 0;
  close(channel[0]);
  int state;
  struct rusage usage;
  wait4(child, &state, 0, &usage);
  out->build_ms = cli_now_ms() - start;
  out->build_peak_mb = (double)usage.ru_maxrss / 1024;
  CARNOT_CHECK(WIFEXITED(state), INTERNAL, "the process that builds %s ended by signal %d", path,
               WTERMSIG(state));
  int code = WEXITSTATUS(state);
  if (code) return carnot_status_make((carnot_code)code, __FILE__, __LINE__, "%s", message);
  return NULL;
}

carnot_status* cli_load(const char* path, const cli_build_options* options, cli_loaded* out) {
  *out = (cli_loaded){0};
  cli_file_kind kind;
  CARNOT_TRY(cli_file_recognise(path, &kind));
  char temporary[] = "/tmp/carnot-engine-XXXXXX";
  const char* engine_path = path;
  if (kind == CLI_FILE_ONNX) {
    int file = mkstemp(temporary);
    CARNOT_CHECK(file >= 0, IO, "cannot make %s", temporary);
    close(file);
    engine_path = temporary;
    carnot_status* status = cli_build_apart(path, options, temporary, out);
    if (status) {
      unlink(temporary);
      return status;
    }
  }
  double start = cli_now_ms();
  carnot_status* status = carnot_engine_load_file(engine_path, &out->engine);
  out->load_ms = cli_now_ms() - start;
  if (kind == CLI_FILE_ONNX) unlink(temporary);
  return status;
}

carnot_status* cli_input_dims(const carnot_plan_binding* b, const cli_shapes* shapes,
                              int64_t* out_dims) {
  CARNOT_CHECK(b->rank >= 0, UNSUPPORTED, "input %s has no fixed rank", b->name);
  const carnot_dims* given = cli_shapes_find(shapes, b->name);
  CARNOT_CHECK(!given || given->rank == b->rank, INVALID_ARGUMENT,
               "input %s has %d dimensions, the shape given has %d", b->name, b->rank,
               given ? given->rank : 0);
  for (int d = 0; d < b->rank; d++)
    out_dims[d] = b->dims[d] >= 0             ? b->dims[d]
                  : given && given->d[d] >= 0 ? given->d[d]
                                              : b->ranges[d].opt;
  return NULL;
}
