// Running engines: load a file, create a context, set inputs, run.
//
//   carnot_engine_load_file → carnot_context_create → carnot_context_set_input → carnot_context_run
//   → results
//
// An engine is immutable except for refit and may be shared by any threads. A context serves one
// thread at a time: while a call on it is in progress, calls of other threads on it are refused
// with FAILED_PRECONDITION, and so are calls that change it from callbacks of its own run (those
// that read it are allowed there). Threads that run at the same time have a context each. Shapes
// are in elements, sizes in bytes, times in nanoseconds. Text that is returned belongs to the
// object it came from and lives as long.
#ifndef CARNOT_RUNTIME_H_
#define CARNOT_RUNTIME_H_

#include "carnot/types.h"

#ifdef __cplusplus
extern "C" {
#endif

// A plan with its weights, counted by references.
typedef struct carnot_engine carnot_engine;
// One execution of an engine at a time, with the memory it needs.
typedef struct carnot_context carnot_context;
// Threads that runs are spread over. Any number of threads gives the same bits.
typedef struct carnot_executor carnot_executor;
// New weights for an engine, collected before they take effect.
typedef struct carnot_refit carnot_refit;

// CARNOT_API_VERSION of the library in use. Any thread.
CARNOT_API int carnot_runtime_version(void);

// ---- executors ----

// |thread_count| counts the caller; 0 takes CARNOT_THREADS, else one for each processor that this
// process may use (affinity mask and CPU quota of its control group). Destroy it
// after the contexts that borrow it. Contexts that share one take turns; one that finds it busy
// runs on its caller alone. Thread-safe.
CARNOT_API carnot_status* carnot_executor_create(int thread_count,
                                                 carnot_executor** out_executor) CARNOT_MUST_USE;
// Ends its threads. NULL is allowed.
CARNOT_API void carnot_executor_destroy(carnot_executor* executor);
// The number of threads, the caller included; 1 for NULL. Any thread.
CARNOT_API int carnot_executor_thread_count(const carnot_executor* executor);

// ---- engines ----

// Loads the engine at |path|; later changes of the file do not reach it. The caller owns one
// reference. A local file of 2 MB or more is mapped under a read lease (fcntl(2)). After the first
// run a thread copies the weights that runs read into private memory; who opens the file for
// writing waits until all of it is copied. Other files are copied before this returns. IO when it
// cannot be read, INVALID_MODEL when it breaks the format, VERSION_MISMATCH for another version of
// the format. Any thread.
CARNOT_API carnot_status* carnot_engine_load_file(const char* path,
                                                  carnot_engine** out_engine) CARNOT_MUST_USE;
// The same without lease and copy: processes that map the same file share its memory, and loading
// takes the time of the pages that are read. The file must stay as it is while the engine lives: a
// file that is written in place gives wrong results, and one that is cut ends the process (SIGBUS).
// Replace it by rename, as carnot_write_file does.
CARNOT_API carnot_status* carnot_engine_map_file(const char* path,
                                                 carnot_engine** out_engine) CARNOT_MUST_USE;
// The same from memory, which is copied; when |release| is given the caller lends |data| instead,
// aligned to 64 bytes, until release(user, data) is called.
CARNOT_API carnot_status* carnot_engine_load_memory(const void* data, size_t size,
                                                    void (*release)(void* user, const void* data),
                                                    void* user,
                                                    carnot_engine** out_engine) CARNOT_MUST_USE;
// Makes the copy of carnot_engine_load_file now and waits for it, before times are measured: the
// thread takes a processor else after the first run. Any thread.
CARNOT_API void carnot_engine_settle(carnot_engine* engine);
// One reference more or less; the last one frees. NULL is allowed. Any thread.
CARNOT_API void carnot_engine_retain(carnot_engine* engine);
// Gives a reference back; the last frees the engine. NULL is allowed. Any thread.
CARNOT_API void carnot_engine_release(carnot_engine* engine);
// Hashes the weights, which load does not; INVALID_MODEL names the first that differs from what was
// written. Any thread.
CARNOT_API carnot_status* carnot_engine_verify(carnot_engine* engine) CARNOT_MUST_USE;

// The engine as a file in memory, with the weights as last refitted, or without those that refit
// can set when |strip| (FAILED_PRECONDITION where the engine is not refittable); to be freed by
// carnot_memory_free. Any thread.
CARNOT_API carnot_status* carnot_engine_serialize(carnot_engine* engine, bool strip,
                                                  void** out_data,
                                                  size_t* out_size) CARNOT_MUST_USE;
// Frees memory that a call returned for the caller to free; NULL is allowed.
CARNOT_API void carnot_memory_free(void* memory);

// True when a file that begins with |data| is an engine of Carnot, of any version; |size| in bytes,
// 8 are enough. Any thread.
CARNOT_API bool carnot_engine_is_file(const void* data, size_t size);
// The version of the engine format that this library writes and loads. Any thread.
CARNOT_API int carnot_engine_format_version(void);

// Facts about an engine as a whole; sizes in bytes.
typedef struct carnot_engine_stats {
  uint64_t file_bytes;        // of the engine file or the memory it was loaded from
  uint64_t activation_bytes;  // planned memory of intermediate tensors, for the largest profile
  uint64_t activation_bound_bytes;  // the most bytes alive at one time: no plan needs less
  uint64_t workspace_bytes;         // scratch memory that all layers share
  uint32_t layer_count;
  bool is_stripped;  // weights are missing until refit sets them
} carnot_engine_stats;
// Any thread.
CARNOT_API void carnot_engine_get_stats(const carnot_engine* engine,
                                        carnot_engine_stats* out_stats);

// Facts about an input or output of an engine.
typedef enum carnot_data_kind {
  CARNOT_DATA_UNKNOWN,  // known after a run
  CARNOT_DATA_TENSOR,
  CARNOT_DATA_SEQUENCE,
  CARNOT_DATA_OPTIONAL,  // none or one item
} carnot_data_kind;

typedef struct carnot_tensor_info {
  const char* name;
  carnot_data_kind kind;  // of other kinds than tensors dtype is INVALID, the rank -1
  bool is_input;
  bool is_shape;  // its elements decide shapes: its data must be there when shapes are inferred
  carnot_dtype dtype;
  carnot_tensor_format format;             // the layout in memory: LINEAR is row-major
  carnot_dims dims;                        // -1: dynamic. rank -1: known after a run
  const char* dim_names[CARNOT_MAX_RANK];  // "" where unnamed
} carnot_tensor_info;

// The number of inputs and outputs.
CARNOT_API uint32_t carnot_engine_tensor_count(const carnot_engine* engine);
// Tensor |index| in [0, count): inputs first, each kind in the model's order. OUT_OF_RANGE past the
// end.
CARNOT_API carnot_status* carnot_engine_tensor_info(const carnot_engine* engine, uint32_t index,
                                                    carnot_tensor_info* out_info) CARNOT_MUST_USE;
// NOT_FOUND lists the names that exist.
CARNOT_API carnot_status* carnot_engine_find_tensor(const carnot_engine* engine, const char* name,
                                                    uint32_t* out_index) CARNOT_MUST_USE;
// The number of profiles; at least one.
CARNOT_API uint32_t carnot_engine_profile_count(const carnot_engine* engine);
// The shapes that |profile| allows for input |name|, and the one it was tuned for; each pointer may
// be NULL.
CARNOT_API carnot_status* carnot_engine_profile_shapes(const carnot_engine* engine,
                                                       uint32_t profile, const char* name,
                                                       carnot_dims* out_min, carnot_dims* out_opt,
                                                       carnot_dims* out_max) CARNOT_MUST_USE;
// The elements that |profile| allows for shape input |name|, and those it was tuned for: at most 64
// each, none where it bounds none; each pointer may be NULL.
CARNOT_API carnot_status* carnot_engine_profile_values(const carnot_engine* engine,
                                                       uint32_t profile, const char* name,
                                                       int64_t* out_min, int64_t* out_opt,
                                                       int64_t* out_max,
                                                       size_t* out_count) CARNOT_MUST_USE;
// Name of the network, device ("cpu"), and steps as JSON ("" when left out of the file).
CARNOT_API const char* carnot_engine_name(const carnot_engine* engine);
// What the engine was built for: "cpu", "cuda:sm_90".
CARNOT_API const char* carnot_engine_device(const carnot_engine* engine);
// The layers with tactics, shapes and formats as JSON; "" when it was left out of the file.
CARNOT_API const char* carnot_engine_inspect(const carnot_engine* engine);
// Bytes a context takes for intermediate values whose sizes have a bound.
CARNOT_API uint64_t carnot_engine_memory_bytes(const carnot_engine* engine);
// True when refit can replace the weights.
CARNOT_API bool carnot_engine_is_refittable(const carnot_engine* engine);

// ---- contexts ----

typedef struct carnot_context_config {
  carnot_executor*
      executor;      // borrowed; NULL: one of |thread_count| threads is made for this context
  int thread_count;  // 1: the caller alone; 0: all processors
  uint64_t memory_limit_bytes;  // of intermediate values, and of each own output; 0: none
  // Of an engine for an accelerator:
  bool host_tensors;  // inputs and outputs are in host memory and are copied in each run
  const char*
      device;  // which runs it, "cuda:1"; NULL: CARNOT_DEVICE from the environment, the first
} carnot_context_config;

// |config| may be NULL: the caller alone, no limit. The context holds a reference of |engine|.
// OUT_OF_RANGE when the limit is too small, UNSUPPORTED when this machine lacks what the engine
// needs. Thread-safe on the engine.
CARNOT_API carnot_status* carnot_context_create(carnot_engine* engine,
                                                const carnot_context_config* config,
                                                carnot_context** out_context) CARNOT_MUST_USE;
// NULL is allowed; no run may be in progress.
CARNOT_API void carnot_context_destroy(carnot_context* context);
// The engine, which the context holds a reference of.
CARNOT_API carnot_engine* carnot_context_engine(const carnot_context* context);

// Chooses a profile; inputs must be set again. INVALID_ARGUMENT past the last.
CARNOT_API carnot_status* carnot_context_set_profile(carnot_context* context,
                                                     uint32_t profile) CARNOT_MUST_USE;
// The shape of input |name|. INVALID_ARGUMENT names the dimension that the engine or the profile
// does not allow.
CARNOT_API carnot_status* carnot_context_set_input_shape(carnot_context* context, const char* name,
                                                         const carnot_dims* dims) CARNOT_MUST_USE;
// Memory of input or output |name|: dense, of the tensor's format (row-major unless the network
// asked for another: carnot_tensor_layout_of says how large it is), borrowed until set again.
// Inputs are read only; |capacity_bytes| says how much an output may take. NULL for an output: the
// context's own memory. An input with dynamic dimensions needs its shape first.
CARNOT_API carnot_status* carnot_context_set_tensor_address(carnot_context* context,
                                                            const char* name, void* data,
                                                            size_t capacity_bytes) CARNOT_MUST_USE;
// Forgets the memory of all inputs and outputs, which their owners may then free; shapes stay. A
// run before inputs are set again fails.
CARNOT_API carnot_status* carnot_context_clear_addresses(carnot_context* context) CARNOT_MUST_USE;
// Shape and memory of an input at once.
CARNOT_API carnot_status* carnot_context_set_input(carnot_context* context, const char* name,
                                                   const carnot_dims* dims,
                                                   const void* data) CARNOT_MUST_USE;
// Asked in each run for the memory of output |name|, |bytes| of it, once its size is known; NULL
// fails the run. |current| is what it gave last, or the address set, or NULL: it may be returned
// when it is large enough, and may be freed when it is not. |notify| (may be NULL) receives the
// final shape in each run. Also works for outputs that cannot be written in place. |allocate| NULL:
// the address set, or the context's own memory.
CARNOT_API carnot_status* carnot_context_set_output_allocator(
    carnot_context* context, const char* name,
    void* (*allocate)(void* user, const char* name, void* current, size_t bytes),
    void (*notify)(void* user, const char* name, const carnot_dims* dims),
    void* user) CARNOT_MUST_USE;

// Infers all dimensions from the shapes of the inputs and reserves memory; run does it by itself.
// Data-dependent sizes become unknown again, and the data of such outputs are dropped.
// FAILED_PRECONDITION names an input without shape.
CARNOT_API carnot_status* carnot_context_infer_shapes(carnot_context* context) CARNOT_MUST_USE;
// Dimensions of |name|: of an input as set, of an output after infer_shapes or run, -1 where still
// unknown.
CARNOT_API carnot_status* carnot_context_tensor_dims(const carnot_context* context,
                                                     const char* name,
                                                     carnot_dims* out_dims) CARNOT_MUST_USE;
// Runs; allocates nothing for shapes that were run before. OUT_OF_RANGE when an output's memory is
// too small, CANCELLED when the callback asked for it. The context stays usable after an error.
CARNOT_API carnot_status* carnot_context_run(carnot_context* context) CARNOT_MUST_USE;
// Of an engine for an accelerator: enqueues the run into the caller's |stream| (a CUstream; NULL:
// the legacy default stream) and does not wait, except where a step runs on the processor; tensors
// must be in the memory of the accelerator. Under stream capture the steps are launched one by one;
// UNSUPPORTED then when a step runs on the processor.
CARNOT_API carnot_status* carnot_context_enqueue(carnot_context* context,
                                                 void* stream) CARNOT_MUST_USE;
// Waits for the work in such a stream.
CARNOT_API carnot_status* carnot_context_wait(carnot_context* context,
                                              void* stream) CARNOT_MUST_USE;
// Data of output |name| after a run, until the next: the address set, or the context's own memory.
// NULL before, and while another thread's call on the context is in progress.
CARNOT_API const void* carnot_context_output_data(const carnot_context* context, const char* name);

// Receives the time of each step in a run; NULL stops it. Called on the thread that runs.
CARNOT_API carnot_status* carnot_context_set_profiler(carnot_context* context,
                                                      void (*report)(void* user, const char* step,
                                                                     uint64_t time_ns),
                                                      void* user) CARNOT_MUST_USE;

// ---- measurement ----

// Total times of one layer since timing was turned on. Text belongs to the engine.
typedef struct carnot_layer_time {
  const char* layer;
  const char* tactic;  // the one that runs at the shapes of the last run
  uint64_t total_ns, min_ns;
  uint64_t count;  // executions; more than one a run inside loops, 0 for layers that did not run
} carnot_layer_time;
// Measures each layer in the following runs, from zero; false stops and forgets. Layers of an
// accelerator are then launched one by one.
CARNOT_API carnot_status* carnot_context_set_layer_timing(carnot_context* context,
                                                          bool on) CARNOT_MUST_USE;
// Times of layer |index| in [0, layer_count). OUT_OF_RANGE past the last; FAILED_PRECONDITION while
// timing is off.
CARNOT_API carnot_status* carnot_context_get_layer_time(
    const carnot_context* context, uint32_t index, carnot_layer_time* out_time) CARNOT_MUST_USE;

// Runs |runs| times, timing each layer, and describes the last run as a timeline in Chrome's trace
// format, which Perfetto reads: the run, the layers on the caller's thread, the share that each
// worker had in them, and on an accelerator the layers, graphs and copies of its stream. Layer
// times start from zero and stop at the end. *out_json is to be freed by carnot_memory_free.
// INVALID_ARGUMENT unless |runs| is in [1, 1000].
CARNOT_API carnot_status* carnot_context_record_timeline(carnot_context* context, int runs,
                                                         char** out_json) CARNOT_MUST_USE;

// True when layers of this context run on an accelerator.
CARNOT_API bool carnot_context_has_accelerator(const carnot_context* context);
// Times of the last run on an accelerator by its own clock, in nanoseconds: copying inputs to it,
// computing, copying outputs back.
typedef struct carnot_run_times {
  uint64_t upload_ns, compute_ns, download_ns;
} carnot_run_times;
// Reads the accelerator's clock in the following runs. No effect on the processor.
CARNOT_API carnot_status* carnot_context_set_run_timing(carnot_context* context,
                                                        bool on) CARNOT_MUST_USE;
// All 0 on the processor or while timing is off.
CARNOT_API carnot_status* carnot_context_get_run_times(const carnot_context* context,
                                                       carnot_run_times* out_times) CARNOT_MUST_USE;
// Whether an accelerator's layers run as recorded graphs (the default) or are launched one by one.
CARNOT_API carnot_status* carnot_context_set_graphs(carnot_context* context,
                                                    bool on) CARNOT_MUST_USE;
// With |host_tensors|: false leaves inputs on the accelerator and outputs where they are, so that
// runs can be timed without copies. The results in host memory are then of an earlier run. Default
// true.
CARNOT_API carnot_status* carnot_context_set_transfers(carnot_context* context,
                                                       bool on) CARNOT_MUST_USE;

// A tensor that a layer has just computed. Everything is valid during the call only.
typedef struct carnot_watched_value {
  const char *layer, *tactic;
  const char* name;  // of the tensor
  carnot_dtype dtype;
  carnot_dims dims;
  int64_t strides[CARNOT_MAX_RANK];  // in elements
  const void* data;                  // host memory
} carnot_watched_value;
// Calls |watch| after each layer for each tensor of numbers that it computed, on the thread that
// runs; NULL stops. An error ends the run and is returned by it. Tensors inside a fused layer are
// not seen. Runs are slower: results of an accelerator are copied to the host.
CARNOT_API carnot_status* carnot_context_set_watch(
    carnot_context* context, carnot_status* (*watch)(void* user, const carnot_watched_value* value),
    void* user) CARNOT_MUST_USE;
// Copies the elements of |value| to |dst| in row-major order, carnot_dtype_bytes of them.
CARNOT_API void carnot_watched_value_copy(const carnot_watched_value* value, void* dst);

// Called between steps; true ends the run with CANCELLED. NULL: never.
CARNOT_API carnot_status* carnot_context_set_cancel(carnot_context* context,
                                                    bool (*cancel)(void* user),
                                                    void* user) CARNOT_MUST_USE;

// ---- refit ----

// FAILED_PRECONDITION when the engine was not built for refit. One refit at a time an engine;
// contexts may run.
CARNOT_API carnot_status* carnot_refit_begin(carnot_engine* engine,
                                             carnot_refit** out_refit) CARNOT_MUST_USE;
// Copies |data|: all of weight |name|, dense, of its own type and |dims|. NOT_FOUND names weights
// that resemble it.
CARNOT_API carnot_status* carnot_refit_set_weights(carnot_refit* refit, const char* name,
                                                   carnot_dtype dtype, const carnot_dims* dims,
                                                   const void* data) CARNOT_MUST_USE;
// Name of weight |index|, in the engine's order; NULL past the last.
CARNOT_API const char* carnot_refit_name(const carnot_refit* refit, uint32_t index);
// Type, dimensions and data (NULL: none, until it is set) of weight |name|; each pointer may be
// NULL. NOT_FOUND when there is none.
CARNOT_API carnot_status* carnot_refit_weight(const carnot_refit* refit, const char* name,
                                              carnot_dtype* out_dtype, carnot_dims* out_dims,
                                              const void** out_data) CARNOT_MUST_USE;
// A weight that must be set before commit; NULL when there is none.
CARNOT_API const char* carnot_refit_missing(const carnot_refit* refit);
// Publishes the new weights: a context takes them at its next run. Derived weights are computed
// again.
CARNOT_API carnot_status* carnot_refit_commit(carnot_refit* refit) CARNOT_MUST_USE;
// Ends a refit, committed or not. NULL is allowed.
CARNOT_API void carnot_refit_free(carnot_refit* refit);

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_RUNTIME_H_
