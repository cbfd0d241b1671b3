// Conformance: imports, builds, serializes, loads and runs cases and compares their outputs.
//
//   conformance [--interpret] [--every-tactic [--time]] [--noPasses] [--disablePass=NAME]
//   [--isa=NAME]
//   [--level=N] [--backend=cpu|cuda] [--together] [--hostOps=FILE] [--filter=TEXT] [--verbose]
//   FOLDER|FILE…
//
// A FOLDER has ONNX's cases as export_cases.py writes them. A FILE has problems, one a line, as
// problem.h says; the interpreter computes their wanted outputs.
// --every-tactic runs each case once with every CPU tactic that takes one of its regions, on all
// ISA levels of the machine, and fails when a tactic ran in no case (unless --filter is given).
// --time prints how long each of these runs takes and its GFLOP/s: the lines of tests/problems are
// benchmarks too, and other files with larger problems may be given.
// --hostOps builds only: a case fails when the accelerator has no tactic for an operator that FILE
// does not name. A line of FILE is a name and why.
// Each case runs in a process of its own, so that a crash counts as one failure. Ends with
// "N passed, M failed, K skipped"; exit code 1 when a case failed.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/device.h"
#include "case.h"
#include "every_tactic.h"
#include "problem.h"

typedef struct options {
  case_options build;
  bool interpret, verbose;
  const char* filter;    // part of the names of the cases to run; NULL: all
  bool together;         // in this process: opening a device takes half a second
  const char* host_ops;  // text of the list; NULL: cases run
  tactic_tally* tally;   // of --every-tactic; NULL without
} options;

enum { kCaseSeconds = 120, kEveryTacticSeconds = 900 };

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
};

static const char* skip_reason(const char* name) {
  // These draw nothing although their names begin alike.
  if (strstr(name, "zero_ratio")) return NULL;
  for (size_t i = 0; i < sizeof(kSkips) / sizeof(kSkips[0]); i++)
    if (strncmp(name, kSkips[i].name, strlen(kSkips[i].name)) == 0) return kSkips[i].reason;
  return NULL;
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
  config.level = opts->build.level;
  config.log = note_missing;
  config.user = &p;
  CARNOT_TRY(carnot_device_choose(opts->build.backend, &config.device));
  carnot_plan* plan;
  CARNOT_TRY_AT(carnot_build_plan(graph, &config, &plan), "build");
  carnot_plan_destroy(plan);
  CARNOT_CHECK(!p.missing[0], INTERNAL, "%s", p.missing);
  return NULL;
}

// Steps of the last case that a device engine leaves to the processor.
static int g_host_steps;

static void count_host_steps(const carnot_plan* plan) {
  for (uint32_t i = 0; i < plan->step_count; i++) {
    const carnot_plan_step* step = &plan->steps[i];
    const carnot_tactic* tactic = carnot_tactic_find(step->variants[0].tactic);
    if (step->is_shape || !tactic || tactic->device || tactic->cross_memory) continue;
    g_host_steps++;
  }
}

// ---- one case ----

// Where a case comes from.
typedef struct case_source {
  const char* name;
  const char* folder;   // of an ONNX case; NULL: a problem
  const char* problem;  // the line of the problem
} case_source;

static carnot_status* run_case(const case_source* source, const options* opts) {
  test_case test = {.graph = NULL};
  CARNOT_TRY(source->folder ? case_import(source->folder, &test)
                            : problem_read(source->problem, &test));
  if (opts->host_ops) return check_placement(test.graph, opts);
  if (source->folder) CARNOT_TRY(case_read_data(source->folder, &test));
  if (opts->interpret) return case_check_interpreter(&test);
  if (opts->tally) return case_check_every_tactic(source->name, &test, &opts->build, opts->tally);
  carnot_context* context;
  CARNOT_TRY(case_open(&test, &opts->build, &context));
  carnot_status* status = case_check_engine(&test, context, /*half_bound=*/0);
  if (!status && context->device.stream) count_host_steps(context->plan);
  carnot_context_free(context);
  return status;
}

// ---- all cases ----

typedef struct counts {
  int passed, failed, skipped;
  int on_device;  // of those passed: without a step on the processor
} counts;
enum { kPassedWithHostSteps = 3 };  // exit code of a case

static void run_isolated(const case_source* source, const options* opts, counts* total) {
  const char* name = source->name;
  if (opts->filter && !strstr(name, opts->filter)) return;
  const char* reason = skip_reason(name);
  if (reason) {
    printf("SKIPPED %s: %s\n", name, reason);
    total->skipped++;
    return;
  }
  fflush(stdout);
  if (opts->together) {
    g_host_steps = 0;
    carnot_status* status = run_case(source, opts);
    total->on_device += !status && !g_host_steps;
    if (status) printf("FAILED %s: %s\n", name, carnot_status_message(status));
    if (!status && opts->verbose) printf("passed %s\n", name);
    *(status ? &total->failed : &total->passed) += 1;
    carnot_status_free(status);
    return;
  }
  pid_t child = fork();
  if (child == 0) {
    alarm(opts->tally ? kEveryTacticSeconds : kCaseSeconds);
    carnot_status* status = run_case(source, opts);
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
    const case_source source = {.name = entries[i]->d_name, .folder = path};
    run_isolated(&source, opts, total);
    free(entries[i]);
  }
  free(entries);
}

