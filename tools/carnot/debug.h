// carnot debug: what its files share.
#ifndef CARNOT_TOOLS_DEBUG_H_
#define CARNOT_TOOLS_DEBUG_H_

#include "cli.h"
#include "import/onnx/onnx.h"
#include "ops/evaluate.h"

// One model with inputs and what the reference kernels say of every tensor.
typedef struct debug_case {
  const char* path;
  cli_flags* flags;
  cli_shapes shapes;
  cli_image_options image;
  cli_build_options build;  // as the flags say
  const char* against;      // folder of saved tensors; NULL: the reference kernels
  double rtol, atol;
  carnot_model_source* source;
  carnot_graph* graph;  // as imported, no pass run
  cli_session inputs;   // an engine of level 0 that holds the inputs
  carnot_evaluator evaluator;
  bool evaluated;
  carnot_arena arena;
} debug_case;

carnot_status* debug_open(cli_flags* flags, debug_case* out) CARNOT_MUST_USE;
void debug_close(debug_case* c);

// The trusted tensor |name|, NULL where there is none. Lives as long as the case.
carnot_status* debug_wanted(debug_case* c, const char* name,
                            const carnot_tensor** out) CARNOT_MUST_USE;

// One step of the engine beside the trusted tensors.
typedef struct debug_row {
  const char *step, *tactic, *value;
  cli_difference difference;
  bool fails;
} debug_row;
typedef struct debug_rows {
  debug_row* items;
  size_t count, capacity;
} debug_rows;

// Builds |model| by |config|, sets the case's inputs, runs. |rows| (may be NULL) gets every step
// whose values are known by name, in order; *out_worst the result that is furthest out, and
// *out_fails whether one is outside the tolerance. |out_session| stays open when it is not NULL.
carnot_status* debug_run(debug_case* c, const char* model, const carnot_build_config* config,
                         debug_rows* rows, cli_difference* out_worst,
                         bool* out_fails) CARNOT_MUST_USE;

carnot_status* debug_compare(debug_case* c) CARNOT_MUST_USE;
carnot_status* debug_passes(debug_case* c) CARNOT_MUST_USE;
carnot_status* debug_precision(debug_case* c) CARNOT_MUST_USE;
carnot_status* debug_backends(debug_case* c) CARNOT_MUST_USE;
carnot_status* debug_reduce(debug_case* c) CARNOT_MUST_USE;
carnot_status* debug_split(debug_case* c) CARNOT_MUST_USE;

#endif  // CARNOT_TOOLS_DEBUG_H_
