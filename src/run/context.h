// Contexts: one execution of an engine at a time. Holds the memory of a run, the shapes that are
// set, and each step's state.
//
// Setting shapes only notes them. The next run first resolves: infer computes every dimension that
// the inputs' shapes decide, storage is assigned, each step's tactic is configured. Steps that
// depend on a data-dependent size are resolved while running. One thread at a time; several
// contexts share an engine.
#ifndef CARNOT_RUN_CONTEXT_H_
#define CARNOT_RUN_CONTEXT_H_

#include <stdatomic.h>

#include "backend/device.h"
#include "carnot/runtime.h"
#include "engine/engine.h"
#include "ops/execute.h"
#include "plan/memory_planner.h"
#include "run/device_session.h"
#include "run/run_memory.h"
#include "run/run_profiler.h"

// A value in this context.
typedef struct carnot_run_value {
  carnot_rt_value cell;
  int64_t strides[CARNOT_MAX_RANK];
  bool known;               // its dimensions are decided by the inputs' shapes
  uint64_t dynamic_offset;  // of FLEXIBLE storage, behind the planned arena
  void* device_data;        // of a value on the accelerator; |cell| then has no data, but a
                            // constant's
} carnot_run_value;

// A binding as the user set it.
typedef struct carnot_run_binding {
  void* address;  // NULL: the context's own memory
  size_t capacity_bytes;
  bool is_set;
  carnot_rt_value cell;    // an input as set; an output after the run: with the user's dimensions
  void* own;               // memory of the context: for an output without address, or an input that
  size_t own_bytes;        // was given row-major and has another format
  carnot_rt_value linear;  // an output of another format, row-major; its data are |linear_memory|
  void* linear_memory;
  void* device_memory;  // the same on the accelerator
  size_t device_bytes;
  void* pinned;  // for copies between the user's memory and the accelerator's
  size_t pinned_bytes;
  // Asked for memory of an output in each run, once its size is known: before the run where shapes
  // decide it (|asked|) and else after; NULL: the context's own. |address| is what it gave last.
  void* (*allocate)(void* user, const char* name, void* current, size_t bytes);
  void (*notify)(void* user, const char* name, const carnot_dims* dims);
  void* allocate_user;
  bool asked, is_given;    // is_given: |address| came from |allocate|
  uint32_t element_count;  // of a shape input, as they were when shapes were set
  int64_t elements[CARNOT_MAX_SHAPE_ELEMENTS];
} carnot_run_binding;

typedef struct carnot_run_step {
  const carnot_tactic* tactics[CARNOT_MAX_VARIANTS];
  carnot_step_view views[CARNOT_MAX_VARIANTS];
  uint32_t variant;          // chosen for the shapes that are set
  bool late;                 // resolved while running
  bool skip;                 // nothing to compute: all outputs are empty
  bool fallback;             // an empty input: the reference kernels run
  carnot_operand* operands;  // inputs, then outputs
  void* state;
} carnot_run_step;

// Callbacks of the owner of a context.
typedef struct carnot_run_hooks {
  bool (*cancel)(void* user);  // asked between steps; true ends the run
  void* cancel_user;
  // Called when a step's results are there; NULL: nobody.
  carnot_status* (*watch)(void* user, struct carnot_context* context, uint32_t step);
  void* watch_user;
} carnot_run_hooks;

typedef struct carnot_context {
  carnot_call_host host;  // first, so that its functions find the context
  carnot_engine* engine;
  const carnot_plan* plan;
  carnot_weights* weights;
  carnot_executor* executor;      // borrowed; may be NULL
  carnot_executor* own_executor;  // made by the public interface, which destroys it
  carnot_executor* run_executor;  // of the run in flight: NULL when another run has the executor
  carnot_isa isa;
  uint32_t profile;
  carnot_arena tables;  // the arrays below
  carnot_run_value* values;
  carnot_run_binding* bindings;
  carnot_run_step* steps;
  uint32_t max_locals;
  carnot_rt_value* locals;  // of a region being inferred or interpreted
  carnot_infer_scratch scratch;
  carnot_run_memory memory;
  carnot_device_session device;
  carnot_run_profiler profiler;
  carnot_run_hooks hooks;
  bool resolved, addresses_changed;
  atomic_uintptr_t owner;  // the thread whose call is in progress; 0: none (context_use.c)
} carnot_context;

typedef struct carnot_context_options {
  carnot_executor* executor;  // NULL: one thread
  int isa;                    // -1: this machine's; a lower level is forced for tests
  const char* device;         // "cuda:1": where an engine for accelerators runs; NULL: the first
  bool host_io;               // inputs and outputs of such an engine lie in host memory
  bool allow_code;            // machine code in the engine may run
  size_t memory_limit_bytes;  // of arena and stores together, and of each own output; 0: none
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
                                             const carnot_rt_value* cell) CARNOT_MUST_USE;
