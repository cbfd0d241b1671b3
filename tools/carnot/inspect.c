// carnot inspect MODEL_OR_ENGINE: what it holds, in words or JSON.
#include <jansson.h>
#include <stdlib.h>

#include "cli.h"

static void print_bindings(const carnot_plan* plan) {
  for (uint32_t i = 0; i < plan->binding_count; i++) {
    const carnot_plan_binding* b = &plan->bindings[i];
    printf("  %-6s %s: %s [", b->is_input ? "input" : "output", b->name,
           carnot_dtype_name(b->dtype));
    for (int d = 0; d < b->rank; d++) {
      if (d) putchar(',');
      if (b->dims[d] >= 0)
        printf("%lld", (long long)b->dims[d]);
      else
        printf("%s", b->dim_names[d][0] ? b->dim_names[d] : "?");
    }
    puts("]");
  }
}

static void print_libraries(const json_t* root) {
  size_t index;
  json_t* name;
  json_t* libraries = json_object_get(root, "Libraries");
  printf("  libraries: %s", json_array_size(libraries) ? "" : "none but the driver");
  json_array_foreach(libraries, index, name)
      printf("%s%s", index ? ", " : "", json_string_value(name));
  puts("");
}

static double number(const json_t* layer, const char* key) {
  return json_number_value(json_object_get(layer, key));
}
static const char* words(const json_t* layer, const char* key) {
  const char* found = json_string_value(json_object_get(layer, key));
  return found ? found : "";
}

static void print_layers(const json_t* root, bool why, bool peaks) {
  size_t index;
  json_t* layer;
  printf("%4s  %-30s %-18s %9s %9s%s  layer\n", "", "tactic", "type", "GFLOP", "MB",
         peaks ? "       us  % of limit" : "");
  json_array_foreach(json_object_get(root, "Layers"), index, layer) {
    printf("%4zu  %-30s %-18s %9.4f %9.3f", index, words(layer, "TacticName"),
           words(layer, "LayerType"), number(layer, "Flops") * 1e-9, number(layer, "Bytes") * 1e-6);
    if (peaks)
      printf(" %8.1f %10.1f ", number(layer, "MeasuredUs"), number(layer, "Efficiency") * 100);
    printf("  %s\n", words(layer, "Name"));
    if (why && words(layer, "Rejected")[0])
      printf("      not taken: %s\n", words(layer, "Rejected"));
  }
}

// Runs the engine on made-up values and notes in each layer what it took and what the machine
// allows.
static carnot_status* add_peaks(json_t* root, cli_session* session) {
  cli_machine machine;
  carnot_step_time* times;
  carnot_stream* queue = session->context->stream;
  CARNOT_TRY(
      queue ? cli_measure_device(queue->device, &machine)
            : cli_measure_machine(carnot_executor_thread_count(session->executor), 0.05, &machine));
  CARNOT_TRY(cli_session_random(session, NULL));
  CARNOT_TRY(cli_session_profile(session, 20, &times));
  size_t index;
  json_t* layer;
  double total = 0, limits = 0;
  json_array_foreach(json_object_get(root, "Layers"), index, layer) {
    if (index >= session->context->plan->step_count || !times[index].count) continue;
    double us = (double)times[index].min_ns * 1e-3;  // the peaks are the best of several tries too
    double limit =
        cli_machine_limit_us(&machine, words(layer, "TacticName"), words(layer, "Precision"),
                             number(layer, "Flops"), number(layer, "Bytes"));
    json_object_set_new(layer, "MeasuredUs", json_real(us));
    json_object_set_new(layer, "LimitUs", json_real(limit));
    json_object_set_new(layer, "Efficiency", json_real(us > 0 ? limit / us : 0));
    total += us, limits += limit;
  }
  json_object_set_new(root, "MeasuredUs", json_real(total));
  json_object_set_new(root, "LimitUs", json_real(limits));
  json_object_set_new(root, "Threads", json_integer(machine.threads));
  free(times);
  return NULL;
}

typedef struct inspect_options {
  bool json, why, verify, peaks;
} inspect_options;

static carnot_status* inspect(cli_session* session, const char* path,
                              const inspect_options* options) {
  const carnot_engine* engine = session->loaded.engine;
  const carnot_plan* plan = engine->plan;
  if (options->verify) CARNOT_TRY_AT(carnot_engine_verify(session->loaded.engine), "%s", path);
  json_t* root = json_loads(plan->inspector, 0, NULL);
  CARNOT_CHECK(root, INVALID_MODEL, "%s holds no readable inspector data", path);
  carnot_status* status = options->peaks ? add_peaks(root, session) : NULL;
  if (!status && options->json) {
    json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
  } else if (!status) {
    printf("%s: %s, %u layers, a file of %.2f MB, %.2f MB of activations (at least %.2f)\n", path,
           plan->device, plan->step_count, (double)engine->file_bytes * 1e-6,
           (double)plan->arena_bytes * 1e-6, (double)plan->arena_bound * 1e-6);
    print_bindings(plan);
    if (strcmp(plan->device, "cpu") != 0) print_libraries(root);
    print_layers(root, options->why, options->peaks);
    if (options->peaks)
      printf(
          "all layers %.1f us (each the best of 20 runs), the machine's limit %.1f us: %.1f %%\n",
          number(root, "MeasuredUs"), number(root, "LimitUs"),
          100 * number(root, "LimitUs") / number(root, "MeasuredUs"));
    if (options->verify) puts("all checksums hold");
  }
  json_decref(root);
  return status;
}

carnot_status* cli_inspect(cli_flags* flags) {
  static const char* const kKnown[] = {"json",   "why",           "verify", "peaks",
                                       "shapes", CLI_BUILD_FLAGS, NULL};
  inspect_options options = {.json = cli_flag_set(flags, "json"),
                             .why = cli_flag_set(flags, "why"),
                             .verify = cli_flag_set(flags, "verify"),
                             .peaks = cli_flag_set(flags, "peaks")};
  cli_shapes shapes;
  CARNOT_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), &shapes));
  cli_build_options build;
  cli_build_options_init(&build);
  build.opt = &shapes;
  build.override_dynamic = shapes.count > 0 || options.peaks;
  CARNOT_TRY(cli_build_flags(flags, &build));
  const char* path = cli_word(flags, 0);
  CARNOT_CHECK(path, INVALID_ARGUMENT,
               "usage: carnot inspect MODEL_OR_ENGINE [--json] [--why] [--verify] [--peaks]");
  CARNOT_TRY(cli_flags_finish(flags, kKnown));
  // Only measuring needs the machine that the engine is for.
  cli_session session = {.context = NULL};
  carnot_status* status = options.peaks ? cli_session_open(path, &build, &session)
                                        : cli_load(path, &build, &session.loaded);
  if (!status) status = inspect(&session, path, &options);
  cli_session_close(&session);
  cli_shapes_free(&shapes);
  return status;
}
