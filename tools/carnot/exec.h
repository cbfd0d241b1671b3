// carnot exec: what its files share.
#ifndef CARNOT_TOOLS_EXEC_H_
#define CARNOT_TOOLS_EXEC_H_

#include "cli.h"

typedef enum exec_class {
  EXEC_WORKS,
  EXEC_NO_EFFECT,  // here: one warning, and on it goes
  EXEC_REFUSED,    // what it asks for is not there yet
} exec_class;

typedef enum exec_value { EXEC_NO_VALUE, EXEC_VALUE, EXEC_MAY_VALUE } exec_value;

typedef struct exec_flag {
  const char* name;
  exec_value value;
  exec_class class;
  const char* note;  // help of a working flag; why another has no effect, or what is missing
} exec_flag;
extern const exec_flag exec_flags[];  // ends with a NULL name
const exec_flag* exec_flag_find(const char* name);

typedef enum exec_verbosity { EXEC_NAMES, EXEC_DETAILED, EXEC_NONE } exec_verbosity;
enum { EXEC_MAX_PROFILES = 16, EXEC_MAX_PERCENTILES = 16 };

typedef struct exec_options {
  carnot_arena arena;  // for what flags are parsed into
  cli_typing typing;
  const char *backend, *device, *onnx, *save, *load, *times, *output, *profile, *layers, *inputs,
      *timing_cache, *dump_graph, *disable_passes, *tactic_sources;
  cli_shapes shapes;
  cli_profile_shapes profiles[EXEC_MAX_PROFILES];
  int profile_count, profile_at;  // |profile_at|: the one that --minShapes and the others fill
  long long iterations, warm_up_ms, average_runs, threads, level, use_profile, idle_ms, streams;
  double duration_s, time_budget_s;
  double percentiles[EXEC_MAX_PERCENTILES];
  int percentile_count;
  bool dump_output, dump_profile, dump_layers, dump_profiles, dump_refit, skip_inference, verbose,
      refit, strip, no_cache, no_passes, fast_fp32, help, version_only, time_load, use_graph,
      no_graph, no_transfers, transfers;
  exec_verbosity verbosity;
  cli_build_options plugins;  // what the flags of plugins set
} exec_options;

// Prints "[time] [I] …" as the log's line; severity one of V I W E.
void exec_log(char severity, const char* format, ...) CARNOT_PRINTF(2, 3);

// Runs the engine, which it takes, and reports.
carnot_status* exec_infer(const exec_options* options, cli_loaded* loaded) CARNOT_MUST_USE;

void exec_options_init(exec_options* options);
carnot_status* exec_parse(int argc, char** argv, exec_options* options) CARNOT_MUST_USE;
void exec_help(void);

// One iteration, in milliseconds since the first began.
typedef struct exec_trace {
  double start, end;
  double total, h2d, compute, d2h;  // of the accelerator; on a CPU all is compute
} exec_trace;

void exec_report(const exec_options* options, const exec_trace* traces, size_t count,
                 double wall_ms);
carnot_status* exec_export_times(const char* path, const exec_trace* traces,
                                 size_t count) CARNOT_MUST_USE;
carnot_status* exec_export_output(const char* path, const carnot_context* context) CARNOT_MUST_USE;
void exec_dump_output(const carnot_context* context);
carnot_status* exec_layers(const exec_options* options, const carnot_plan* plan) CARNOT_MUST_USE;
// Runs once more with a clock around each layer.
carnot_status* exec_profile(const exec_options* options, cli_session* session) CARNOT_MUST_USE;

#endif  // CARNOT_TOOLS_EXEC_H_
