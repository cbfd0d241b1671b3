// carnot exec: builds an engine, runs it and reports, with trtexec's flags.
#include "exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "carnot/machine.h"
#include "cli.h"
#include "log.h"

// --device=N chooses one of several accelerators; without one it warns and does nothing.
static void choose_device(exec_options* o) {
  if (!o->device || (o->build.device && strcmp(o->build.device, "cuda") != 0)) return;
  carnot_device_info info;
  carnot_status* status = carnot_device_get_info(o->device, &info);
  if (status)
    exec_log('W', "--device has no effect: %s", carnot_status_message(status));
  else
    o->build.device = o->device;
  carnot_status_free(status);
}

// The engine: built into --saveEngine or a file that goes away, or loaded.
static carnot_status* obtain(exec_options* o, cli_loaded* out) {
  *out = (cli_loaded){0};
  const char* path = o->load ? o->load : o->onnx ? o->onnx : o->deploy ? o->deploy : o->uff;
  cli_file_kind kind;
  CLI_TRY(cli_file_recognise(path, &kind));
  CLI_CHECK(!o->load || kind == CLI_FILE_ENGINE, INVALID_MODEL,
            "--loadEngine: %s is no engine of Carnot", path);
  CLI_CHECK(o->load || kind == CLI_FILE_ONNX, INVALID_MODEL,
            "--%s: %s is an engine, load it with --loadEngine",
            o->onnx     ? "onnx"
            : o->deploy ? "deploy"
                        : "uff",
            path);
  choose_device(o);
  if (o->load || !o->save) {
    CLI_TRY(cli_load(path, &o->build, out));
  } else {
    CLI_TRY(cli_build_apart(path, &o->build, o->save, out));
    double start = cli_now_ms();
    CLI_TRY(carnot_engine_load_file(o->save, &out->engine));
    out->load_ms = cli_now_ms() - start;
  }
  carnot_engine_stats stats;
  carnot_engine_get_stats(out->engine, &stats);
  double mib = (double)stats.file_bytes / 1048576;
  if (!o->load) {
    exec_log('I', "Created engine with size: %.4g MiB", mib);
    exec_log('I', "Engine built in %.4g sec.", out->build_ms * 1e-3);
  } else {
    exec_log('I', "Loaded engine with size: %.4g MiB", mib);
  }
  exec_log('I', "Engine deserialized in %.4g sec.", out->load_ms * 1e-3);
  if (o->save) exec_log('I', "Engine saved to %s", o->save);
  return NULL;
}

static carnot_status* print_range(const carnot_engine* engine, const char* input,
                                  uint32_t profile) {
  char text[3][256] = {"", "", ""};
  carnot_dims dims[3];
  CLI_TRY(carnot_engine_profile_shapes(engine, profile, input, &dims[0], &dims[1], &dims[2]));
  for (int k = 0; k < 3; k++)
    for (int d = 0; d < dims[k].rank; d++) {
      size_t at = strlen(text[k]);
      if (k == 2 && dims[k].d[d] == INT64_MAX)
        snprintf(text[k] + at, sizeof(text[k]) - at, d ? "xany" : "any");
      else
        snprintf(text[k] + at, sizeof(text[k]) - at, d ? "x%lld" : "%lld", (long long)dims[k].d[d]);
    }
  exec_log('I', "Profile %u, input %s: MIN %s, OPT %s, MAX %s", profile, input, text[0], text[1],
           text[2]);
  return NULL;
}

static carnot_status* dump_profiles(const carnot_engine* engine) {
  for (uint32_t p = 0; p < carnot_engine_profile_count(engine); p++)
    for (uint32_t i = 0; i < carnot_engine_tensor_count(engine); i++) {
      carnot_tensor_info tensor;
      CLI_TRY(carnot_engine_tensor_info(engine, i, &tensor));
      if (tensor.is_input && tensor.dims.rank > 0) CLI_TRY(print_range(engine, tensor.name, p));
    }
  return NULL;
}