// Problems of |path|; their names get the name of the file: "conv/odd_channels".
static void run_problems(const char* path, const options* opts, counts* total) {
  FILE* file = fopen(path, "r");
  if (!file) {
    printf("FAILED %s: cannot be read\n", path);
    total->failed++;
    return;
  }
  const char* base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
  char line[PROBLEM_MAX_LINE], name[256];
  while (fgets(line, sizeof(line), file)) {
    int length = (int)strcspn(line, ":"), end = (int)strcspn(line, "\n");
    if (line[0] == '#' || line[0] == '\n') continue;
    if (line[length] != ':' || (!line[end] && !feof(file))) {
      printf("FAILED %s: '%.40s' has no name or is too long\n", path, line);
      total->failed++;
      continue;
    }
    line[end] = 0;
    snprintf(name, sizeof(name), "%.*s/%.*s", (int)strcspn(base, "."), base, length, line);
    const case_source source = {.name = name, .problem = line + length + 1};
    run_isolated(&source, opts, total);
  }
  fclose(file);
}

static const char* read_text(const char* path) {
  static char text[1 << 14];
  FILE* file = fopen(path, "r");
  if (!file) return NULL;
  text[fread(text, 1, sizeof(text) - 1, file)] = 0;
  fclose(file);
  return text;
}

// Reads the options. 0, or the exit code after a message.
static int read_options(int argc, char** argv, options* out) {
  *out = (options){.build = {.isa = -1, .backend = "cpu"}};
  for (int i = 1; i < argc; i++) {
    const char* arg = argv[i];
    if (strcmp(arg, "--interpret") == 0) {
      out->interpret = true;
    } else if (strcmp(arg, "--every-tactic") == 0) {
      out->tally = tactic_tally_create();
      if (!out->tally) return printf("no shared memory\n"), 2;
    } else if (strcmp(arg, "--time") == 0) {
      out->build.time = true;
    } else if (strcmp(arg, "--noPasses") == 0) {
      out->build.no_passes = true;
    } else if (strncmp(arg, "--disablePass=", 14) == 0) {
      out->build.disabled_pass = arg + 14;
    } else if (strcmp(arg, "--verbose") == 0) {
      out->verbose = true;
    } else if (strncmp(arg, "--isa=", 6) == 0) {
      out->build.isa = carnot_isa_find(arg + 6);
      if (out->build.isa == CARNOT_ISA_COUNT ||
          !carnot_isa_includes(carnot_isa_of_machine(), (carnot_isa)out->build.isa))
        return printf("%s cannot be run on this machine, which has %s\n", arg,
                      carnot_isa_name(carnot_isa_of_machine())),
               2;
    } else if (strncmp(arg, "--level=", 8) == 0) {
      out->build.level = atoi(arg + 8);
    } else if (strcmp(arg, "--together") == 0) {
      out->together = true;
    } else if (strncmp(arg, "--backend=", 10) == 0) {
      out->build.backend = arg + 10;
    } else if (strncmp(arg, "--hostOps=", 10) == 0) {
      out->host_ops = read_text(arg + 10);
      if (!out->host_ops) return printf("%s cannot be read\n", arg + 10), 2;
    } else if (strncmp(arg, "--filter=", 9) == 0) {
      out->filter = arg + 9;
    } else if (arg[0] == '-') {
      return printf("unknown option %s\n", arg), 2;
    }
  }
  return 0;
}

static bool is_folder(const char* path) {
  struct stat facts;
  return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

int main(int argc, char** argv) {
  options opts;
  counts total = {0};
  int code = read_options(argc, argv, &opts);
  if (code) return code;
  for (int i = 1; i < argc; i++)
    if (argv[i][0] != '-') (is_folder(argv[i]) ? run_folder : run_problems)(argv[i], &opts, &total);
  int missed = opts.tally && !opts.build.time ? tactic_tally_print(opts.tally, opts.build.isa) : 0;
  printf("%d passed, %d failed, %d skipped", total.passed, total.failed, total.skipped);
  if (strcmp(opts.build.backend, "cpu") != 0)
    printf(", %d without a step on the processor", total.on_device);
  printf("\n");
  if (total.passed + total.failed + total.skipped == 0) {
    fprintf(stderr, "there is no case here%s: `make conformance` makes them\n",
            opts.filter ? " of that name" : "");
    return 1;
  }
  return total.failed != 0 || (missed && !opts.filter);
}
