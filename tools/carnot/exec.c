// carnot exec: builds an engine, runs it and reports, with trtexec's flags.
#include "exec.h"

#include <stdlib.h>
#include <unistd.h>

#include "backend/device.h"
#include "engine/header.h"

static bool show_progress(void* user, const char* phase, int done, int total) {
  (void)user;
  enum { kWidth = 40 };
  int filled = total > 0 ? done * kWidth / total : 0;
  fprintf(stderr, "\r%-16.16s [", phase);
  for (int i = 0; i < kWidth; i++) fputc(i < filled ? '#' : ' ', stderr);
  fprintf(stderr, "] %d/%d ", done, total);
  if (done >= total) fputs("\r\033[K", stderr);
  return true;
}

static void show_log(void* user, int severity, const char* message) {
  if (severity <= 2)
    exec_log("EWI"[severity], "%s", message);
  else if (((const exec_options*)user)->verbose)
    exec_log('V', "%s", message);
}

// --device=N names one of several; without a GPU it says so and does nothing.
static void choose_device(exec_options* o) {
  if (!o->device || (o->backend && strcmp(o->backend, "cuda") != 0)) return;
  carnot_device* device;
  carnot_status* status = carnot_device_open(o->device, &device);
  if (status)
    exec_log('W', "--device has no effect: %s", carnot_status_message(status));
  else
    o->backend = o->device;
  carnot_status_free(status);
}

static carnot_status* build_options(exec_options* o, cli_build_options* out) {
  cli_build_options_init(out);
  out->import = o->plugins.import;
  memcpy(out->carried, o->plugins.carried, sizeof(out->carried));
  out->config.plugin_library_count = o->plugins.config.plugin_library_count;
  bool own = o->profiles[0].min.count || o->profiles[0].opt.count || o->profiles[0].max.count;
  out->min = &o->profiles[0].min;
  out->opt = own ? &o->profiles[0].opt : &o->shapes;
  out->max = &o->profiles[0].max;
  out->more = o->profiles + 1;
  out->more_count = (size_t)o->profile_count - 1;
  out->override_dynamic = true;
  out->threads = (int)o->threads;
  out->device = o->backend;
  out->timing_cache_path = o->no_cache ? NULL : o->timing_cache;
  out->config.level = (int)o->level;
  out->config.time_budget_s = o->time_budget_s;
  out->config.refit = o->refit || o->strip;
  out->config.strip = o->strip;
  out->config.no_passes = o->no_passes;
  out->config.fast_fp32 = o->fast_fp32;
  out->config.dump_pass = o->dump_graph;
  out->config.typing = o->typing.typing;
  out->config.log = show_log;
  out->config.user = o;
  if (isatty(STDERR_FILENO)) out->config.progress = show_progress;
  if (o->tactic_sources)
    CARNOT_TRY(cli_tactic_sources(o->tactic_sources, &out->config.tactic_sources));
  return o->disable_passes ? cli_disable_passes(o->disable_passes, &o->arena, &out->config) : NULL;
}

// The engine: built into --saveEngine or a file that goes away, or loaded.
static carnot_status* obtain(exec_options* o, cli_loaded* out) {
  *out = (cli_loaded){0};
  const char* path = o->load ? o->load : o->onnx;
  cli_file_kind kind;
  CARNOT_TRY(cli_file_recognise(path, &kind));
  CARNOT_CHECK(!o->load || kind == CLI_FILE_ENGINE, INVALID_MODEL,
               "--loadEngine: %s is no engine of Carnot", path);
  CARNOT_CHECK(o->load || kind == CLI_FILE_ONNX, INVALID_MODEL,
               "--onnx: %s is an engine, load it with --loadEngine", path);
  cli_build_options build;
  choose_device(o);
  CARNOT_TRY(build_options(o, &build));
  if (o->load || !o->save) {
    CARNOT_TRY(cli_load(path, &build, out));
  } else {
    CARNOT_TRY(cli_build_apart(path, &build, o->save, out));
    double start = cli_now_ms();
    CARNOT_TRY(carnot_engine_load_file(o->save, &out->engine));
    out->load_ms = cli_now_ms() - start;
  }
  if (!o->load) exec_log('I', "Engine built in %g sec.", out->build_ms * 1e-3);
  exec_log('I', "Engine loaded in %g sec.", out->load_ms * 1e-3);
  if (o->save)
    exec_log('I', "Engine saved to %s, %.2f MiB", o->save,
             (double)out->engine->file_bytes / 1048576);
  return NULL;
}

