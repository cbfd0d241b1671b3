// State that the phases of one build share. A build runs
//
//   passes → analyse → enumerate and select → tune → prune libraries → lower
//
// and each phase hands data to the next: carnot_analysis, carnot_candidates, carnot_assignment,
// carnot_plan. No phase calls an earlier one, except that tuning and pruning select again.
#ifndef CARNOT_BUILDER_INTERNAL_H_
#define CARNOT_BUILDER_INTERNAL_H_

#include "builder/builder.h"
#include "builder/measure/timing_key.h"
#include "plan/io_format.h"

// An input or output as the user sees it.
typedef struct carnot_io_tensor {
  carnot_tensor_format format;
  carnot_type type;  // with the dimensions of the network, not those in memory
} carnot_io_tensor;

// Sizes of what is open, beside the optimum: the least, the greatest, and some between.
enum { CARNOT_SIZE_LEAST, CARNOT_SIZE_GREATEST = 4, CARNOT_SIZE_COUNT };
typedef struct carnot_symbol_sizes {
  int64_t* values;  // by expression index; NULL: no sizes of their own
  bool* known;
} carnot_symbol_sizes;

typedef struct carnot_builder {
  const carnot_build_config* config;
  carnot_graph* graph;  // the builder's own copy
  carnot_isa isa;
  carnot_arena* memory;   // lives as long as the plan: regions, packed weights
  carnot_arena facts;     // analysis and assignments: freed when the plan is made
  carnot_arena problems;  // of the newest candidates (carnot_candidate_chunk)
  struct carnot_timing_cache* timing_cache;  // the caller's, or the build's own
  carnot_timings timings;                    // the same, as tactics see it
  carnot_timing_machine machine;             // what times depend on beside the problem
  double deadline_ms;                        // of timing, on carnot_builder_now_ms; 0: none
  const char* const* output_names;           // the graph outputs' names before the passes
  int64_t* symbol_values;  // by expression index: at the optimum of the first profile
  bool* symbol_known;
  int64_t* guess_values;  // the same, with a guess for dimensions that only the run knows
  bool* guess_known;
  carnot_symbol_sizes late_sizes;  // likewise, smaller: at which the CPU's tactics are timed
  carnot_symbol_sizes sizes[CARNOT_SIZE_COUNT];  // growing
  size_t symbol_count;
  bool* symbol_static;          // by expression index: depends on the inputs' dimensions alone
  bool* shape_inputs;           // by graph input: its elements decide shapes
  const carnot_ranges* ranges;  // the configuration's; NULL: this build is without them
  bool times_run;               // sets |run_ns| to the time of a run on the accelerator
  uint64_t run_ns;              // UINT64_MAX: it cannot be timed
  bool must_quantize;           // a layer with ranges was asked to compute in INT8
  bool saw_results;             // of a run: those that are not finite were told
  bool is_last_lowering;        // what only lowering reads may go: candidates, originals of weights
  carnot_io_tensor *input_io, *output_io;  // by graph input and output
  // By value id: the type in which a float32 value is stored, INVALID for its own. NULL: all own.
  carnot_dtype* stored_types;
} carnot_builder;

// ---- analysis/shape_inputs.c, analysis/profile.c ----

// Finds the inputs whose elements decide shapes and gives symbols to those that profiles bound.
carnot_status* carnot_find_shape_inputs(carnot_builder* builder) CARNOT_MUST_USE;
// Sets ranges and optima of the inputs' dimensions from the profiles.
carnot_status* carnot_apply_profiles(carnot_builder* builder) CARNOT_MUST_USE;
// Gives inputs and outputs the memory layouts that were asked for (analysis/io_formats.c).
carnot_status* carnot_apply_io_formats(carnot_builder* builder) CARNOT_MUST_USE;
// Notes the ranges of tensors in the graph; says which layers stay as they are without one, and
// which ranges name no tensor (analysis/ranges.c).
carnot_status* carnot_apply_ranges(carnot_builder* builder) CARNOT_MUST_USE;
// Extends the symbol tables to the expressions that passes added.
carnot_status* carnot_note_symbols(carnot_builder* builder) CARNOT_MUST_USE;
// True when the inputs' shapes decide every dimension of the type.
bool carnot_type_is_static(const carnot_builder* builder, const carnot_type* type);
// Bytes at the largest dimensions; UINT64_MAX when a dimension has no bound.
uint64_t carnot_type_max_bytes(const carnot_builder* builder, const carnot_type* type);

// The type in which |value| is stored.
static inline carnot_dtype carnot_builder_stored_type(const carnot_builder* builder,
                                                      const carnot_value* value) {
  const carnot_dtype stored =
      builder->stored_types ? builder->stored_types[value->id] : CARNOT_DTYPE_INVALID;
  return stored == CARNOT_DTYPE_INVALID ? value->type.dtype : stored;
}

// ---- progress.c ----

// Reports progress to the caller. CANCELLED when the caller asks to stop.
carnot_status* carnot_builder_progress(const carnot_builder* builder, const char* phase, int done,
                                       int total) CARNOT_MUST_USE;
// Sends one verbose line to the caller's log.
void carnot_builder_log(const carnot_builder* builder, const char* format, ...) CARNOT_PRINTF(2, 3);
// Sends a warning to the caller's log.
void carnot_builder_warn(const carnot_builder* builder, const char* message);
// Gives back the pages of the model's files that were read; what is read again comes from the file.
void carnot_builder_drop_pages(const carnot_builder* builder);
// Milliseconds of a monotonic clock.
double carnot_builder_now_ms(void);
// True when the time budget is spent: tactics without a cached time are then chosen by table order.
bool carnot_builder_is_over_budget(const carnot_builder* builder);

#endif  // CARNOT_BUILDER_INTERNAL_H_
