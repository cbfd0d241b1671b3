// The builder: a graph and a configuration → a plan. The user's graph is not changed.
#ifndef CARNOT_BUILDER_BUILDER_H_
#define CARNOT_BUILDER_BUILDER_H_

#include "carnot/builder.h"
#include "carnot/calibration.h"
#include "ir/graph.h"
#include "pass/pass.h"
#include "pass/precision_constraints.h"
#include "tactic/tactic.h"

// What one profile says of one input.
typedef struct carnot_profile_input {
  const char* name;
  carnot_dims min, opt, max;
  bool no_shape;             // nothing is said of the dimensions
  uint32_t value_count;      // of the elements of a shape input; 0: no bounds
  const int64_t* values[3];  // min, opt, max
} carnot_profile_input;

typedef struct carnot_profile {
  carnot_profile_input* inputs;
  size_t input_count;
} carnot_profile;

// What the profile says of input |name|; NULL: nothing.
const carnot_profile_input* carnot_profile_find(const carnot_profile* profile, const char* name);

// The memory layouts that input or output |name| may have: 1 << carnot_tensor_format each.
typedef struct carnot_io_request {
  const char* name;
  uint32_t allowed;
} carnot_io_request;

// See carnot_config_set_tactic_selector.
typedef struct carnot_tactic_selector {
  bool (*select)(void* user, const carnot_layer_tactics* layer, bool* keep);
  bool (*report)(void* user, const carnot_layer_tactics* layers, uint32_t layer_count);
  void* user;
} carnot_tactic_selector;

typedef struct carnot_build_config {
  const carnot_profile* profiles;  // none: every dynamic dimension is allowed
  size_t profile_count;
  carnot_executor* executor;  // for timing and folding; NULL: one thread
  int isa;                    // -1: this machine's
  carnot_device* device;      // NULL: for the processor
  int level;                  // 0 (no timing) … 5 (every candidate, long)
  uint32_t tactic_sources;    // 1 << carnot_tactic_source of each that rows may use
  // For tests, NULL: none. Called for every tactic that takes a region; the first for which it
  // returns true is the only candidate of the region. Where it returns false for all, the tactics
  // are the candidates that they are without it.
  bool (*pins)(void* user, const carnot_tactic* tactic);
  carnot_tactic_selector selector;  // the user's; NULL callbacks: none
  bool refit, strip;
  bool no_passes;  // only what is needed to run
  const char* const* disabled_passes;
  size_t disabled_pass_count;
  bool fast_fp32;
  carnot_precision_constraints typing;
  const carnot_ranges* ranges;          // from which layers are quantized; NULL: none
  const carnot_io_request* io_formats;  // others are LINEAR
  size_t io_format_count;
  const char* const* plugin_libraries;  // files that the engine carries
  size_t plugin_library_count;
  double time_budget_s;                      // 0: none
  struct carnot_timing_cache* timing_cache;  // NULL: none
  void (*log)(void* user, int severity, const char* message);
  bool (*progress)(void* user, const char* phase, int done, int total);  // false cancels
  void* user;
  const char* dump_pass;  // print the graph after this pass to stderr; "all"
} carnot_build_config;

void carnot_build_config_init(carnot_build_config* config);

// The plan borrows the constants' data from |graph|'s sources (a mapped model): they must live as
// long as the plan, and constants that only packed copies are read of may be released until
// carnot_graph_restore_constants.
carnot_status* carnot_build_plan(const carnot_graph* graph, const carnot_build_config* config,
                                 carnot_plan** out_plan) CARNOT_MUST_USE;

// Rewrites |graph| with quantize and dequantize nodes by the ranges and the requests for types of
// |config| (pass/insert_qdq.c), in |style|.
carnot_status* carnot_quantize_graph(carnot_graph* graph, const carnot_build_config* config,
                                     const carnot_qdq_style* style) CARNOT_MUST_USE;

// True where the elements of |input|, an input of |graph|, decide shapes.
carnot_status* carnot_graph_shape_input(const carnot_graph* graph, const carnot_value* input,
                                        bool* out_is_shape) CARNOT_MUST_USE;

#endif  // CARNOT_BUILDER_BUILDER_H_
