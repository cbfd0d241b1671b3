// One engine with threads, a context and inputs.
#ifndef CARNOT_TOOLS_SESSION_H_
#define CARNOT_TOOLS_SESSION_H_

#include "build_options.h"
#include "tensor.h"

typedef struct cli_session {
  cli_loaded loaded;
  carnot_executor* executor;
  carnot_context* context;
  uint32_t profile;            // whose optimum inputs without a shape have
  cli_arena arena;             // of inputs
  const carnot_data** inputs;  // by tensor index; NULL until set
  bool* is_made_up;            // by tensor index: random elements that decide no shapes
  double base_mb;              // the peak memory of the process before the context
} cli_session;

// Loads or builds the engine at |path| and starts a session. close frees in any case.
carnot_status* cli_session_open(const char* path, const cli_build_options* options,
                                cli_session* out) CARNOT_MUST_USE;
// Starts a session on a loaded engine; takes |loaded|. |threads| 0: one for each processor.
carnot_status* cli_session_start(const cli_loaded* loaded, int threads,
                                 cli_session* out) CARNOT_MUST_USE;
void cli_session_close(cli_session* session);

// ---- inputs ----

// The file of one input; |name| NULL: of the only one.
typedef struct cli_input_file {
  const char *name, *file;
} cli_input_file;
typedef struct cli_input_files {
  cli_input_file items[128];
  int count;
} cli_input_files;

// Adds the file of |length| bytes of text "NAME<separator>FILE", split at the last separator, or
// "FILE". Text goes into |arena|.
carnot_status* cli_input_files_add(const char* text, size_t length, char separator,
                                   cli_arena* arena, cli_input_files* files) CARNOT_MUST_USE;
// Every --input NAME=FILE.
carnot_status* cli_input_flags(cli_flags* flags, cli_input_files* out) CARNOT_MUST_USE;
// --mean --scale --layout.
carnot_status* cli_image_flags(const cli_flags* flags, cli_image_options* out) CARNOT_MUST_USE;
// The same from flags of other names.
carnot_status* cli_image_flags_named(const cli_flags* flags, const char* mean, const char* scale,
                                     const char* layout, cli_image_options* out) CARNOT_MUST_USE;

// The shape of an input for a run: from |shapes|, else the optimum of the session's profile.
carnot_status* cli_input_dims(const cli_session* session, const carnot_tensor_info* input,
                              const cli_shapes* shapes, carnot_dims* out) CARNOT_MUST_USE;
// Sets input |index| of the engine to |data|, which must live as long as the session.
carnot_status* cli_session_set_input(cli_session* session, uint32_t index,
                                     const carnot_data* data) CARNOT_MUST_USE;
// What input |name| was set to; NULL where there is none.
const carnot_data* cli_session_input(const cli_session* session, const char* name);
// Sets every input from its file; made-up values where there is none and |random| allows it.
carnot_status* cli_session_read(cli_session* session, const cli_input_files* files,
                                const cli_shapes* shapes, const cli_image_options* image,
                                bool random) CARNOT_MUST_USE;
// Sets every input to made-up values.
carnot_status* cli_session_random(cli_session* session, const cli_shapes* shapes) CARNOT_MUST_USE;

// ---- made-up inputs (random_inputs.c) ----

// Made-up elements for input |index| of dimensions |dims|. Those of a shape input are what |shapes|
// give (as many numbers as it has elements), else what the profile was tuned for, else 1.
carnot_status* cli_session_make_up(cli_session* session, uint32_t index,
                                   const carnot_tensor_info* input, const carnot_dims* dims,
                                   const cli_shapes* shapes,
                                   const carnot_data** out_data) CARNOT_MUST_USE;
// The first run. Where it fails and made-up integers may be indices that are out of range, they
// are made up again inside of what they index, and |warn| (NULL: the log) is told. The error of the
// run where that does not help.
carnot_status* cli_session_run_first(cli_session* session,
                                     void (*warn)(const char* message)) CARNOT_MUST_USE;

// ---- layer times ----

// Times each layer in |runs| runs after three for warming up. The caller frees *out_times
// [layer_count].
carnot_status* cli_session_profile(cli_session* session, int runs,
                                   carnot_layer_time** out_times) CARNOT_MUST_USE;
// Writes the timeline of a run, after three for warming up, to the file |path|: Chrome's trace
// format.
carnot_status* cli_timeline_write(const cli_session* session, const char* path) CARNOT_MUST_USE;
// Prints the mean times of all layers since layer timing was turned on to the standard error.
void cli_profile_print(const cli_session* session);

#endif  // CARNOT_TOOLS_SESSION_H_
