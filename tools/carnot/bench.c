// carnot bench MODEL_OR_ENGINE: the time of a run, as one JSON object or a line.
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "session.h"

const cli_flag cli_bench_flags[] = {
    {"shapes", CLI_VALUE, CLI_WORKS, "NAME:1x3x…: shapes of the inputs"},
    {"duration", CLI_VALUE, CLI_WORKS, "measure for so many seconds at least (3)"},
    {"iterations", CLI_VALUE, CLI_WORKS, "at least so many runs"},
    {"json", CLI_NO_VALUE, CLI_WORKS, "print one JSON object"},
    {"times", CLI_NO_VALUE, CLI_WORKS, "put the time of every run into the JSON object"},
    {"exportTimeline", CLI_VALUE, CLI_WORKS,
     "write the timeline of a run as JSON for Perfetto and chrome://tracing"},
    {"dumpProfile", CLI_NO_VALUE, CLI_WORKS, "print the time of each layer"},
    {NULL, CLI_NO_VALUE, CLI_WORKS, NULL},
};

static int by_value(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

typedef struct bench {
  carnot_context* context;
  double* times;
  size_t count, capacity;
  double first_ms;
  double upload_ms, download_ms, wall_ms;  // sums over all runs
} bench;

typedef struct bench_options {
  long long iterations;
  double duration;
  bool json, times, profile;
  const char* timeline;  // the file to write; NULL: none
} bench_options;

static carnot_status* measure(bench* b, cli_session* session, double seconds,
                              long long iterations) {
  double start = cli_now_ms();
  CLI_TRY(cli_session_run_first(session, NULL));
  b->first_ms = cli_now_ms() - start;
  carnot_engine_settle(session->loaded.engine);
  double warm = cli_now_ms() + 200;
  while (cli_now_ms() < warm) CLI_TRY(carnot_context_run(b->context));
  double end = cli_now_ms() + seconds * 1e3;
  while (cli_now_ms() < end || b->count < (size_t)iterations || b->count < 3) {
    double before = cli_now_ms();
    CLI_TRY(carnot_context_run(b->context));
    void* times = b->times;
    CLI_TRY(cli_grow(&times, &b->capacity, b->count + 1, sizeof(double), "times"));
    b->times = times;
    // Of an accelerator the computing alone; copies from and to the host are counted apart.
    double took = cli_now_ms() - before;
    carnot_run_times run;
    CLI_TRY(carnot_context_get_run_times(b->context, &run));
    b->times[b->count++] =
        carnot_context_has_accelerator(b->context) ? (double)run.compute_ns * 1e-6 : took;
    b->upload_ms += (double)run.upload_ns * 1e-6;
    b->download_ms += (double)run.download_ns * 1e-6;
    b->wall_ms += took;
  }
  return NULL;
}

// Whether the inputs have the shapes that the inspector's arithmetic is for: the profile's optimum.
static bool has_optimum_shapes(const cli_session* session) {
  const carnot_engine* engine = session->loaded.engine;
  carnot_tensor_info info;
  bool same = true;
  for (uint32_t i = 0; same && i < carnot_engine_tensor_count(engine); i++) {
    carnot_dims optimum;
    carnot_status* status = carnot_engine_tensor_info(engine, i, &info);
    if (!status && info.is_input && info.dims.rank >= 0 && session->inputs[i]) {
      status = carnot_engine_profile_shapes(engine, /*profile=*/0, info.name, NULL, &optimum, NULL);
      carnot_dims given = carnot_data_dims(session->inputs[i]);
      for (int d = 0; !status && d < given.rank; d++) same &= given.d[d] == optimum.d[d];
      same &= cli_dims_count(&given) > 0;
    }
    same &= !status;
    carnot_status_free(status);
  }
  return same;
}

// How many layers each tactic computes, and the arithmetic of all of them; 0 where the inspector
// knows it for other shapes only.
static json_t* tactic_counts(const cli_session* session, double* out_gflop) {
  const carnot_engine* engine = session->loaded.engine;
  json_t* counts = json_object();
  json_t* inspector = json_loads(carnot_engine_inspect(engine), 0, NULL);
  size_t index;
  json_t* layer;
  *out_gflop = 0;
  json_array_foreach(json_object_get(inspector, "Layers"), index, layer) {
    const char* name = json_string_value(json_object_get(layer, "TacticName"));
    json_t* old = json_object_get(counts, name);
    json_object_set_new(counts, name, json_integer(old ? json_integer_value(old) + 1 : 1));
    *out_gflop += json_real_value(json_object_get(layer, "Flops")) * 1e-9;
  }
  json_decref(inspector);
  if (!has_optimum_shapes(session)) *out_gflop = 0;
  return counts;
}

// Order statistics of the measured runs.
typedef struct summary {
  double median, min, p90;
} summary;

static carnot_status* summarise(const bench* b, summary* out) {
  size_t n = b->count;
  double* sorted = malloc(n * sizeof(double));
  if (!sorted) return CLI_NO_MEMORY(n * sizeof(double), "times");
  memcpy(sorted, b->times, n * sizeof(double));
  qsort(sorted, n, sizeof(double), by_value);
  *out = (summary){.median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2,
                   .min = sorted[0],
                   .p90 = sorted[(size_t)(0.9 * (double)(n - 1))]};
  free(sorted);
  return NULL;
}

static json_t* times_json(const bench* b) {
  json_t* times = json_array();
  for (size_t i = 0; i < b->count; i++) json_array_append_new(times, json_real(b->times[i]));
  return times;
}

static void print_json(const bench* b, const summary* sum, const cli_session* session,
                       const char* model, bool all_times) {
  const cli_loaded* loaded = &session->loaded;
  carnot_engine_stats stats;
  carnot_engine_get_stats(loaded->engine, &stats);
  double gflop, n = (double)b->count;
  json_t* counts = tactic_counts(session, &gflop);
  json_t* root =
      json_pack("{s:s,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:I,s:o}", "model", model,
                "threads", carnot_executor_thread_count(session->executor), "median_ms",
                sum->median, "min_ms", sum->min, "p90_ms", sum->p90, "first_ms", b->first_ms,
                "build_ms", loaded->build_ms, "build_peak_mb", loaded->build_peak_mb, "load_ms",
                loaded->load_ms, "peak_rss_mb", cli_peak_rss_mb(), "base_mb", session->base_mb,
                "gflop", gflop, "activation_bytes", (json_int_t)stats.activation_bytes,
                "engine_bytes", (json_int_t)stats.file_bytes, "tactics", counts);
  json_object_set_new(root, "peak_mb", json_real(cli_peak_rss_mb()));
  json_object_set_new(root, "device", json_string(carnot_engine_device(loaded->engine)));
  json_object_set_new(root, "h2d_ms", json_real(b->upload_ms / n));
  json_object_set_new(root, "d2h_ms", json_real(b->download_ms / n));
  json_object_set_new(root, "wall_ms", json_real(b->wall_ms / n));
  json_object_set_new(root, "runs", json_integer((json_int_t)b->count));
  if (all_times) json_object_set_new(root, "times_ms", times_json(b));
  json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
  putchar('\n');
  json_decref(root);
}

static void print_line(const bench* b, const summary* sum, const cli_session* session,
                       const char* model) {
  double gflop;
  json_decref(tactic_counts(session, &gflop));
  printf("%s: median %.3f ms, min %.3f, p90 %.3f over %zu runs on %d threads; ", model, sum->median,
         sum->min, sum->p90, b->count, carnot_executor_thread_count(session->executor));
  if (gflop > 0) printf("%.3f GFLOP, %.1f GFLOP/s; ", gflop, gflop / sum->median * 1e3);
  if (session->loaded.build_ms > 0) printf("built in %.0f ms, ", session->loaded.build_ms);
  printf("loaded in %.2f ms\n", session->loaded.load_ms);
}

static carnot_status* run_bench(cli_session* session, const cli_shapes* shapes,
                                const bench_options* options, const char* path) {
  bench b = {.context = session->context};
  summary sum = {0};
  CLI_TRY(cli_session_random(session, shapes));
  if (options->profile) CLI_TRY(carnot_context_set_layer_timing(session->context, true));
  carnot_status* status = measure(&b, session, options->duration, options->iterations);
  if (!status && options->profile) cli_profile_print(session);
  if (!status && options->timeline) status = cli_timeline_write(session, options->timeline);
  if (!status) status = summarise(&b, &sum);
  if (!status && options->json) print_json(&b, &sum, session, path, options->times);
  if (!status && !options->json) print_line(&b, &sum, session, path);
  free(b.times);
  return status;
}

static carnot_status* bench_model(cli_flags* flags, cli_shapes* shapes, cli_session* session) {
  CLI_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), shapes));
  cli_build_options build;
  cli_build_options_init(&build);
  build.opt = shapes;
  build.override_dynamic = true;
  CLI_TRY(cli_build_flags(flags, &build));
  bench_options options = {.duration = 3};
  CLI_TRY(cli_flag_int(flags, "iterations", 0, 1 << 30, &options.iterations));
  CLI_TRY(cli_flag_number(flags, "duration", 0, 1e6, &options.duration));
  options.json = cli_flag_set(flags, "json");
  options.times = cli_flag_set(flags, "times");
  options.profile = cli_flag_set(flags, "dumpProfile");
  options.timeline = cli_flag_text(flags, "exportTimeline");
  const char* path = cli_word(flags, 0);
  CLI_CHECK(
      path, INVALID_ARGUMENT,
      "usage: carnot bench MODEL_OR_ENGINE [--shapes=…] [--threads=N] [--duration=S] [--json]");
  CLI_TRY(cli_session_open(path, &build, session));
  return run_bench(session, shapes, &options, path);
}

carnot_status* cli_bench(cli_flags* flags) {
  cli_shapes shapes = {.count = 0};
  cli_session session = {.context = NULL};
  carnot_status* status = bench_model(flags, &shapes, &session);
  cli_session_close(&session);
  cli_shapes_free(&shapes);
  return status;
}
