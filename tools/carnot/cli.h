// What the subcommands share: flags, shapes, opening a model or engine, reading and writing
// tensors.
#ifndef CARNOT_TOOLS_CLI_H_
#define CARNOT_TOOLS_CLI_H_

#include <stdio.h>

#include "builder/builder.h"
#include "engine/engine.h"
#include "import/onnx/onnx.h"
#include "run/context.h"

// ---- flags ----

// Flags are --name=value, --name value or --name; a lone word is positional. Values stay in argv.
typedef struct cli_flags {
  int argc;
  char** argv;
  bool* used;          // by index: somebody asked for it
  carnot_arena arena;  // for what flags are parsed into
} cli_flags;

carnot_status* cli_flags_init(cli_flags* flags, int argc, char** argv) CARNOT_MUST_USE;
void cli_flags_deinit(cli_flags* flags);
// The last value of --name, or NULL. |next| counts: 1 gives the last, more walk back through
// repeated flags.
const char* cli_flag_text(cli_flags* flags, const char* name);
// The value number |index| of a flag that may be repeated, in order; NULL after the last.
const char* cli_flag_each(cli_flags* flags, const char* name, int index);
bool cli_flag_set(cli_flags* flags, const char* name);
carnot_status* cli_flag_int(cli_flags* flags, const char* name, long long min, long long max,
                            long long* value) CARNOT_MUST_USE;
carnot_status* cli_flag_number(cli_flags* flags, const char* name, double min, double max,
                               double* value) CARNOT_MUST_USE;
// The positional word number |index|; NULL after the last.
const char* cli_word(cli_flags* flags, int index);
// An error that names the first flag nobody asked for and the nearest of |known| (names without
// dashes, NULL-ended).
carnot_status* cli_flags_finish(cli_flags* flags, const char* const* known) CARNOT_MUST_USE;

// ---- shapes: name:1x3x224x224,name2:… ; a value splits at its last ':', names may stand in single
// quotes ----

typedef struct cli_shape {
  char* name;
  carnot_dims dims;
} cli_shape;

typedef struct cli_shapes {
  cli_shape items[128];
  size_t count;
} cli_shapes;

carnot_status* cli_shapes_parse(const char* text, cli_shapes* out) CARNOT_MUST_USE;
const carnot_dims* cli_shapes_find(const cli_shapes* shapes, const char* name);
void cli_shapes_free(cli_shapes* shapes);

// ---- models and engines ----

typedef enum cli_file_kind { CLI_FILE_ONNX, CLI_FILE_ENGINE } cli_file_kind;
// What |path| holds; UNSUPPORTED for a TensorRT plan, with advice.
carnot_status* cli_file_recognise(const char* path, cli_file_kind* out) CARNOT_MUST_USE;

typedef struct cli_profile_shapes {
  cli_shapes min, opt, max;
} cli_profile_shapes;

// Weak typing as flags say it (typing.c). Lists live in an arena of the caller's.
typedef struct cli_typing {
  carnot_precision_constraints typing;
  bool constraints_given;
} cli_typing;
#define CLI_TYPING_FLAGS                                                                        \
  "fp16", "bf16", "best", "noTF32", "stronglyTyped", "precisionConstraints", "layerPrecisions", \
      "layerOutputTypes", "inputIOFormats", "outputIOFormats"
extern const char* const cli_typing_flags[];  // ends with NULL
carnot_status* cli_typing_flag(const char* name, const char* value, carnot_arena* arena,
                               cli_typing* out) CARNOT_MUST_USE;
// When all flags are taken.
void cli_typing_finish(cli_typing* typing);
enum { CLI_MAX_LIBRARIES = 16 };

typedef struct cli_build_options {
  const cli_shapes *min, *opt, *max;  // NULL or empty: from the model, dynamic dimensions open
  const cli_profile_shapes* more;     // further profiles, after the one above
  size_t more_count;
  bool override_dynamic;  // a dynamic dimension without shape becomes 1, with a warning
  carnot_build_config config;
  int threads;  // of the executor that tactics are timed on; 0: one for each processor
  const char* timing_cache_path;  // read before, written after; NULL: none
  const char* device;             // --backend: cpu, cuda, cuda:N, cuda:sm_NN; NULL: the device rule
  carnot_onnx_options import;
  const char* carried[CLI_MAX_LIBRARIES];  // plugin libraries that the engine carries
} cli_build_options;

