// Conformance: ONNX's test cases through the whole way: import, build, serialize, load, run.
//
//   conformance [--interpret] [--noPasses] [--disablePass=NAME] [--isa=NAME] [--level=N]
//   [--backend=cpu|cuda] [--together] [--hostOps=FILE] [--filter=TEXT] [--verbose] FOLDER…
//
// --hostOps builds only: a case fails when the accelerator has no row for an operator that FILE
// does not name. A line of FILE is a name and why.
// A folder holds cases as export_cases.py writes them. Each case runs in a process of its own, so
// that a crash counts as one failure. Ends with "N passed, M failed, K skipped"; exit code 1 when a
// case failed.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/device.h"
#include "base/file.h"
#include "builder/builder.h"
#include "cell_proto.h"
#include "import/onnx/onnx.h"
#include "ops/evaluate.h"
#include "run/context.h"

typedef struct options {
  bool interpret, verbose, no_passes;
  const char* disabled_pass;  // NULL: none
  int isa, level;
  const char* filter;
  const char* backend;
  bool together;         // in this process: opening a device takes half a second
  const char* host_ops;  // text of the list
} options;

enum { kCaseSeconds = 120 };

// Cases that cannot be compared, with the reason that is printed.
static const struct {
  const char* name;
  const char* reason;
} kSkips[] = {
    {"test_bernoulli", "the output is drawn at random; its moments are tested instead"},
    {"test_training_dropout", "the output is drawn at random; its moments are tested instead"},
    {"test_adagrad", "training operator"},
    {"test_adam", "training operator"},
    {"test_momentum", "training operator"},
    {"test_nesterov_momentum", "training operator"},
    {"test_gradient", "training operator"},
    {"test_ai_onnx_ml", "outside the default domain"},
    {"test_image_decoder_decode_bmp", "no library for BMP here"},
    {"test_image_decoder_decode_jpeg2k", "no library for JPEG 2000 here"},
    {"test_image_decoder_decode_pnm", "no library for PNM here"},
    {"test_image_decoder_decode_tiff", "no library for TIFF here"},
    {"test_image_decoder_decode_webp", "no library for WebP here"},
};

static const char* skip_reason(const char* name) {
  // These draw nothing although their names begin alike.
  if (strstr(name, "zero_ratio")) return NULL;
  for (size_t i = 0; i < sizeof(kSkips) / sizeof(kSkips[0]); i++)
    if (strncmp(name, kSkips[i].name, strlen(kSkips[i].name)) == 0) return kSkips[i].reason;
  return NULL;
}

// ---- one data set ----

typedef struct data_set {
  carnot_arena arena;
  carnot_mapping maps[256];
  size_t map_count;
  size_t input_count, output_count;
  carnot_rt_value inputs[64], outputs[64];
} data_set;

static carnot_status* read_values(data_set* set, const char* folder, const char* kind, size_t limit,
                                  carnot_value* const* values, carnot_rt_value* cells,
                                  size_t* out_count) {
  char path[4096];
  for (size_t i = 0; i < limit; i++) {
    snprintf(path, sizeof(path), "%s/%s_%zu.pb", folder, kind, i);
    if (access(path, R_OK) != 0) break;
    carnot_mapping* map = &set->maps[set->map_count++];
    CARNOT_TRY(carnot_map_file(path, map));
    CARNOT_TRY_AT(
        carnot_cell_read(values[i]->type.kind, map->data, map->size, &set->arena, &cells[i]), "%s",
        path);
    *out_count = i + 1;
  }
  return NULL;
}

// Cases whose wanted values are less exact than their tolerance, with the reason.
static const struct {
  const char* name;
  double relative, absolute;
  const char* reason;
} kTolerances[] = {
    {"test_dft_inverse", 1e-3, 1e-6, "zeros come with the rounding of a float32 transform"},
    // Up to .94 of the tolerance off the values in float64, and a result in float16 is off by its
    // last place.
    {"test_attention_4d_fp16", 2e-3, 1e-7, "each step of softmax was rounded to float16"},
    {"test_attention_4d_causal_fp16", 2e-3, 1e-7, "each step of softmax was rounded to float16"},
};

