// carnot inspect MODEL_OR_ENGINE: what it holds, in words or JSON.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "inspect.h"
#include "layer_limits.h"
#include "session.h"

const cli_flag cli_inspect_flags[] = {
    {"json", CLI_NO_VALUE, CLI_WORKS, "print JSON"},
    {"why", CLI_NO_VALUE, CLI_WORKS, "print why the other tactics were not taken"},
    {"verify", CLI_NO_VALUE, CLI_WORKS, "check the checksums of the weights"},
    {"peaks", CLI_NO_VALUE, CLI_WORKS,
     "measure machine and layers; print how near each layer is to the limit of the machine"},
    {"shapes", CLI_VALUE, CLI_WORKS, "NAME:1x3x…: shapes to build a model for"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

static carnot_status* print_bindings(const carnot_engine* engine) {
  for (uint32_t i = 0; i < carnot_engine_tensor_count(engine); i++) {
    carnot_tensor_info t;
    CLI_TRY(carnot_engine_tensor_info(engine, i, &t));
    printf("  %-6s %s: ", t.is_input ? "input" : "output", t.name);
    if (t.kind != CARNOT_DATA_TENSOR) {
      puts(t.kind == CARNOT_DATA_SEQUENCE   ? "sequence"
           : t.kind == CARNOT_DATA_OPTIONAL ? "optional"
                                            : "any");
      continue;
    }
    printf("%s [", carnot_dtype_name(t.dtype));
    for (int d = 0; d < t.dims.rank; d++) {
      if (d) putchar(',');
      if (t.dims.d[d] >= 0)
        printf("%lld", (long long)t.dims.d[d]);
      else
        printf("%s", t.dim_names[d][0] ? t.dim_names[d] : "?");
    }
    puts("]");
  }
  return NULL;
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

// Tactics for a part of the sizes, a line each.
static void print_variants(const json_t* layer) {
  size_t index;
  json_t* variant;
  json_array_foreach(json_object_get(layer, "Variants"), index, variant) {
    const long long min = json_integer_value(json_object_get(variant, "Min")),
                    max = json_integer_value(json_object_get(variant, "Max"));
    const int dim = (int)json_integer_value(json_object_get(variant, "Dimension"));
    printf("%*s%s where %s", 6, "", words(variant, "TacticName"), words(variant, "Input"));
    if (max == INT64_MAX)
      printf(" has %lld or more", min);
    else if (min <= 0)
      printf(" has at most %lld", max);
    else
      printf(" has %lld to %lld", min, max);
    dim < 0 ? printf(" elements\n") : printf(" in dimension %d\n", dim);
  }
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
    if (words(layer, "Unfused")[0]) printf("%*snot fused: %s\n", 6, "", words(layer, "Unfused"));
    print_variants(layer);
    if (why) inspect_print_why(words(layer, "Rejected"));
  }
}

typedef struct inspect_options {
  bool json, why, verify, peaks;
} inspect_options;

static carnot_status* print_text(const json_t* root, const carnot_engine* engine, const char* path,
                                 const inspect_options* options) {
  carnot_engine_stats stats;
  carnot_engine_get_stats(engine, &stats);
  const char* device = carnot_engine_device(engine);
  printf("%s: %s, %u layers, a file of %.2f MB, %.2f MB of activations (at least %.2f)\n", path,
         device, stats.layer_count, (double)stats.file_bytes * 1e-6,
         (double)stats.activation_bytes * 1e-6, (double)stats.activation_bound_bytes * 1e-6);
  CLI_TRY(print_bindings(engine));
  if (strcmp(device, "cpu") != 0) print_libraries(root);
  print_layers(root, options->why, options->peaks);
  if (options->peaks)
    printf("all layers %.1f us (each the best of 20 runs), the machine's limit %.1f us: %.1f %%\n",
           number(root, "MeasuredUs"), number(root, "LimitUs"),
           100 * number(root, "LimitUs") / number(root, "MeasuredUs"));
  if (options->verify) puts("all checksums hold");
  return NULL;
}

static carnot_status* inspect(cli_session* session, const char* path,
                              const inspect_options* options) {
  carnot_engine* engine = session->loaded.engine;
  if (options->verify) CLI_TRY_AT(carnot_engine_verify(engine), "%s", path);
  json_t* root = json_loads(carnot_engine_inspect(engine), 0, NULL);
  CLI_CHECK(root, INVALID_MODEL, "%s holds no readable inspector data", path);
  carnot_status* status = options->peaks ? cli_layer_limits_measure(session, root) : NULL;
  if (!status && options->json) {
    json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
  } else if (!status) {
    status = print_text(root, engine, path, options);
  }
  json_decref(root);
  return status;
}

static carnot_status* open_and_inspect(cli_flags* flags, cli_shapes* shapes, cli_session* session) {
  inspect_options options = {.json = cli_flag_set(flags, "json"),
                             .why = cli_flag_set(flags, "why"),
                             .verify = cli_flag_set(flags, "verify"),
                             .peaks = cli_flag_set(flags, "peaks")};
  CLI_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), shapes));
  cli_build_options build;
  cli_build_options_init(&build);
  build.opt = shapes;
  build.override_dynamic = shapes->count > 0 || options.peaks;
  CLI_TRY(cli_build_flags(flags, &build));
  const char* path = cli_word(flags, 0);
  CLI_CHECK(path, INVALID_ARGUMENT,
            "usage: carnot inspect MODEL_OR_ENGINE [--json] [--why] [--verify] [--peaks]");
  // Only measuring needs the machine that the engine is for.
  CLI_TRY(options.peaks ? cli_session_open(path, &build, session)
                        : cli_load(path, &build, &session->loaded));
  return inspect(session, path, &options);
}

carnot_status* cli_inspect(cli_flags* flags) {
  cli_shapes shapes = {.count = 0};
  cli_session session = {.context = NULL};
  carnot_status* status = open_and_inspect(flags, &shapes, &session);
  cli_session_close(&session);
  cli_shapes_free(&shapes);
  return status;
}
