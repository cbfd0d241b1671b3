// carnot exec: what its files share.
#ifndef CARNOT_TOOLS_EXEC_H_
#define CARNOT_TOOLS_EXEC_H_

#include "session.h"

typedef enum exec_verbosity { EXEC_NAMES, EXEC_DETAILED, EXEC_NONE } exec_verbosity;
enum { EXEC_MAX_PROFILES = 16, EXEC_MAX_PERCENTILES = 16 };

// What the flags say. Text belongs to argv and to the flags' arena.
typedef struct exec_options {
  cli_build_options build;
  const char *device, *onnx, *deploy, *uff, *save, *load, *times, *output, *profile, *timeline,
      *layers, *refit_model;
  cli_input_files inputs;
  cli_shapes shapes;
  cli_profile_shapes profiles[EXEC_MAX_PROFILES];
  int profile_count;
  long long iterations, warm_up_ms, average_runs, use_profile, idle_ms, streams;
  double duration_s;
  double percentiles[EXEC_MAX_PERCENTILES];
  int percentile_count;
  bool dump_output, dump_profile, dump_layers, dump_profiles, dump_refit, skip_inference, verbose,
      help, version_only, time_load, time_refit, use_graph, no_graph, no_transfers, transfers;
  exec_verbosity verbosity;
} exec_options;

// Sets the defaults and reads |flags|, whose arena the options borrow from. free in any case.
carnot_status* exec_read_flags(cli_flags* flags, exec_options* out) CARNOT_MUST_USE;
void exec_options_free(exec_options* options);

// Prints "[time] [I] ..." as trtexec's log does; |severity| is one of V I W E.
void exec_log(char severity, const char* format, ...) CARNOT_PRINTF(2, 3);

// A message of the library or of the flags as a line of the log; |user| is the options, |severity|
// as in carnot_config_set_log.
void exec_log_message(void* user, int severity, const char* message);

// The TensorRT version that scripts see (CARNOT_TRT_VERSION, 10.3.0) as text and as trtexec's
// marker has it: 100300, 8601.
int exec_tensorrt_version(char* out_text, size_t size);
// Prints the options, the device and the version.
void exec_print_blocks(const exec_options* options);
// --refitFromOnnx and --timeRefit; nothing without them. INVALID_MODEL names weights that the model
// lacks.
carnot_status* exec_refit(const exec_options* options, carnot_engine* engine) CARNOT_MUST_USE;

// Runs the engine, which it takes, and reports.
carnot_status* exec_infer(const exec_options* options, cli_loaded* loaded) CARNOT_MUST_USE;

// One iteration, in milliseconds since the first began.
typedef struct exec_trace {
  double start, end;
  double total, h2d, compute, d2h;  // of the accelerator; on a CPU all is compute
} exec_trace;

// Prints the performance summary of |traces| [count], in order of their start.
void exec_report(const exec_options* options, const exec_trace* traces, size_t count,
                 double wall_ms);
struct json_t;  // jansson's
// Writes |root|, which it takes, to a JSON file.
carnot_status* exec_write_json(const char* path, struct json_t* root) CARNOT_MUST_USE;
// Writes JSON files: the time of each run, the outputs of the last run.
carnot_status* exec_export_times(const char* path, const exec_trace* traces,
                                 size_t count) CARNOT_MUST_USE;
carnot_status* exec_export_output(const char* path, const carnot_context* context) CARNOT_MUST_USE;
// Prints the outputs of the last run.
carnot_status* exec_dump_output(const carnot_context* context) CARNOT_MUST_USE;
// Prints and writes what the layers are, as the flags ask.
carnot_status* exec_layers(const exec_options* options,
                           const carnot_engine* engine) CARNOT_MUST_USE;
// Runs again with a clock around each layer; prints and writes the times, as the flags ask.
carnot_status* exec_profile(const exec_options* options, cli_session* session) CARNOT_MUST_USE;

#endif  // CARNOT_TOOLS_EXEC_H_
