// Contexts: one execution of an engine at a time. Holds the arena, the shapes that are set, and
// each step's state.
//
// Setting shapes only notes them. The next run first resolves: infer tells every dimension that the
// inputs' shapes decide, storage is assigned, each step's tactic is shaped. Steps behind a
// value-dependent size are resolved while running. One thread at a time; several contexts share an
// engine.
#ifndef CARNOT_RUN_CONTEXT_H_
#define CARNOT_RUN_CONTEXT_H_

#include "backend/tactic.h"
#include "carnot/runtime.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "ops/execute.h"
#include "run/store.h"

// A value in this context.
typedef struct carnot_run_value {
  carnot_cell cell;
  int64_t strides[CARNOT_MAX_RANK];
  bool known;                // its dimensions are decided by the inputs' shapes
  uint64_t flexible_offset;  // of FLEXIBLE storage, behind the planned arena
} carnot_run_value;

// The user's side of a binding.
typedef struct carnot_run_binding {
  void* address;  // NULL: the context's own memory
  size_t capacity_bytes;
  bool is_set;
  carnot_cell cell;  // an input as set; an output after the run
  void* own;         // memory of the context for an output without address
  size_t own_bytes;
  // Asked for memory of an output once its size is known, before the run where shapes decide it
  // (|asked|) and else after; NULL: the context's own.
  void* (*allocate)(void* user, const char* name, void* current, size_t bytes);
  void (*notify)(void* user, const char* name, const carnot_dims* dims);
  void* allocate_user;
  bool asked;
  uint32_t element_count;  // of a shape input, as they were when shapes were set
  int64_t elements[CARNOT_MAX_SHAPE_ELEMENTS];
} carnot_run_binding;

typedef struct carnot_run_step {
  const carnot_tactic_row* rows[CARNOT_MAX_VARIANTS];
  carnot_step_view views[CARNOT_MAX_VARIANTS];
  uint32_t variant;          // chosen for the shapes that are set
  bool late;                 // resolved while running
  bool skip;                 // nothing to compute: all outputs are empty
  bool fallback;             // an empty input: the reference kernels run, which take any
  carnot_operand* operands;  // inputs, then outputs
  void* state;
} carnot_run_step;

typedef struct carnot_step_time {
  uint64_t total_ns, min_ns;
  uint64_t count;
} carnot_step_time;

typedef struct carnot_context {
  carnot_call_host host;  // first, so that its functions find the context
  carnot_engine* engine;
  const carnot_plan* plan;
  carnot_weights* weights;
  carnot_executor* executor;      // borrowed; may be NULL
  carnot_executor* run_executor;  // of the run in flight: NULL when another run has the executor
  carnot_isa isa;
  uint32_t profile;
  carnot_arena memory;  // tables of this context
  carnot_run_value* values;
  carnot_run_binding* bindings;
  carnot_run_step* steps;
  uint32_t max_locals;
  carnot_cell* locals;  // of a region being inferred or interpreted
  carnot_infer_scratch scratch;
  char* arena;
  size_t arena_bytes, memory_limit_bytes;
  char* workspace;
  size_t workspace_bytes;
  carnot_store store;        // of the run
  carnot_store fixed_store;  // of the shapes that are set
  bool in_resolve;
  bool resolved, addresses_changed;
  carnot_step_time* times;  // NULL: not profiled
  void (*report)(void* user, const char* step,
                 uint64_t time_ns);  // told each step's time; NULL: nobody
  void* report_user;
  carnot_executor*
      own_executor;            // made for this context by the public interface, which destroys it
  bool (*cancel)(void* user);  // asked between steps; true ends the run
  void* cancel_user;
  // Called when a step's values stand; NULL: nobody.
  carnot_status* (*watch)(void* user, struct carnot_context* context, uint32_t step);
  void* watch_user;
} carnot_context;

typedef struct carnot_context_options {
  carnot_executor* executor;  // NULL: one thread
  int isa;                    // -1: this machine's; a lower level is forced for tests
  size_t memory_limit_bytes;  // of arena and stores together; 0: none
} carnot_context_options;

carnot_status* carnot_context_create_on(carnot_engine* engine,
                                        const carnot_context_options* options,
                                        carnot_context** out_context) CARNOT_MUST_USE;
void carnot_context_free(carnot_context* context);

// The index of the tensor |name|; NOT_FOUND lists the names there are.
carnot_status* carnot_plan_find_binding(const carnot_plan* plan, const char* name,
                                        uint32_t* out_index) CARNOT_MUST_USE;

// Sets an input: a cell whose data are borrowed until the run is over (dense, row-major). Its type
// must be the binding's, its dimensions within the profile.
carnot_status* carnot_context_set_input_cell(carnot_context* context, uint32_t binding,
                                             const carnot_cell* cell) CARNOT_MUST_USE;
// Where an output goes; address NULL: the context's own memory. OUT_OF_RANGE in run when capacity
// is too small.
carnot_status* carnot_context_set_output_address(carnot_context* context, uint32_t binding,
                                                 void* address,
                                                 size_t capacity_bytes) CARNOT_MUST_USE;

// Brings dimensions, storage and tactics up to the inputs that are set. The inputs' data are needed
// only for shape tensors. run does it by itself.
carnot_status* carnot_context_resolve(carnot_context* context) CARNOT_MUST_USE;
carnot_status* carnot_context_run_now(carnot_context* context) CARNOT_MUST_USE;
// An output after the run (or, where shapes decide its dimensions, after resolve: data NULL).
const carnot_cell* carnot_context_output(const carnot_context* context, uint32_t binding);

// ---- between the files of this folder ----
carnot_status* carnot_run_block_steps(carnot_context* context, uint32_t block) CARNOT_MUST_USE;
carnot_status* carnot_infer_step(carnot_context* context, uint32_t step,
                                 const carnot_cell* const* inputs,
                                 carnot_cell* const* outputs) CARNOT_MUST_USE;
carnot_status* carnot_run_reference(carnot_context* context, uint32_t step,
                                    const carnot_cell* const* inputs,
                                    carnot_cell* const* outputs) CARNOT_MUST_USE;
carnot_status* carnot_shape_step(carnot_context* context, uint32_t step, void* state,
                                 size_t* out_workspace_bytes) CARNOT_MUST_USE;
// Grows the arena to |bytes|; what lay in it is lost.
carnot_status* carnot_context_take_arena(carnot_context* context, size_t bytes) CARNOT_MUST_USE;
// Memory of the context's own for an output.
carnot_status* carnot_own_output(carnot_run_binding* binding, size_t bytes) CARNOT_MUST_USE;
void carnot_fill_operands(carnot_context* context, uint32_t step);

#endif  // CARNOT_RUN_CONTEXT_H_