// Where an output goes; address NULL: the context's own memory. OUT_OF_RANGE in run when capacity
// is too small.
carnot_status* carnot_context_set_output_address(carnot_context* context, uint32_t binding,
                                                 void* address,
                                                 size_t capacity_bytes) CARNOT_MUST_USE;

// Who gives the memory of an output, and hears of its shape; |allocate| NULL: nobody.
void carnot_context_set_allocator(
    carnot_context* context, uint32_t binding,
    void* (*allocate)(void* user, const char* name, void* current, size_t bytes),
    void (*notify)(void* user, const char* name, const carnot_dims* dims), void* user);

// Updates dimensions, storage and tactics for the inputs that are set. The inputs' data are needed
// only for shape tensors. run does it by itself.
carnot_status* carnot_context_resolve(carnot_context* context) CARNOT_MUST_USE;
carnot_status* carnot_context_run_now(carnot_context* context) CARNOT_MUST_USE;
// An output after the run (or, where shapes decide its dimensions, after resolve: data NULL).
const carnot_rt_value* carnot_context_output(const carnot_context* context, uint32_t binding);

// Chooses a profile; inputs must be set again. INVALID_ARGUMENT past the last.
carnot_status* carnot_context_choose_profile(carnot_context* context,
                                             uint32_t profile) CARNOT_MUST_USE;
// Forgets where all tensors are; their shapes stay.
void carnot_context_clear_tensors(carnot_context* context);

// ---- context_use.c: the public calls are for one thread at a time ----

// Begins |call|. FAILED_PRECONDITION when another thread's call is in progress, or when a callback
// of a call on this context made it.
carnot_status* carnot_context_enter(carnot_context* context, const char* call) CARNOT_MUST_USE;
// Ends the call that enter began; returns |status|.
carnot_status* carnot_context_leave(carnot_context* context, carnot_status* status) CARNOT_MUST_USE;
// As enter, for a call that changes nothing, which a callback may make too. |*out_taken| is for
// leave_read.
carnot_status* carnot_context_enter_to_read(const carnot_context* context, const char* call,
                                            bool* out_taken) CARNOT_MUST_USE;
void carnot_context_leave_read(const carnot_context* context, bool taken);

// ---- between the files of this folder ----
carnot_status* carnot_run_block_steps(carnot_context* context, uint32_t block) CARNOT_MUST_USE;
carnot_status* carnot_infer_step(carnot_context* context, uint32_t step,
                                 const carnot_rt_value* const* inputs,
                                 carnot_rt_value* const* outputs) CARNOT_MUST_USE;
carnot_status* carnot_run_reference(carnot_context* context, uint32_t step,
                                    const carnot_rt_value* const* inputs,
                                    carnot_rt_value* const* outputs) CARNOT_MUST_USE;
carnot_status* carnot_shape_step(carnot_context* context, uint32_t step, void* state,
                                 size_t* out_workspace_bytes) CARNOT_MUST_USE;
// The cell of a tensor as it lies in the user's memory, for |cell| with the user's dimensions.
carnot_rt_value carnot_stored_cell(const carnot_plan_binding* binding, const carnot_rt_value* cell);
// The way back, for an output. INVALID_MODEL when |stored| has not the binding's format.
carnot_status* carnot_shown_cell(const carnot_plan_binding* binding, const carnot_rt_value* stored,
                                 carnot_rt_value* out_cell) CARNOT_MUST_USE;
// Sets address and strides of a value whose dimensions are known. |depth|: of aliases followed, 0
// for callers.
// Bytes of |tensor| as |value| of the plan stores it.
carnot_status* carnot_stored_bytes(const carnot_plan_value* value, const carnot_tensor* tensor,
                                   size_t* out_bytes) CARNOT_MUST_USE;
carnot_status* carnot_place_value(carnot_context* context, uint32_t value,
                                  int depth) CARNOT_MUST_USE;
// Offsets of the values without a bound on their size, in the arena of |memory|, which it grows:
// planned for the shapes that are set.
carnot_status* carnot_place_dynamic(carnot_context* context,
                                    carnot_memory_space memory) CARNOT_MUST_USE;
// Outputs that the user gave the memory of an input: allowed where the input was read before, or
// where the step that writes the output updates it in place (carnot_tactic.may_share).
// INVALID_ARGUMENT names both.
carnot_status* carnot_check_shared_buffers(const carnot_context* context) CARNOT_MUST_USE;
// Asks the allocator of output |binding| for |bytes|; OUT_OF_MEMORY when it gives none.
carnot_status* carnot_ask_allocator(carnot_context* context, uint32_t binding, size_t bytes,
                                    void** out_data) CARNOT_MUST_USE;
