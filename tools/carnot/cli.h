// What the subcommands share: flags, shapes, opening a model or engine, reading and writing tensors.
#ifndef CARNOT_TOOLS_CLI_H_
#define CARNOT_TOOLS_CLI_H_

#include <stdio.h>

#include "build/build.h"
#include "engine/engine.h"
#include "run/context.h"

// ---- flags ----

// Flags are --name=value, --name value or --name; a lone word is positional. Values stay in argv.
typedef struct cli_flags {
  int argc;
  char** argv;
  bool* used;  // by index: somebody asked for it
} cli_flags;

carnot_status* cli_flags_init(cli_flags* flags, int argc, char** argv) CARNOT_MUST_USE;
void cli_flags_deinit(cli_flags* flags);
// The last value of --name, or NULL. |next| counts: 1 gives the last, more walk back through repeated flags.
const char* cli_flag_text(cli_flags* flags, const char* name);
// The value number |index| of a flag that may be repeated, in order; NULL after the last.
const char* cli_flag_each(cli_flags* flags, const char* name, int index);
bool cli_flag_set(cli_flags* flags, const char* name);
carnot_status* cli_flag_int(cli_flags* flags, const char* name, long long min, long long max, long long* value) CARNOT_MUST_USE;
carnot_status* cli_flag_number(cli_flags* flags, const char* name, double min, double max, double* value) CARNOT_MUST_USE;
// The positional word number |index|; NULL after the last.
const char* cli_word(cli_flags* flags, int index);
// An error that names the first flag nobody asked for and the nearest of |known| (names without dashes, NULL-ended).
carnot_status* cli_flags_finish(cli_flags* flags, const char* const* known) CARNOT_MUST_USE;

// ---- shapes: name:1x3x224x224,name2:… ; a value splits at its last ':', names may stand in single quotes ----

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

typedef struct cli_build_options {
  const cli_shapes *min, *opt, *max;  // NULL or empty: from the model, dynamic dimensions open
  bool override_dynamic;              // a dynamic dimension without shape becomes 1, with a warning
  carnot_build_config config;
  const char* timing_cache_path;
} cli_build_options;

void cli_build_options_init(cli_build_options* options);
// ONNX file → engine file. The process keeps nothing of the model afterwards.
carnot_status* cli_build_file(const char* model, const cli_build_options* options, const char* engine_path) CARNOT_MUST_USE;
// Loads an engine, or builds one from a model in a child process, so that the peak memory of this process is the run's.
typedef struct cli_loaded {
  carnot_engine* engine;
  double build_ms, build_peak_mb, load_ms;  // build: 0 for an engine
} cli_loaded;
carnot_status* cli_load(const char* path, const cli_build_options* options, cli_loaded* out) CARNOT_MUST_USE;

// ---- tensors ----

// A tensor from FILE for an input of this type and rank: .npy, .pb, .png, .jpg, else raw bytes of |dims|. Memory is the
// arena's.
typedef struct cli_image_options {
  float mean[4], scale[4];  // x = (pixel - mean) * scale
  int mean_count, scale_count;
  const char* layout;  // "nchw" or "nhwc"; NULL: guessed from the shape
} cli_image_options;
carnot_status* cli_read_tensor(const char* path, const carnot_plan_binding* binding, const carnot_dims* dims,
                               const cli_image_options* image, carnot_arena* arena, carnot_cell* out) CARNOT_MUST_USE;
carnot_status* cli_write_npy(const char* path, const carnot_tensor* tensor) CARNOT_MUST_USE;
// [1,3,H,W], [H,W,3], [1,1,H,W] … with values 0…255 as a picture.
carnot_status* cli_write_png(const char* path, const carnot_tensor* tensor) CARNOT_MUST_USE;
// Random values: floats in [-1, 1], integers in [0, 1000), ones for inputs named like masks.
carnot_status* cli_random_tensor(const carnot_plan_binding* binding, const int64_t* dims, carnot_arena* arena,
                                 carnot_cell* out) CARNOT_MUST_USE;

// The dimensions of an input for a run: from |shapes|, else the engine's optimum.
carnot_status* cli_input_dims(const carnot_plan_binding* binding, const cli_shapes* shapes, int64_t* out_dims) CARNOT_MUST_USE;

double cli_now_ms(void);
double cli_peak_rss_mb(void);

// ---- subcommands ----
carnot_status* cli_run(cli_flags* flags);
carnot_status* cli_bench(cli_flags* flags);
carnot_status* cli_build(cli_flags* flags);
carnot_status* cli_inspect(cli_flags* flags);

#endif  // CARNOT_TOOLS_CLI_H_
