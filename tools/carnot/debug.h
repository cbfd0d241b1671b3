// carnot debug: what its files share.
#ifndef CARNOT_TOOLS_DEBUG_H_
#define CARNOT_TOOLS_DEBUG_H_

#include "carnot/edit.h"
#include "carnot/reference.h"
#include "session.h"

// One model with inputs and what the reference kernels compute for every tensor.
typedef struct debug_case {
  const char* path;
  cli_flags* flags;
  cli_shapes shapes;
  cli_image_options image;
  cli_input_files files;
  cli_build_options build;  // as the flags say
  const char* against;      // folder of saved tensors; NULL: the reference kernels
  double rtol, atol;
  carnot_network* network;      // as imported, no pass run
  cli_session inputs;           // an engine of level 0 that holds the inputs
  carnot_reference* reference;  // NULL with |against|
  cli_arena arena;
} debug_case;

// Reads the flags, imports the model, sets the inputs and runs the reference. close in any case.
carnot_status* debug_open(cli_flags* flags, debug_case* out) CARNOT_MUST_USE;
void debug_close(debug_case* c);

// The trusted tensor |name|; *out_data is NULL where there is none. Lives as long as the case.
carnot_status* debug_wanted(debug_case* c, const char* name,
                            const carnot_data** out_data) CARNOT_MUST_USE;

// One tensor of the engine beside the trusted one.
typedef struct debug_row {
  const char *step, *tactic, *value;
  cli_tensor_diff difference;
  bool fails;
} debug_row;
typedef struct debug_rows {
  debug_row* items;  // the owner frees them
  size_t count, capacity;
} debug_rows;

// Builds |model| as |build| says, sets the case's inputs and runs. |rows| (may be NULL) gets every
// layer whose tensors are known by name, in order; *out_worst is the result that is furthest off,
// its |error| the largest of all results, and *out_fails whether one is outside the tolerance.
carnot_status* debug_run(debug_case* c, const char* model, const cli_build_options* build,
                         debug_rows* rows, cli_tensor_diff* out_worst,
                         bool* out_fails) CARNOT_MUST_USE;

// The forms of the command, one function each.
// Prints "FAIL" or "ok" in four columns.
void debug_print_verdict(bool fails);
carnot_status* debug_compare(debug_case* c) CARNOT_MUST_USE;
carnot_status* debug_passes(debug_case* c) CARNOT_MUST_USE;
carnot_status* debug_precision(debug_case* c) CARNOT_MUST_USE;
// The same for 8 bits.
carnot_status* debug_int8(debug_case* c) CARNOT_MUST_USE;
carnot_status* debug_backends(debug_case* c) CARNOT_MUST_USE;
carnot_status* debug_reduce(debug_case* c) CARNOT_MUST_USE;
carnot_status* debug_split(debug_case* c) CARNOT_MUST_USE;

#endif  // CARNOT_TOOLS_DEBUG_H_