static carnot_status* read_tolerance(const char* folder, double* relative, double* absolute) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/tolerance.txt", folder);
  FILE* file = fopen(path, "r");
  CARNOT_CHECK(file, IO, "cannot open %s", path);
  int read = fscanf(file, "%lf %lf", relative, absolute);
  fclose(file);
  CARNOT_CHECK(read == 2, INVALID_MODEL, "%s holds no two numbers", path);
  const char* name = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
  for (size_t i = 0; i < sizeof(kTolerances) / sizeof(kTolerances[0]); i++) {
    if (strncmp(name, kTolerances[i].name, strlen(kTolerances[i].name)) != 0) continue;
    *relative = kTolerances[i].relative;
    *absolute = kTolerances[i].absolute;
  }
  return NULL;
}

static carnot_status* compare_outputs(const data_set* set, const carnot_rt_value* found,
                                      double relative, double absolute) {
  for (size_t i = 0; i < set->output_count; i++)
    CARNOT_TRY_AT(carnot_cell_compare(&found[i], &set->outputs[i], relative, absolute),
                  "output %zu", i);
  return NULL;
}

static carnot_status* interpret(const carnot_graph* graph, data_set* set, carnot_rt_value* found) {
  carnot_evaluator evaluator;
  CARNOT_TRY(carnot_evaluator_init(&evaluator, graph, NULL, 1));
  const carnot_rt_value* inputs[64];
  for (size_t i = 0; i < set->input_count; i++) inputs[i] = &set->inputs[i];
  return carnot_evaluate_block(&evaluator, graph->main, (int)set->input_count, inputs,
                               (int)set->output_count, found);
}

// ---- where steps are placed ----

typedef struct placement {
  const char* host_ops;
  char missing[256];  // the first that is not listed
} placement;

// |list| has a line that begins with |name| and a space.
static bool is_listed(const char* list, const char* name, size_t size) {
  for (const char* at = list; *at; at += strcspn(at, "\n"), at += *at == '\n')
    if (strncmp(at, name, size) == 0 && at[size] == ' ') return true;
  return false;
}

static void note_missing(void* user, int severity, const char* text) {
  placement* p = user;
  (void)severity;
  if (!strstr(text, " runs on the processor: ") || p->missing[0]) return;
  if (!is_listed(p->host_ops, text, strcspn(text, " ")))
    snprintf(p->missing, sizeof(p->missing), "%s", text);
}

static carnot_status* check_placement(const carnot_graph* graph, const options* opts) {
  placement p = {.host_ops = opts->host_ops};
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.level = opts->level;
  config.log = note_missing;
  config.user = &p;
  CARNOT_TRY(carnot_device_choose(opts->backend, &config.device));
  carnot_plan* plan;
  CARNOT_TRY_AT(carnot_build_plan(graph, &config, &plan), "build");
  carnot_plan_destroy(plan);
  CARNOT_CHECK(!p.missing[0], INTERNAL, "%s", p.missing);
  return NULL;
}

static carnot_status* make_engine(const carnot_graph* graph, const options* opts,
                                  carnot_engine** out_engine) {
  carnot_build_config config;
  carnot_build_config_init(&config);
  config.no_passes = opts->no_passes;
  config.disabled_passes = &opts->disabled_pass;
  config.disabled_pass_count = opts->disabled_pass != NULL;
  config.isa = opts->isa;
  config.level = opts->level;
  CARNOT_TRY(carnot_device_choose(opts->backend, &config.device));
  carnot_plan* plan;
  CARNOT_TRY_AT(carnot_build_plan(graph, &config, &plan), "build");
  void* bytes;
  size_t size;
  carnot_status* status = carnot_plan_write_memory(plan, &bytes, &size);
  carnot_plan_destroy(plan);
  if (status) return status;
  status = carnot_engine_load_memory(bytes, size, NULL, NULL, out_engine);
  free(bytes);
  return carnot_status_annotate(status, "load");
}

