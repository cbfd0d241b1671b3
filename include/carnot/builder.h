// Building engines from networks: configuration, timing cache, build.
//
// One thread at a time a configuration and a cache; builds of different networks may run side by
// side.
#ifndef CARNOT_BUILDER_H_
#define CARNOT_BUILDER_H_

#include "carnot/control_flow.h"
#include "carnot/network.h"
#include "carnot/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct carnot_config carnot_config;
// Measured times of tactics, by problem: builds that share one are repeatable and fast.
typedef struct carnot_timing_cache carnot_timing_cache;

typedef enum carnot_build_flag {
  CARNOT_BUILD_REFIT,           // the weights of the engine can be replaced
  CARNOT_BUILD_STRIP,           // the engine has no weights until refit sets them; implies REFIT
  CARNOT_BUILD_FAST_F32,        // shortcuts that lose bits of float32
  CARNOT_BUILD_NO_PASSES,       // only the rewriting that running needs, for debugging
  CARNOT_BUILD_F16,             // weak typing: float16 may be chosen where it is faster
  CARNOT_BUILD_BF16,            // the same of bfloat16
  CARNOT_BUILD_STRONGLY_TYPED,  // types are the network's: contradicts F16, BF16 and requests
  CARNOT_BUILD_PREFER_TYPES,    // requests for layers are followed where that is possible
  CARNOT_BUILD_OBEY_TYPES,      // requests that cannot be followed fail the build, which names the
                                // layer
  CARNOT_BUILD_QUANTIZED,       // 8-bit types for layers whose tensors have ranges
                                // (carnot/calibration.h); what the network quantizes itself needs
                                // no flag. UNSUPPORTED where there is neither
} carnot_build_flag;

// A configuration with the defaults; the caller destroys it. Text given to it is copied.
CARNOT_API carnot_status* carnot_config_create(carnot_config** out_config) CARNOT_MUST_USE;
// NULL is allowed.
CARNOT_API void carnot_config_destroy(carnot_config* config);
// Sets or clears a flag; all are off at first. INVALID_ARGUMENT for flags out of range.
CARNOT_API carnot_status* carnot_config_set_flag(carnot_config* config, carnot_build_flag flag,
                                                 bool on) CARNOT_MUST_USE;
// 0: no timing; 3: the default; 5: every candidate. OUT_OF_RANGE elsewhere.
CARNOT_API carnot_status* carnot_config_set_level(carnot_config* config, int level) CARNOT_MUST_USE;
// A bit (1 << source) for each that an accelerator's tactics may use; by default all. Without
// cuBLASLt and cuDNN an engine holds own kernels only.
CARNOT_API void carnot_config_set_tactic_sources(carnot_config* config, uint32_t sources);
// What the engine is for: "cpu", "cuda", "cuda:1" or "cuda:sm_90" (a device that is not there).
// NULL, the default: CARNOT_DEVICE from the environment, else a GPU where driver, device and
// Carnot's CUDA module are there, else the processor. The build reports what is missing for a
// device that was named.
CARNOT_API carnot_status* carnot_config_set_device(carnot_config* config,
                                                   const char* device) CARNOT_MUST_USE;
// Threads for timing and folding; tactics are tuned for as many. 0: all processors.
CARNOT_API carnot_status* carnot_config_set_thread_count(carnot_config* config,
                                                         int thread_count) CARNOT_MUST_USE;
// Time for timing tactics, in seconds; 0: no limit. Tactics that are not timed in
// time are chosen by their order.
CARNOT_API carnot_status* carnot_config_set_time_budget(carnot_config* config,
                                                        double seconds) CARNOT_MUST_USE;
// A new profile: *out_profile is its index. Without a profile every dynamic dimension is allowed.
CARNOT_API carnot_status* carnot_config_add_profile(carnot_config* config,
                                                    uint32_t* out_profile) CARNOT_MUST_USE;