void cli_build_options_init(cli_build_options* options);
// The flags that every building subcommand takes: --builderOptimizationLevel --timeBudget
// --timingCacheFile --noPasses --disablePasses --dumpGraph --fp32 --threads --backend, and
// those of typing and of plugins.
carnot_status* cli_build_flags(cli_flags* flags, cli_build_options* options) CARNOT_MUST_USE;
#define CLI_BUILD_FLAGS                                                                        \
  "builderOptimizationLevel", "timeBudget", "timingCacheFile", "tacticSources", "noPasses",    \
      "disablePasses", "dumpGraph", "fp32", "threads", "backend", "plugins", "staticPlugins",  \
      "dynamicPlugins", "setPluginsToSerialize", "pluginInstanceNorm", "enablePluginOverride", \
      "allowEngineCode", CLI_TYPING_FLAGS
// "-CUDNN,+CUBLAS_LT": taken out of |out_sources| and put into it.
carnot_status* cli_tactic_sources(const char* text, uint32_t* out_sources) CARNOT_MUST_USE;
// "cse,fuse_norms": names of passes; NOT_FOUND lists those that exist.
carnot_status* cli_disable_passes(const char* text, carnot_arena* arena,
                                  carnot_build_config* out) CARNOT_MUST_USE;
carnot_status* cli_plugin_flags(cli_flags* flags, cli_build_options* options) CARNOT_MUST_USE;
// A flag of plugins with its value: libraries are loaded at once. *out_found is false for others.
carnot_status* cli_plugin_flag(const char* name, const char* value, cli_build_options* options,
                               bool* out_found) CARNOT_MUST_USE;
// Builds in a child process, so that the peak memory of this one is the run's.
struct cli_loaded;
carnot_status* cli_build_apart(const char* model, const cli_build_options* options,
                               const char* engine_path, struct cli_loaded* out) CARNOT_MUST_USE;
// ONNX file → engine file. The process keeps nothing of the model afterwards.
carnot_status* cli_build_file(const char* model, const cli_build_options* options,
                              const char* engine_path) CARNOT_MUST_USE;
// Loads an engine, or builds one from a model in a child process, so that the peak memory of this
// process is the run's.
typedef struct cli_loaded {
  carnot_engine* engine;
  double build_ms, build_peak_mb, load_ms;  // build: 0 for an engine
} cli_loaded;
carnot_status* cli_load(const char* path, const cli_build_options* options,
                        cli_loaded* out) CARNOT_MUST_USE;

// ---- tensors ----

// A tensor from FILE for an input of this type and rank: .npy, .pb, .png, .jpg, else raw bytes of
// |dims|. Memory is the arena's.
typedef struct cli_image_options {
  float mean[4], scale[4];  // x = (pixel - mean) * scale
  int mean_count, scale_count;
  const char* layout;  // "nchw" or "nhwc"; NULL: guessed from the shape
} cli_image_options;
carnot_status* cli_read_tensor(const char* path, const carnot_plan_binding* binding,
                               const carnot_dims* dims, const cli_image_options* image,
                               carnot_arena* arena, carnot_rt_value* out) CARNOT_MUST_USE;
// A tensor with memory of its own, aligned to 64 bytes.
carnot_status* cli_new_tensor(carnot_dtype dtype, int rank, const int64_t* dims,
                              carnot_arena* arena, carnot_rt_value* out) CARNOT_MUST_USE;
// The PNG or JPEG in |map|, scaled to the input's size.
carnot_status* cli_read_picture(const char* path, const carnot_mapping* map, bool is_png,
                                const carnot_plan_binding* binding, const carnot_dims* dims,
                                const cli_image_options* options, carnot_arena* arena,
                                carnot_rt_value* out) CARNOT_MUST_USE;
carnot_status* cli_write_npy(const char* path, const carnot_tensor* tensor) CARNOT_MUST_USE;
// [1,3,H,W], [H,W,3], [1,1,H,W] … with values 0…255 as a picture.
carnot_status* cli_write_png(const char* path, const carnot_tensor* tensor) CARNOT_MUST_USE;
// --mean --scale --layout.
carnot_status* cli_image_flags(cli_flags* flags, cli_image_options* out) CARNOT_MUST_USE;
// |name| with every odd character as '_', as a file's name.
void cli_safe_name(const char* name, char* out, size_t size);
// Makes |path| with the folders above it.
carnot_status* cli_make_folder(const char* path) CARNOT_MUST_USE;
// How far |a| is from |b|: |outside| elements by more than atol + rtol * |b|. Equal infinities and
// NaN on both sides agree. INVALID_ARGUMENT where the dimensions differ.
typedef struct cli_difference {
  double max_abs, max_rel, cosine, worst_a, worst_b;
  int64_t worst, outside, count, not_finite;  // |not_finite|: on either side
} cli_difference;
carnot_status* cli_difference_of(const char* name, const carnot_tensor* a, const carnot_tensor* b,
                                 double rtol, double atol, cli_difference* out) CARNOT_MUST_USE;