static carnot_status* dump_refit(carnot_engine* engine) {
  if (!carnot_engine_is_refittable(engine)) {
    exec_log('W', "the engine cannot be refitted: build it with --refit");
    return NULL;
  }
  carnot_refit* refit;
  CLI_TRY(carnot_refit_begin(engine, &refit));
  const char* name;
  for (uint32_t i = 0; (name = carnot_refit_name(refit, i)) != NULL; i++)
    exec_log('I', "Refittable: %s", name);
  carnot_refit_free(refit);
  return NULL;
}

static carnot_status* dump_facts(const exec_options* o, carnot_engine* engine) {
  if (o->dump_profiles) CLI_TRY(dump_profiles(engine));
  if (o->dump_refit) CLI_TRY(dump_refit(engine));
  return exec_layers(o, engine);
}

static carnot_status* print_version(exec_options* o) {
  CLI_CHECK(o->load, INVALID_ARGUMENT, "--getPlanVersionOnly needs --loadEngine");
  cli_loaded loaded;
  CLI_TRY(obtain(o, &loaded));
  exec_log('I', "%s: an engine file of version %d for %s", o->load, carnot_engine_format_version(),
           carnot_engine_device(loaded.engine));
  carnot_engine_release(loaded.engine);
  return NULL;
}

static carnot_status* execute(exec_options* o) {
  if (o->version_only) return print_version(o);
  cli_loaded loaded;
  CLI_TRY(obtain(o, &loaded));
  carnot_engine_stats stats;
  carnot_status* status = exec_refit(o, loaded.engine);
  carnot_engine_get_stats(loaded.engine, &stats);
  if (!status) status = dump_facts(o, loaded.engine);
  bool stop = o->skip_inference || o->time_load;
  if (!status && !stop && stats.is_stripped && !o->refit_model) {
    exec_log('W',
             "the engine has no weights until it is refitted (--refitFromOnnx): inference is "
             "skipped");
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
  char version[32];
  printf("&&&& %s TensorRT.trtexec [TensorRT v%d] #", verdict,
         exec_tensorrt_version(version, sizeof(version)));
  for (int i = 0; i < argc; i++) printf(" %s", argv[i]);
  putchar('\n');
  fflush(stdout);
}

static const cli_flag* const kTables[] = {cli_exec_flags, cli_build_flag_table, NULL};

static void print_help(void) {
  puts(
      "carnot exec --onnx=MODEL | --loadEngine=ENGINE [FLAGS]: builds an engine, times it, "
      "reports.\n\nFlags");
  cli_flags_help(kTables, CLI_WORKS);
  puts("\nTaken without effect on a CPU, with a warning");
  cli_flags_help(kTables, CLI_NO_EFFECT);
  puts("\nRefused: not there yet");
  cli_flags_help(kTables, CLI_REFUSED);
}

int cli_exec(int argc, char** argv) {
  exec_options* o = calloc(1, sizeof(*o));  // its tables of shapes are too large for a stack
  if (!o) return 1;
  cli_flags flags;
  carnot_status* status = cli_flags_parse(kTables, argc - 1, argv + 1, &flags);
  if (!status) status = exec_read_flags(&flags, o);
  bool help = argc == 1 || (!status && o->help);
  if (help) {
    print_help();
  } else {
    print_verdict("RUNNING", argc, argv);
    if (!status) exec_print_blocks(o);
    if (!status) status = execute(o);
    cli_end_progress();
    if (status)
      exec_log('E', "%s: %s", carnot_code_name(carnot_status_code(status)),
               carnot_status_message(status));
    print_verdict(status ? "FAILED" : "PASSED", argc, argv);
  }
  int code = status && !help ? 1 : 0;
  carnot_status_free(status);
  exec_options_free(o);
  cli_flags_deinit(&flags);
  free(o);
  return code;
}