// The shapes of input |name| in a profile, all of them copied; set again it is replaced. The build
// checks them.
CARNOT_API carnot_status* carnot_config_set_profile_shapes(carnot_config* config, uint32_t profile,
                                                           const char* name, const carnot_dims* min,
                                                           const carnot_dims* opt,
                                                           const carnot_dims* max) CARNOT_MUST_USE;
// The elements of shape input |name| (one whose elements decide shapes) in a profile: |count| each,
// copied. Runs refuse other elements. The build fails where
// |name| is no shape input.
CARNOT_API carnot_status* carnot_config_set_profile_values(carnot_config* config, uint32_t profile,
                                                           const char* name, const int64_t* min,
                                                           const int64_t* opt, const int64_t* max,
                                                           size_t count) CARNOT_MUST_USE;
// Requests of weak typing by name, in addition to those of layers (carnot/edit.h): the layers that
// |pattern| names ('*' matches any text) compute in |dtype|, or their outputs are of |dtypes| in
// order, the last for all that follow. Later requests override earlier ones. The text is copied.
// They are read under PREFER_TYPES or OBEY_TYPES.
CARNOT_API carnot_status* carnot_config_add_layer_precision(carnot_config* config,
                                                            const char* pattern,
                                                            carnot_dtype dtype) CARNOT_MUST_USE;
// Output types: |dtypes| [count], at most 8.
CARNOT_API carnot_status* carnot_config_add_layer_output_types(carnot_config* config,
                                                               const char* pattern,
                                                               const carnot_dtype* dtypes,
                                                               int count) CARNOT_MUST_USE;
// Types of the network's inputs (outputs) as the user's tensors have them, in order, INVALID: the
// network's own; one applies to all. Between floating types only; the build names others.
CARNOT_API carnot_status* carnot_config_set_input_types(carnot_config* config,
                                                        const carnot_dtype* dtypes,
                                                        size_t count) CARNOT_MUST_USE;
// The same for the outputs of the network.
CARNOT_API carnot_status* carnot_config_set_output_types(carnot_config* config,
                                                         const carnot_dtype* dtypes,
                                                         size_t count) CARNOT_MUST_USE;
// The memory layouts that input or output |name| of the network may have: 1 << carnot_tensor_format
// each. LINEAR is taken where it is allowed, else the first that the tensor can have; the engine
// reformats. The build fails where the network has no such tensor or it can have none of them. The
// name is copied; set again it is replaced.
CARNOT_API carnot_status* carnot_config_set_tensor_formats(carnot_config* config, const char* name,
                                                           uint32_t allowed) CARNOT_MUST_USE;
// The highest CPU ISA level that tactics may use, by name (carnot/machine.h), for engines that run
// on other machines or for tests. NULL: this machine's. INVALID_ARGUMENT for other names.
CARNOT_API carnot_status* carnot_config_set_isa(carnot_config* config,
                                                const char* isa) CARNOT_MUST_USE;
// Prints the network to the standard error after the pass of this name, "all": after every pass.
// NULL: never. The name is copied.
CARNOT_API void carnot_config_set_graph_dump(carnot_config* config, const char* pass);
// The name of optimization pass |index| in the order of execution, some more than once; NULL past
// the last. *out_is_required (may be NULL): the pass runs under NO_PASSES too and cannot be
// disabled. Any thread.
CARNOT_API const char* carnot_pass_name(size_t index, bool* out_is_required);
// Leaves the pass |name| out. The name is copied.
CARNOT_API carnot_status* carnot_config_disable_pass(carnot_config* config,
                                                     const char* name) CARNOT_MUST_USE;
// Borrows |cache|, which build reads and adds to; NULL: each build its own.
CARNOT_API void carnot_config_set_timing_cache(carnot_config* config, carnot_timing_cache* cache);
// Called on the building thread. Severity: 0 error, 1 warning, 2 information, 3 detail.
CARNOT_API void carnot_config_set_log(carnot_config* config,
                                      void (*log)(void* user, int severity, const char* message),
                                      void* user);
// |done| of |total| parts of |phase|; false ends the build with CANCELLED.
CARNOT_API void carnot_config_set_progress(carnot_config* config,
                                           bool (*progress)(void* user, const char* phase, int done,
                                                            int total),
                                           void* user);