static void print_range(const carnot_plan_binding* b, uint32_t profile) {
  char text[3][256] = {"", "", ""};
  for (int d = 0; d < b->rank; d++) {
    const carnot_dim_range* r = &b->ranges[(size_t)profile * (size_t)b->rank + (size_t)d];
    const long long bounds[3] = {(long long)r->min, (long long)r->opt, (long long)r->max};
    for (int k = 0; k < 3; k++) {
      size_t at = strlen(text[k]);
      if (k == 2 && r->max == INT64_MAX)
        snprintf(text[k] + at, sizeof(text[k]) - at, d ? "xany" : "any");
      else
        snprintf(text[k] + at, sizeof(text[k]) - at, d ? "x%lld" : "%lld", bounds[k]);
    }
  }
  exec_log('I', "Profile %u, input %s: MIN %s, OPT %s, MAX %s", profile, b->name, text[0], text[1],
           text[2]);
}

static void dump_facts(const exec_options* o, const carnot_plan* plan) {
  for (uint32_t p = 0; o->dump_profiles && p < plan->profile_count; p++)
    for (uint32_t i = 0; i < plan->binding_count; i++)
      if (plan->bindings[i].is_input && plan->bindings[i].ranges)
        print_range(&plan->bindings[i], p);
  if (o->dump_refit && !plan->refittable)
    exec_log('W', "the engine cannot be refitted: build it with --refit");
  for (uint32_t i = 0; o->dump_refit && plan->refittable && i < plan->blob_count; i++)
    if (plan->blobs[i].name[0]) exec_log('I', "Refittable: %s", plan->blobs[i].name);
}

static carnot_status* print_version(const exec_options* o) {
  CARNOT_CHECK(o->load, INVALID_ARGUMENT, "--getPlanVersionOnly needs --loadEngine");
  cli_loaded loaded;
  exec_options copy = *o;
  CARNOT_TRY(obtain(&copy, &loaded));
  exec_log('I', "%s: an engine file of version %d for %s", o->load, CARNOT_ENGINE_VERSION,
           loaded.engine->plan->device);
  carnot_engine_release(loaded.engine);
  return NULL;
}

static carnot_status* execute(exec_options* o) {
  if (o->version_only) return print_version(o);
  cli_loaded loaded;
  CARNOT_TRY(obtain(o, &loaded));
  const carnot_plan* plan = loaded.engine->plan;
  dump_facts(o, plan);
  carnot_status* status = exec_layers(o, plan);
  bool stop = o->skip_inference || o->time_load;
  if (!status && !stop && plan->stripped) {
    exec_log('W', "the engine has no weights until it is refitted: inference is skipped");
    stop = true;
  }
  if (status || stop) {
    if (!status) exec_log('I', "stopped before inference, as asked");
    carnot_engine_release(loaded.engine);
    return status;
  }
  return exec_infer(o, &loaded);
}

static void print_verdict(const char* verdict, int argc, char** argv) {
  printf("&&&& %s TensorRT.trtexec #", verdict);
  for (int i = 0; i < argc; i++) printf(" %s", argv[i]);
  putchar('\n');
  fflush(stdout);
}

int cli_exec(int argc, char** argv) {
  exec_options* o = malloc(sizeof(*o));  // its tables of shapes are too large for a stack
  if (!o) return 1;
  exec_options_init(o);
  carnot_status* status = exec_parse(argc, argv, o);
  if (!status && o->help) {
    exec_help();
    carnot_arena_deinit(&o->arena);
    free(o);
    return 0;
  }
  print_verdict("RUNNING", argc, argv);
  if (!status) status = execute(o);
  if (status)
    exec_log('E', "%s: %s", carnot_code_name(carnot_status_code(status)),
             carnot_status_message(status));
  print_verdict(status ? "FAILED" : "PASSED", argc, argv);
  cli_shapes_free(&o->shapes);
  for (int i = 0; i < EXEC_MAX_PROFILES; i++)
    cli_shapes_free(&o->profiles[i].min), cli_shapes_free(&o->profiles[i].opt),
        cli_shapes_free(&o->profiles[i].max);
  int code = status ? 1 : 0;
  carnot_status_free(status);
  carnot_arena_deinit(&o->arena);
  free(o);
  return code;
}