// Random values: floats in [-1, 1], integers in [0, 1000), ones for inputs named like masks.
carnot_status* cli_random_tensor(const carnot_plan_binding* binding, const int64_t* dims,
                                 carnot_arena* arena, carnot_rt_value* out) CARNOT_MUST_USE;

// The dimensions of an input for a run: from |shapes|, else the engine's optimum.
carnot_status* cli_input_dims(const carnot_plan_binding* binding, const cli_shapes* shapes,
                              int64_t* out_dims) CARNOT_MUST_USE;

// ---- one run ----

// An engine with threads and a context, ready to be given inputs.
typedef struct cli_session {
  cli_loaded loaded;
  carnot_executor* executor;
  carnot_context* context;
  carnot_arena arena;  // of inputs
  double base_mb;      // the process's memory before the context
} cli_session;
carnot_status* cli_session_open(const char* path, const cli_build_options* options,
                                cli_session* out) CARNOT_MUST_USE;
// The session on an engine that is loaded; takes |loaded|.
carnot_status* cli_session_start(const cli_loaded* loaded, int threads,
                                 cli_session* out) CARNOT_MUST_USE;
void cli_session_close(cli_session* session);
// Sets every input from --input NAME=FILE; made-up values where none is given and |random| allows
// it.
carnot_status* cli_session_read(cli_session* session, cli_flags* flags, const cli_shapes* shapes,
                                const cli_image_options* image, bool random) CARNOT_MUST_USE;
carnot_status* cli_session_random(cli_session* session, const cli_shapes* shapes) CARNOT_MUST_USE;
// Times of the steps from |runs| runs at least; the caller frees them. [step], nanoseconds.
carnot_status* cli_session_profile(cli_session* session, int runs,
                                   carnot_step_time** out_times) CARNOT_MUST_USE;
// Runs from here on are counted by layer; the table of means goes to the standard error.
carnot_status* cli_profile_begin(cli_session* session) CARNOT_MUST_USE;
void cli_profile_print(const cli_session* session);

// ---- what the machine can do, measured ----

typedef struct cli_peak {
  const char *type, *isa;  // "f32", "avx512"
  double one, all;         // operations a second, in 1e9; one thread, all threads
} cli_peak;
typedef struct cli_level {
  char name[16];                                  // L1 L2 L3 DRAM
  double bytes;                                   // of the cache; the buffer's for DRAM
  double read_one, read_all, copy_one, copy_all;  // GB/s
} cli_level;
typedef struct cli_machine {
  cli_peak peaks[16];
  cli_level levels[5];
  int peak_count, level_count, threads;
  bool is_device;
  double launch_us, early_launch_us;  // of a device: from kernel to kernel in a graph
} cli_machine;
// An accelerator in the same terms: one "thread", one level.
carnot_status* cli_measure_device(carnot_device* device, cli_machine* out) CARNOT_MUST_USE;
// Takes |seconds_each| for each figure.
carnot_status* cli_measure_machine(int threads, double seconds_each,
                                   cli_machine* out) CARNOT_MUST_USE;
// The least microseconds that a layer of these operations and bytes takes on all threads;
// |precision| (a type's name) counts on accelerators.
double cli_machine_limit_us(const cli_machine* machine, const char* tactic, const char* precision,
                            double flops, double bytes);

double cli_now_ms(void);
double cli_peak_rss_mb(void);

// ---- subcommands ----
carnot_status* cli_run(cli_flags* flags);
carnot_status* cli_bench(cli_flags* flags);
carnot_status* cli_build(cli_flags* flags);
carnot_status* cli_inspect(cli_flags* flags);
carnot_status* cli_debug(cli_flags* flags) CARNOT_MUST_USE;
carnot_status* cli_compare(cli_flags* flags);
carnot_status* cli_device(cli_flags* flags);
carnot_status* cli_completion(cli_flags* flags);
// Its flags are parsed by its own table: returns the process's exit code.
int cli_exec(int argc, char** argv);

typedef struct cli_command {
  const char* name;
  carnot_status* (*run)(cli_flags* flags);  // NULL: exec
  const char* does;
  const char* help;  // usage and flags
} cli_command;
extern const cli_command cli_commands[];  // ends with a NULL name
// The names of exec's flags, one after another; NULL after the last.
const char* cli_exec_flag_name(int index);
// Levenshtein's distance of two names.
int cli_distance(const char* a, const char* b);

#endif  // CARNOT_TOOLS_CLI_H_