// ---- choosing tactics by hand ----

// A tensor as a tactic reads or writes it: |dims| at the optimum of the first profile (-1: known
// only in a run), |strides| in elements (0 where a dimension is not known).
typedef struct carnot_tactic_tensor {
  carnot_dtype dtype;
  carnot_dims dims;
  int64_t strides[CARNOT_MAX_RANK];
} carnot_tactic_tensor;
// A tactic that takes a layer.
typedef struct carnot_tactic_choice {
  const char* tactic;                   // its name
  double ms;                            // of a run; negative where it was not timed
  const carnot_tactic_tensor* tensors;  // [input_count + output_count] of the layer
} carnot_tactic_choice;
// A layer of the optimized network and tactics for it. Constants are no inputs.
typedef struct carnot_layer_tactics {
  const char* layer;
  uint32_t input_count, output_count, choice_count;
  const carnot_tactic_choice* choices;
} carnot_layer_tactics;
// Callbacks on the building thread; what they are given lives for the call. |select| is called for
// every layer before its tactics are timed and clears |keep| [choice_count], all true at first,
// where a tactic shall not be taken; without any kept, all are. |report| is called once with the
// tactic that was taken for every layer, a choice each. Either may be NULL, and false ends the
// build with CANCELLED.
// Source: TensorRT IAlgorithmSelector.
CARNOT_API void carnot_config_set_tactic_selector(
    carnot_config* config,
    bool (*select)(void* user, const carnot_layer_tactics* layer, bool* keep),
    bool (*report)(void* user, const carnot_layer_tactics* layers, uint32_t layer_count),
    void* user);

// Builds; |config| may be NULL: the defaults. The network is not changed and may be built again.
// The file appears complete or not at all.
CARNOT_API carnot_status* carnot_build_file(const carnot_network* network,
                                            const carnot_config* config,
                                            const char* path) CARNOT_MUST_USE;
// The same bytes in memory, to be freed by carnot_memory_free.
CARNOT_API carnot_status* carnot_build_memory(const carnot_network* network,
                                              const carnot_config* config, void** out_data,
                                              size_t* out_size) CARNOT_MUST_USE;
// An engine ready to run; the caller owns one reference.
CARNOT_API carnot_status* carnot_build_engine(const carnot_network* network,
                                              const carnot_config* config,
                                              carnot_engine** out_engine) CARNOT_MUST_USE;

// An empty cache; the caller destroys it after the configurations that borrow it.
CARNOT_API carnot_status* carnot_timing_cache_create(carnot_timing_cache** out_cache)
    CARNOT_MUST_USE;
// NULL is allowed.
CARNOT_API void carnot_timing_cache_destroy(carnot_timing_cache* cache);
// Adds the text form's entries; existing entries stay. INVALID_MODEL names the line.
CARNOT_API carnot_status* carnot_timing_cache_read(carnot_timing_cache* cache, const char* text,
                                                   size_t size) CARNOT_MUST_USE;
// A missing file is an empty cache.
CARNOT_API carnot_status* carnot_timing_cache_load(carnot_timing_cache* cache,
                                                   const char* path) CARNOT_MUST_USE;
// Adds what other processes have written to |path| meanwhile, under a file lock, and writes the
// text form; the file appears complete or not at all. IO; INVALID_MODEL when |path| is another
// file.
CARNOT_API carnot_status* carnot_timing_cache_save(carnot_timing_cache* cache,
                                                   const char* path) CARNOT_MUST_USE;
// The text form, to be freed by carnot_memory_free.
CARNOT_API carnot_status* carnot_timing_cache_print(carnot_timing_cache* cache, char** out_text,
                                                    size_t* out_size) CARNOT_MUST_USE;
// The number of entries.
CARNOT_API size_t carnot_timing_cache_count(const carnot_timing_cache* cache);

#ifdef __cplusplus
}
#endif
#endif  // CARNOT_BUILDER_H_
