// How an engine is built, as flags say it, and building it.
#ifndef CARNOT_TOOLS_BUILD_OPTIONS_H_
#define CARNOT_TOOLS_BUILD_OPTIONS_H_

#include "calibrate.h"
#include "carnot/builder.h"
#include "carnot/onnx.h"
#include "carnot/tensorflow.h"
#include "flags.h"
#include "shapes.h"

// ---- what is asked for ----

// Types that layers matching |pattern| compute in (the first) or give (one for each output).
typedef struct cli_type_request {
  const char* pattern;
  carnot_dtype types[8];
  int type_count;
} cli_type_request;

typedef enum cli_constraints { CLI_IGNORE_TYPES, CLI_PREFER_TYPES, CLI_OBEY_TYPES } cli_constraints;

typedef struct cli_typing {
  bool f16, bf16, strong;
  cli_constraints constraints;
  const cli_type_request *layers, *outputs;
  size_t layer_count, output_count;
  const carnot_dtype *input_types, *result_types;  // INVALID: the network's own
  const uint32_t *input_layouts, *result_layouts;  // 1 << carnot_tensor_format that are allowed
  size_t input_type_count, result_type_count;
} cli_typing;

typedef struct cli_profile_shapes {
  cli_shapes min, opt, max;
} cli_profile_shapes;

enum { CLI_MAX_LIBRARIES = 16 };

// A copy may be changed in one thing and built with: lists belong to the arena of the flags.
typedef struct cli_build_options {
  const cli_shapes *min, *opt, *max;  // NULL or empty: from the model, dynamic dimensions open
  const cli_profile_shapes* more;     // further profiles, after the one above
  size_t more_count;
  bool override_dynamic;  // a dynamic dimension without shape becomes 1, with a warning
  int level;
  int threads;  // that tactics are timed on; 0: one for each processor
  double time_budget_s;
  uint32_t tactic_sources;  // bits 1 << carnot_tactic_source
  bool refit, strip, no_passes, fast_fp32;
  bool quantized;  // 8-bit types for layers with ranges; flags may set it
  cli_calibration calibration;
  const carnot_ranges* ranges;  // found by a calibration before; NULL: as |calibration| says
  const char* const* disabled_passes;
  size_t disabled_pass_count;
  const char* dump_pass;
  const char* isa;  // NULL: this machine's
  cli_typing typing;
  const char* timing_cache_path;  // read before, written after; NULL: none
  const char* device;             // --backend: cpu, cuda, cuda:N, cuda:sm_NN; NULL: the device rule
  uint32_t onnx_flags;            // carnot_onnx_flag
  const char* caffe_model;        // the weights of a Caffe network; NULL: random ones
  const char** outputs;           // names of the model's outputs; without any, its own
  const char** inputs;            // nodes of a TensorFlow graph that become inputs
  const char* signature;          // of a SavedModel; NULL: its default
  const char** tags;              // of a SavedModel's graph; without any, its default
  size_t output_count, input_count, tag_count;
  bool verify_weights;  // of a SavedModel's variables
  // Of a Caffe network's inputs and of registered ones: dimension 0; 0: as the model has it.
  int64_t batch;
  const carnot_tensorflow_registered_input* registered;  // inputs of a TensorFlow graph
  size_t registered_count;
  const char* carried[CLI_MAX_LIBRARIES];  // plugin libraries that the engine carries
  size_t carried_count;
  void (*log)(void* user, int severity, const char* message);
  void* log_user;
  bool (*progress)(void* user, const char* phase, int done, int total);  // NULL: none
} cli_build_options;

// ---- flags ----

// The flags of every subcommand that builds.
extern const cli_flag cli_build_flag_table[];

// The defaults, with the log and the progress line of log.h.
void cli_build_options_init(cli_build_options* options);
// Reads the flags of cli_build_flag_table into |options|; plugin libraries are loaded at once.
carnot_status* cli_build_flags(cli_flags* flags, cli_build_options* options) CARNOT_MUST_USE;
// The part about types (typing.c).
carnot_status* cli_typing_flags(cli_flags* flags, cli_build_options* options) CARNOT_MUST_USE;
// The part about models that are not ONNX (parse_model.c).
carnot_status* cli_import_flags(cli_flags* flags, cli_build_options* options) CARNOT_MUST_USE;
// The part about plugins (plugins.c).
carnot_status* cli_plugin_flags(const cli_flags* flags, cli_build_options* options) CARNOT_MUST_USE;

// Sends a warning to the log of |options|.
void cli_build_warn(const cli_build_options* options, const char* format, ...) CARNOT_PRINTF(2, 3);

// Reads the model at |path|, of any framework, into a network of the caller's.
carnot_status* cli_parse_model(const char* path, const cli_build_options* options,
                               carnot_network** out_network) CARNOT_MUST_USE;

// ---- building ----

// Gives |config|, which is new, what |options| ask for, but ranges and a timing cache.
carnot_status* cli_configure(const carnot_network* network, const cli_build_options* options,
                             carnot_config* config) CARNOT_MUST_USE;
// Builds the model at |model| into an engine file. The process keeps nothing of the model.
carnot_status* cli_build_file(const char* model, const cli_build_options* options,
                              const char* engine_path) CARNOT_MUST_USE;

// ---- loading (load.c) ----

typedef enum cli_file_kind { CLI_FILE_ONNX, CLI_FILE_ENGINE } cli_file_kind;
// What |path| holds; UNSUPPORTED for a TensorRT plan, with advice.
carnot_status* cli_file_recognise(const char* path, cli_file_kind* out) CARNOT_MUST_USE;

typedef struct cli_loaded {
  carnot_engine* engine;
  double build_ms, build_peak_mb, load_ms;  // build: 0 for an engine that was loaded
} cli_loaded;

// As cli_build_file, in a child process, so that the peak memory of this one is the run's. Sets the
// facts about the build in |out|.
carnot_status* cli_build_apart(const char* model, const cli_build_options* options,
                               const char* engine_path, cli_loaded* out) CARNOT_MUST_USE;
// Loads the engine at |path|, or builds one from the model there in a child process. The caller
// releases the engine.
carnot_status* cli_load(const char* path, const cli_build_options* options,
                        cli_loaded* out) CARNOT_MUST_USE;

#endif  // CARNOT_TOOLS_BUILD_OPTIONS_H_
