// carnot bench MODEL_OR_ENGINE: the time of a run, as one JSON object or a line.
#include <jansson.h>
#include <stdlib.h>

#include "cli.h"

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
  bool json, profile;
} bench_options;

static carnot_status* measure(bench* b, double seconds, long long iterations) {
  double start = cli_now_ms();
  CARNOT_TRY(carnot_context_run_now(b->context));
  b->first_ms = cli_now_ms() - start;
  double warm = cli_now_ms() + 200;
  while (cli_now_ms() < warm) CARNOT_TRY(carnot_context_run_now(b->context));
  double end = cli_now_ms() + seconds * 1e3;
  while (cli_now_ms() < end || b->count < (size_t)iterations || b->count < 3) {
    double before = cli_now_ms();
    CARNOT_TRY(carnot_context_run_now(b->context));
    void* times = b->times;
    CARNOT_TRY(carnot_grow(&times, &b->capacity, b->count + 1, sizeof(double), "times"));
    b->times = times;
    // Of an accelerator the computing alone; copies from and to the host are told apart.
    const carnot_context* c = b->context;
    b->times[b->count++] = c->stream ? (double)c->io_ns[1] * 1e-6 : cli_now_ms() - before;
    b->upload_ms += (double)c->io_ns[0] * 1e-6;
    b->download_ms += (double)c->io_ns[2] * 1e-6;
    b->wall_ms += cli_now_ms() - before;
  }
  return NULL;
}

static json_t* tactic_counts(const carnot_plan* plan, double* out_gflop) {
  json_t* counts = json_object();
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const char* name = plan->steps[i].variants[0].tactic;
    json_t* old = json_object_get(counts, name);
    json_object_set_new(counts, name, json_integer(old ? json_integer_value(old) + 1 : 1));
  }
  *out_gflop = 0;
  json_t* inspector = json_loads(plan->inspector, 0, NULL);
  size_t index;
  json_t* layer;
  json_array_foreach(json_object_get(inspector, "Layers"), index, layer)* out_gflop +=
      json_real_value(json_object_get(layer, "Flops")) * 1e-9;
  json_decref(inspector);
  return counts;
}

static void report(const bench* b, const char* model, int threads, const cli_loaded* loaded,
                   bool json, double base_mb) {
  size_t n = b->count;
  double* sorted = malloc(n * sizeof(double));
  if (!sorted) return;
  memcpy(sorted, b->times, n * sizeof(double));
  qsort(sorted, n, sizeof(double), by_value);
  double median = n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2, gflop;
  json_t* counts = tactic_counts(b->context->plan, &gflop);
  if (json) {
    json_t* times = json_array();
    for (size_t i = 0; i < n; i++) json_array_append_new(times, json_real(b->times[i]));
    json_t* root = json_pack(
        "{s:s,s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:I,s:I,s:o,s:o}", "model", model,
        "threads", threads, "median_ms", median, "min_ms", sorted[0], "p90_ms",
        sorted[(size_t)(0.9 * (double)(n - 1))], "first_ms", b->first_ms, "build_ms",
        loaded->build_ms, "build_peak_mb", loaded->build_peak_mb, "load_ms", loaded->load_ms,
        "peak_rss_mb", cli_peak_rss_mb(), "base_mb", base_mb, "gflop", gflop, "activation_bytes",
        (json_int_t)b->context->plan->arena_bytes, "engine_bytes",
        (json_int_t)b->context->engine->file_bytes, "tactics", counts, "times_ms", times);
    json_object_set_new(root, "peak_mb", json_real(cli_peak_rss_mb()));
    json_object_set_new(root, "device", json_string(b->context->plan->device));
    json_object_set_new(root, "h2d_ms", json_real(b->upload_ms / (double)n));
    json_object_set_new(root, "d2h_ms", json_real(b->download_ms / (double)n));
    json_object_set_new(root, "wall_ms", json_real(b->wall_ms / (double)n));
    json_dumpf(root, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
    putchar('\n');
    json_decref(root);
  } else {
    printf(
        "%s: median %.3f ms, min %.3f, p90 %.3f over %zu runs on %d threads; %.3f GFLOP, %.1f "
        "GFLOP/s; built in %.0f ms, loaded in %.2f ms\n",
        model, median, sorted[0], sorted[(size_t)(0.9 * (double)(n - 1))], n, threads, gflop,
        gflop / median * 1e3, loaded->build_ms, loaded->load_ms);
    json_decref(counts);
  }
  free(sorted);
}

static carnot_status* run_bench(cli_session* session, const cli_shapes* shapes,
                                const bench_options* options, const char* path) {
  bench b = {.context = session->context};
  CARNOT_TRY(cli_session_random(session, shapes));
  if (options->profile) CARNOT_TRY(cli_profile_begin(session));
  carnot_status* status = measure(&b, options->duration, options->iterations);
  if (!status && options->profile) cli_profile_print(session);
  if (!status)
    report(&b, path, carnot_executor_thread_count(session->executor), &session->loaded,
           options->json, session->base_mb);
  free(b.times);
  return status;
}

carnot_status* cli_bench(cli_flags* flags) {
  static const char* const kKnown[] = {"shapes",      "duration",      "iterations", "json",
                                       "dumpProfile", CLI_BUILD_FLAGS, NULL};
  cli_shapes shapes;
  CARNOT_TRY(cli_shapes_parse(cli_flag_text(flags, "shapes"), &shapes));
  cli_build_options build;
  cli_build_options_init(&build);
  build.opt = &shapes;
  build.override_dynamic = true;
  CARNOT_TRY(cli_build_flags(flags, &build));
  bench_options options = {.duration = 3};
  CARNOT_TRY(cli_flag_int(flags, "iterations", 0, 1 << 30, &options.iterations));
  CARNOT_TRY(cli_flag_number(flags, "duration", 0, 1e6, &options.duration));
  options.json = cli_flag_set(flags, "json");
  options.profile = cli_flag_set(flags, "dumpProfile");
  const char* path = cli_word(flags, 0);
  CARNOT_CHECK(
      path, INVALID_ARGUMENT,
      "usage: carnot bench MODEL_OR_ENGINE [--shapes=…] [--threads=N] [--duration=S] [--json]");
  CARNOT_TRY(cli_flags_finish(flags, kKnown));
  cli_session session;
  carnot_status* status = cli_session_open(path, &build, &session);
  if (!status) status = run_bench(&session, &shapes, &options, path);
  cli_session_close(&session);
  cli_shapes_free(&shapes);
  return status;
}