// Steps of the last case that a device engine leaves to the processor.
static int g_host_steps;

static void count_host_steps(const carnot_plan* plan) {
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const carnot_plan_step* step = &plan->steps[i];
    const carnot_tactic* row = carnot_tactic_find(step->variants[0].tactic);
    if (step->is_shape || !row || row->device || row->cross_memory) continue;
    g_host_steps++;
  }
}

static carnot_status* run_engine(carnot_context* context, data_set* set, carnot_rt_value* found) {
  uint32_t input = 0, output = 0;
  const carnot_plan* plan = context->plan;
  for (uint32_t i = 0; i < plan->binding_count; i++)
    if (plan->bindings[i].is_input && input < set->input_count)
      CARNOT_TRY(carnot_context_set_input_cell(context, i, &set->inputs[input++]));
  CARNOT_TRY(carnot_context_run_now(context));
  if (context->stream) count_host_steps(plan);
  for (uint32_t i = 0; i < plan->binding_count; i++)
    if (!plan->bindings[i].is_input && output < set->output_count)
      found[output++] = *carnot_context_output(context, i);
  return NULL;
}

static carnot_status* run_case(const char* folder, const options* opts) {
  char path[4096];
  snprintf(path, sizeof(path), "%s/model.onnx", folder);
  carnot_model_source* source;
  carnot_graph* graph;
  CARNOT_TRY_AT(carnot_onnx_import_file(path, NULL, &source, &graph), "import");
  if (opts->host_ops) return check_placement(graph, opts);
  double relative, absolute;
  CARNOT_TRY(read_tolerance(folder, &relative, &absolute));
  carnot_context* context = NULL;
  if (!opts->interpret) {
    carnot_engine* engine;
    CARNOT_TRY(make_engine(graph, opts, &engine));
    carnot_context_options context_options = {.isa = opts->isa, .host_io = true};
    carnot_status* status = carnot_context_create_on(engine, &context_options, &context);
    carnot_engine_release(engine);
    CARNOT_TRY_AT(status, "context");
  }
  size_t sets = 0;
  for (;; sets++) {
    snprintf(path, sizeof(path), "%s/test_data_set_%zu", folder, sets);
    if (access(path, R_OK) != 0) break;
    data_set* set = calloc(1, sizeof(*set));
    CARNOT_TRY(read_values(set, path, "input", graph->main->param_count, graph->main->params,
                           set->inputs, &set->input_count));
    CARNOT_TRY(read_values(set, path, "output", graph->main->output_count, graph->main->outputs,
                           set->outputs, &set->output_count));
    carnot_rt_value found[64] = {0};
    if (opts->interpret) {
      CARNOT_TRY(interpret(graph, set, found));
    } else {
      CARNOT_TRY_AT(run_engine(context, set, found), "run");
    }
    CARNOT_TRY(compare_outputs(set, found, relative, absolute));
  }
  carnot_context_free(context);
  CARNOT_CHECK(sets > 0, NOT_FOUND, "%s has no test data", folder);
  return NULL;
}

// ---- all cases ----

typedef struct counts {
  int passed, failed, skipped;
  int on_device;  // of those passed: without a step on the processor
} counts;
enum { kPassedWithHostSteps = 3 };  // exit code of a case