// Whether an output of |bytes| waits for memory that its allocator has yet to give.
static inline bool carnot_waits_for_memory(const carnot_run_binding* binding, size_t bytes) {
  return binding->allocate && (!binding->address || bytes > binding->capacity_bytes);
}
// Memory of the context's own for an output.
carnot_status* carnot_own_output(const carnot_context* context, carnot_run_binding* binding,
                                 size_t bytes) CARNOT_MUST_USE;
void carnot_fill_operands(carnot_context* context, uint32_t step);
void carnot_bind_constants(carnot_context* context);
// Packed constants of device tactics are read on the device, all but machine code.
static inline bool carnot_blob_is_read_there(const carnot_tactic* tactic,
                                             const carnot_plan_blob* blob) {
  return tactic->device && !carnot_blob_is_code(blob);
}
// The step's operands as run-time values, in run-arena memory: pointers into the context, NULL for
// absent operands.
carnot_status* carnot_gather_values(carnot_context* context, const carnot_plan_step* step,
                                    const carnot_rt_value*** out_inputs,
                                    carnot_rt_value*** out_outputs) CARNOT_MUST_USE;
// INVALID_MODEL when an operand that |tactic| reads or writes has no memory: an engine file may
// name values without storage. |tactic| NULL: the reference tactic, which reads all inputs and
// allocates its outputs itself; of Shape and Size it reads dimensions alone.
carnot_status* carnot_check_step_memory(const carnot_context* context, uint32_t step,
                                        const carnot_tactic* tactic,
                                        const carnot_step_view* view) CARNOT_MUST_USE;
// A step whose dimensions, addresses and state are ready.
carnot_status* carnot_run_ready(carnot_context* context, uint32_t step, void* state,
                                void* workspace) CARNOT_MUST_USE;

// ---- device_weights.c ----

// The weights that device steps read, once an engine and device.
carnot_status* carnot_context_upload(carnot_context* context) CARNOT_MUST_USE;
static inline bool carnot_is_on_device(const carnot_context* context, uint32_t value) {
  return context->plan->values[value].format.memory == CARNOT_MEMORY_DEVICE;
}

// ---- device_tensors.c ----

// The address of a user's tensor on the device for this run. INVALID_ARGUMENT for host memory.
carnot_status* carnot_place_on_device(carnot_context* context, uint32_t binding, size_t bytes,
                                      void** out_data) CARNOT_MUST_USE;
// Sends the inputs.
carnot_status* carnot_device_begin(carnot_context* context) CARNOT_MUST_USE;
// Marks the end of the steps, for the clocks.
carnot_status* carnot_device_computed(carnot_context* context) CARNOT_MUST_USE;
// Passes output |binding| to the user.
carnot_status* carnot_device_deliver(carnot_context* context, uint32_t binding) CARNOT_MUST_USE;
// Waits for the run, unless it is only put into a stream, and reads the clocks.
carnot_status* carnot_device_end(carnot_context* context) CARNOT_MUST_USE;

// ---- device_watch.c ----

// Shows the results of a device step to the watcher as host memory.
carnot_status* carnot_device_show(carnot_context* context, uint32_t step) CARNOT_MUST_USE;

// ---- device_run.c ----

// After addresses changed: computes the key of the graph cache.
void carnot_note_graph_key(carnot_context* context);
// Runs device steps from |step| on until one of the CPU; *out_next is the first that was not run.
carnot_status* carnot_device_steps(carnot_context* context, uint32_t step, uint32_t end,
                                   uint32_t* out_next) CARNOT_MUST_USE;
// Before a step that is resolved while running, or that the CPU runs: its inputs in host memory are
// complete.
carnot_status* carnot_device_pause(carnot_context* context, uint32_t step) CARNOT_MUST_USE;
// All device work so far is done, so that the CPU may read and write.
carnot_status* carnot_device_wait(carnot_context* context) CARNOT_MUST_USE;
// True when a step of the main block computes on the CPU during a run.
bool carnot_device_has_host_steps(const carnot_context* context);

// ---- enqueue.c: runs in a caller's stream ----

// As run_now, into a caller's stream without waiting, where no step needs the processor.
carnot_status* carnot_context_enqueue_now(carnot_context* context, void* stream) CARNOT_MUST_USE;
carnot_status* carnot_context_wait_now(carnot_context* context, void* stream) CARNOT_MUST_USE;

#endif  // CARNOT_RUN_CONTEXT_H_