static void run_isolated(const char* name, const char* folder, const options* opts, counts* total) {
  const char* reason = skip_reason(name);
  if (reason) {
    printf("SKIPPED %s: %s\n", name, reason);
    total->skipped++;
    return;
  }
  fflush(stdout);
  if (opts->together) {
    g_host_steps = 0;
    carnot_status* status = run_case(folder, opts);
    total->on_device += !status && !g_host_steps;
    if (status) printf("FAILED %s: %s\n", name, carnot_status_message(status));
    if (!status && opts->verbose) printf("passed %s\n", name);
    *(status ? &total->failed : &total->passed) += 1;
    carnot_status_free(status);
    return;
  }
  pid_t child = fork();
  if (child == 0) {
    alarm(kCaseSeconds);
    carnot_status* status = run_case(folder, opts);
    if (status) printf("FAILED %s: %s\n", name, carnot_status_message(status));
    fflush(stdout);
    _exit(status ? 1 : g_host_steps ? kPassedWithHostSteps : 0);
  }
  int state = 0;
  waitpid(child, &state, 0);
  int code = WIFEXITED(state) ? WEXITSTATUS(state) : 1;
  bool passed = code == 0 || code == kPassedWithHostSteps;
  total->on_device += code == 0;
  if (!passed && WIFSIGNALED(state))
    printf("FAILED %s: ended by signal %d\n", name, WTERMSIG(state));
  if (!passed && WIFEXITED(state) && code > 1) printf("FAILED %s: exit code %d\n", name, code);
  if (passed && opts->verbose) printf("passed %s\n", name);
  *(passed ? &total->passed : &total->failed) += 1;
}

static int is_case(const struct dirent* entry) { return entry->d_name[0] != '.'; }

static void run_folder(const char* folder, const options* opts, counts* total) {
  struct dirent** entries;
  int count = scandir(folder, &entries, is_case, alphasort);
  if (count < 0) {
    printf("FAILED %s: cannot be read\n", folder);
    total->failed++;
    return;
  }
  for (int i = 0; i < count; i++) {
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
    if (!opts->filter || strstr(entries[i]->d_name, opts->filter))
      run_isolated(entries[i]->d_name, path, opts, total);
    free(entries[i]);
  }
  free(entries);
}

static const char* read_text(const char* path) {
  static char text[1 << 14];
  FILE* file = fopen(path, "r");
  if (!file) return NULL;
  text[fread(text, 1, sizeof(text) - 1, file)] = 0;
  fclose(file);
  return text;
}

int main(int argc, char** argv) {
  options opts = {.isa = -1, .level = 0, .backend = "cpu"};
  counts total = {0};
  for (int i = 1; i < argc; i++) {
    const char* arg = argv[i];
    if (strcmp(arg, "--interpret") == 0) {
      opts.interpret = true;
    } else if (strcmp(arg, "--noPasses") == 0) {
      opts.no_passes = true;
    } else if (strncmp(arg, "--disablePass=", 14) == 0) {
      opts.disabled_pass = arg + 14;
    } else if (strcmp(arg, "--verbose") == 0) {
      opts.verbose = true;
    } else if (strncmp(arg, "--isa=", 6) == 0) {
      opts.isa = carnot_isa_find(arg + 6);
      if (opts.isa == CARNOT_ISA_COUNT || opts.isa > (int)carnot_isa_of_machine()) {
        printf("%s cannot be run on this machine, which has %s\n", arg,
               carnot_isa_name(carnot_isa_of_machine()));
        return 2;
      }
    } else if (strncmp(arg, "--level=", 8) == 0) {
      opts.level = atoi(arg + 8);
    } else if (strcmp(arg, "--together") == 0) {
      opts.together = true;
    } else if (strncmp(arg, "--backend=", 10) == 0) {
      opts.backend = arg + 10;
    } else if (strncmp(arg, "--hostOps=", 10) == 0) {
      opts.host_ops = read_text(arg + 10);
      if (!opts.host_ops) return printf("%s cannot be read\n", arg + 10), 2;
    } else if (strncmp(arg, "--filter=", 9) == 0) {
      opts.filter = arg + 9;
    } else if (arg[0] == '-') {
      printf("unknown option %s\n", arg);
      return 2;
    }
  }
  for (int i = 1; i < argc; i++)
    if (argv[i][0] != '-') run_folder(argv[i], &opts, &total);
  printf("%d passed, %d failed, %d skipped", total.passed, total.failed, total.skipped);
  if (strcmp(opts.backend, "cpu") != 0)
    printf(", %d without a step on the processor", total.on_device);
  printf("\n");
  return total.failed != 0;
}
