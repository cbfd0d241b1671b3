// Tactics. A problem is a region of the graph with its operand descriptors; a tactic is one way to
// compute a region on one device; a prepared step is a tactic with packed constants. Kernels see
// operands (pointer, dimensions, strides), never the graph.
//
// A tactic is a table entry whose functions run in this order:
//
//   reject     build             NULL when it takes the problem, else the reason with the fact in
//   it prepare    build and refit   packs weights, chooses parameters; portable C, for any target
//   ISA validate   engine load       checks everything run relies on, also against a hostile file
//   configure  shape change      partition, tiles and descriptors into fixed-size state; returns
//   the
//                                workspace size
//   run        execution         computes (CPU) or records kernels into a stream (CUDA); allocates
//                                nothing
#ifndef CARNOT_TACTIC_TACTIC_H_
#define CARNOT_TACTIC_TACTIC_H_

#include "base/executor.h"
#include "carnot/types.h"
#include "kernel/cpu/common/isa.h"
#include "plan/plan.h"

#define CARNOT_REJECT_NO_MEMORY "no memory"

// Numerics classes: how far a tactic's result may be from the exact one. X(NAME, "name"). The
// bounds are carnot_numerics_bound's.
//   EXACT  operands as stored, accumulation in FP32 (FP64 for FP64 operands) in any order; integers
//          are exact
//   SPLIT6 FP32 operands in three BF16 parts, the six products of parts that reach 2^-16 of the
//          whole, accumulation in FP32: as near as EXACT
//   WINOGRAD  products of sums of FP32 operands, accumulation in FP32: one to two times the error
//          of EXACT, relative to the products under the four results of a tile
//   WINOGRAD_4X4  the same for 16 results, four times the error of EXACT; needs fast_fp32
//   SPLIT3 the three products that reach 2^-8 of the whole; needs fast_fp32
//   HALF   operands rounded to FP16 or BF16 (the tactic's precision), accumulation in FP32
#define CARNOT_NUMERICS_CLASSES(X) \
  X(EXACT, "exact")                \
  X(SPLIT6, "split6")              \
  X(WINOGRAD, "winograd")          \
  X(WINOGRAD_4X4, "winograd4x4")   \
  X(SPLIT3, "split3")              \
  X(HALF, "half")
typedef enum carnot_numerics {
#define CARNOT_NUMERICS_ENUM(NAME, name) CARNOT_NUMERICS_##NAME,
  CARNOT_NUMERICS_CLASSES(CARNOT_NUMERICS_ENUM)
#undef CARNOT_NUMERICS_ENUM
      CARNOT_NUMERICS_COUNT
} carnot_numerics;
const char* carnot_numerics_name(carnot_numerics numerics);
// The bound on |result - exact result| divided by sum|a*b|, for a sum of |k| products whose
// operands are stored as |dtype| and computed in |precision| (INVALID: as stored). A bound of the
// rounding of operands plus that of k sequential additions (Higham, Accuracy and Stability of
// Numerical Algorithms, section 3.1); rounding the result to |dtype| is not included. 0 for
// integers.
double carnot_numerics_bound(carnot_numerics numerics, carnot_dtype dtype, carnot_dtype precision,
                             int64_t k);

// An accelerator, and a context's stream on it (backend/device.h).
typedef struct carnot_device carnot_device;
typedef struct carnot_stream carnot_stream;

// Access to the timing cache (builder/measure/timing_cache.h) for tactics that autotune among
// library algorithms.
typedef struct carnot_timings {
  struct carnot_timing_cache* cache;
  bool (*find)(const struct carnot_timing_cache* cache, uint64_t key, const char* tactic,
               uint64_t* out_ns);
  // Returns the cached time in |*ns|, or inserts |*ns| when there is none.
  carnot_status* (*get_or_insert)(struct carnot_timing_cache* cache, uint64_t key,
                                  const char* tactic, uint64_t* ns);
} carnot_timings;

typedef struct carnot_prepared carnot_prepared;
typedef struct carnot_tactic carnot_tactic;

typedef struct carnot_problem {
  const carnot_tactic* tactic;  // that is asked or prepares: its table entry with its config
  const carnot_region* region;
  uint32_t input_count, output_count;
  carnot_operand_desc* inputs;
  carnot_operand_desc* outputs;
  // Local values of the region that are neither input nor output, by local index - input_count.
  const carnot_operand_desc* inner;
  carnot_isa isa;
  carnot_device* device;      // NULL: the CPU alone
  bool fast_fp32;             // the user allows FP32 shortcuts (--fp32=fast)
  uint32_t allowed_numerics;  // bit set of carnot_numerics: the classes that tactics may have
  bool allow_timing;          // candidates may be timed on the device
  const carnot_timings* timings;
  // Refit only: what the engine holds for this step. Earlier choices are kept, and device code is
  // not generated again (its constant has no data).
  const carnot_prepared* previous;
  bool has_stored_types;   // an operand of float32 is BF16 in memory: for tactics that take it so
  bool may_f16, may_bf16;  // the region may compute its GEMMs and convolutions in this type
  bool exact_f16;          // FP16 weights are allowed only if every weight converts exactly
  carnot_dtype requested_precision;  // the type that the user set on the layer, or INVALID
} carnot_problem;

// An operand at run time. |strides| in elements. |data| is NULL for an absent operand, and in
// configure for an operand whose address is not known yet.
typedef struct carnot_operand {
  void* data;
  carnot_format format;
  int rank;
  int64_t dims[CARNOT_MAX_RANK];
  int64_t strides[CARNOT_MAX_RANK];
} carnot_operand;

// The result of prepare. Its memory lives in |arena|.
struct carnot_prepared {
  carnot_arena* arena;
  carnot_executor* executor;  // whose threads prepare may use; NULL: the caller alone
  uint32_t constant_count;
  struct {
    const char* packing;  // name and version of the packing format
    void* data;
    size_t bytes;
  } constants[4];
  const void* params;
  uint32_t param_bytes;
  uint64_t packed_inputs;  // bit i: input i is a constant that is read only in packed form
};

enum { CARNOT_STATE_BYTES = 2560 };

// A prepared step as the runtime holds it.
typedef struct carnot_step_view {
  const carnot_tactic* tactic;
  const carnot_region* region;
  uint32_t input_count, output_count;
  const void* params;
  uint32_t param_bytes;
  uint32_t constant_count;
  const void* constants[4];
  size_t constant_bytes[4];
  carnot_isa machine_isa;  // of this machine, or the one forced by the user
  int threads;             // of the executor that runs the step
  carnot_stream* stream;  // of device tactics: configure finds the device here, run records into it
  void* instance;         // the result of open
} carnot_step_view;

// The index of the step's output that is output |i| of |node|, a node of the step's region; NONE
// when nothing reads it.
static inline uint32_t carnot_step_output(const carnot_step_view* step,
                                          const carnot_plan_node* node, uint32_t i) {
  for (uint32_t k = 0; k < step->output_count && i < node->output_count; k++)
    if (node->outputs[i] != CARNOT_PLAN_NONE && step->region->outputs[k] == node->outputs[i])
      return k;
  return CARNOT_PLAN_NONE;
}

enum { CARNOT_PREPLAN_PARTS = 5 };

struct carnot_tactic {
  const char* name;  // cpu_<family>_<types>_<tile>_<isa>: the key in timing caches and engines
  carnot_op anchor;  // asked only for regions that contain this operator; CARNOT_OP_COUNT: for all
  carnot_isa isa;    // whose features it requires
  // Tile sizes, kernels and the like, for functions that serve several tactics of one family, which
  // reach it as problem->tactic->config or step->tactic->config. Its type is the family's.
  const void* config;
  carnot_numerics numerics;
  carnot_dtype precision;     // FP16 or BF16 when it computes in that type, which must be allowed
  bool lossless_f16_weights;  // reject checks that FP16 weights are exact when only that is allowed
  // Runs on the accelerator: operands, packed constants and workspace are device addresses, and run
  // records into step->stream. Operands in host memory are small lists that decide sizes.
  bool device;
  uint32_t sources;      // bit set of carnot_tactic_source: the libraries it calls
  bool fallback;         // slow generic code: taken where no other tactic fits, never timed
  bool cross_memory;     // a copy between memory spaces, or a view: takes operands in either
  bool strided_outputs;  // writes outputs with any strides whose innermost is 1
  // Of device tactics: writes outputs, or reads input i (bit i; all bits: every input), whose rows
  // of the innermost stored axis are any multiple of 16 bytes apart, as parts of a concatenation
  // are.
  bool pitched_outputs;
  uint64_t pitched_inputs;
  // A Concat or Split that copies no part that lies in the whole already.
  bool parts_in_place;
  bool empty_inputs;            // a host tactic that takes inputs without elements
  bool takes_bf16;              // takes BF16 in place of float32 operands and results
  bool output_layout_agnostic;  // can write its only output in another layout than reject chose
  // Optional. Precomputes expensive library plans (cuDNN) before selection. Called for parts
  // 0 .. CARNOT_PREPLAN_PARTS-1 on any thread, concurrently for all regions.
  void (*preplan)(const carnot_problem* problem, int part);
  // Optional. Nanoseconds that libraries spend on this step whenever an engine is loaded. Called
  // after prepare and timing.
  uint64_t (*load_ns)(const carnot_problem* problem, const carnot_prepared* prepared);
  // NULL when the tactic takes the problem, CARNOT_REJECT_NO_MEMORY when there was no memory to
  // read it (the caller returns OUT_OF_MEMORY, it does not select another), else the reason in
  // |reason| (|size| bytes); "" when the tactic is for other operators. May set the layout it wants
  // of non-constant inputs and of outputs; the builder inserts reformats. A device tactic sets the
  // memory space of inputs that only decide sizes to host; all others are copied to the device.
  const char* (*reject)(carnot_problem* problem, char* reason, size_t size);
  carnot_status* (*prepare)(const carnot_problem* problem, carnot_prepared* out);
  carnot_status* (*validate)(const carnot_step_view* step);
  // Optional. State that a context keeps for the step during its lifetime, passed as
  // step->instance (a plugin's clone). Called after validate.
  carnot_status* (*open)(const carnot_step_view* step, void** out_instance);
  void (*close)(void* instance);
  // Optional. False when run never reads this input (a constant that it reads in packed form).
  bool (*uses_input)(const carnot_step_view* step, uint32_t input);
  // |inputs| and |outputs| have dimensions and strides; |state| has CARNOT_STATE_BYTES bytes.
  carnot_status* (*configure)(const carnot_step_view* step, const carnot_operand* inputs,
                              const carnot_operand* outputs, void* state,
                              size_t* out_workspace_bytes);
  // For operators whose output sizes depend on values: computes the sizes, waits for them and sets
  // the dimensions of |outputs|, of which configure saw only the type. run follows with the same
  // state and workspace, unless all outputs are empty.
  carnot_status* (*infer_output_sizes)(const carnot_step_view* step, void* state,
                                       const carnot_operand* inputs, carnot_operand* outputs,
                                       void* workspace);
  // Packed constants come through |step|; their operands have data NULL.
  carnot_status* (*run)(const carnot_step_view* step, void* state, const carnot_operand* inputs,
                        const carnot_operand* outputs, void* workspace, carnot_executor* executor);
  // Optional. True when output |output| may be written in the memory of input |input|, of the same
  // size, which nothing reads afterwards: a cache that is updated in place.
  bool (*may_share)(const carnot_step_view* step, uint32_t input, uint32_t output);
  // Optional. For timing: writes values into |inputs|, which hold small numbers and integers 0,
  // where the work depends on them (lengths). Called after configure.
  void (*fill)(const carnot_step_view* step, const void* state, const carnot_operand* inputs);
  // Optional. Floating-point operations and bytes moved at the problem's dimensions, for the
  // roofline. Without it the bytes of all operands are counted.
  void (*work)(const carnot_problem* problem, double* out_flops, double* out_bytes);
};

static inline bool carnot_tactic_reads_pitched(const carnot_tactic* tactic, uint32_t input) {
  return tactic->pitched_inputs == ~(uint64_t)0 ||
         (input < 64 && (tactic->pitched_inputs >> input & 1));
}

// The operand is float32, or BF16 in its place where the tactic that is asked takes it so.
static inline bool carnot_is_f32_value(const carnot_problem* problem,
                                       const carnot_operand_desc* t) {
  return t->format.dtype == CARNOT_DTYPE_F32 ||
         (t->format.dtype == CARNOT_DTYPE_BF16 && problem->tactic && problem->tactic->takes_bf16);
}

// The preferred ISA of this machine; CARNOT_ISA=<name> in the environment lowers it to another one
// that the machine has. Any thread.
carnot_isa carnot_isa_of_machine(void);
// The preferred ISA of a machine with |features|, bits CARNOT_CPU_*.
carnot_isa carnot_isa_best_of(unsigned features);
// The features that |isa| requires, bits CARNOT_CPU_*.
unsigned carnot_isa_features(carnot_isa isa);
// True when a machine that has |has| can run what requires |needed|: its features contain them.
bool carnot_isa_includes(carnot_isa has, carnot_isa needed);
// The position in the order of preference, 0 for the least preferred.
int carnot_isa_rank(carnot_isa isa);
// "avx512vnni".
const char* carnot_isa_name(carnot_isa isa);
// NULL when this machine has |isa|, else the name of the missing feature. Any thread.
const char* carnot_isa_lacks(carnot_isa isa);
// The ISA called |name|, or CARNOT_ISA_COUNT.
carnot_isa carnot_isa_find(const char* name);

// Every tactic that may take |region| by its anchor, in order of preference: fastest first within
// an operator, the reference tactic last. Those of the loaded backend module when |backend|, else
// the CPU's. Any thread.
//   carnot_tactic_iterator all = carnot_tactics_for(&region, /*backend=*/false);
//   for (const carnot_tactic* t; (t = carnot_tactic_next(&all));) …
enum { CARNOT_MAX_TACTICS = 512 };  // of one table
typedef struct carnot_tactic_iterator {
  const carnot_tactic* const* table;
  uint64_t left[CARNOT_MAX_TACTICS / 64];  // bit set of table positions
  size_t word;
} carnot_tactic_iterator;
carnot_tactic_iterator carnot_tactics_for(const carnot_region* region, bool backend);
// The next tactic, or NULL.
const carnot_tactic* carnot_tactic_next(carnot_tactic_iterator* iterator);

// The whole table of the CPU, or of the loaded backend module (empty without one). Any thread.
const carnot_tactic* const* carnot_tactics(bool backend, size_t* out_count);
// The tactic called |name| of the CPU or the loaded backend module; NULL: none. Any thread.
const carnot_tactic* carnot_tactic_find(const char* name);
// Adds the table of a backend module, which must stay valid. Called by carnot_device_open under its
// lock, before any device of the module exists. OUT_OF_RANGE when a table is too long.
carnot_status* carnot_tactics_add_backend(const carnot_tactic* const* table,
                                          size_t count) CARNOT_MUST_USE;
// "cuBLASLt": the name of the library or other source.
const char* carnot_tactic_source_name(carnot_tactic_source source);

// Runs any region by the reference kernels. The runtime implements it (it needs the run arena).
#define CARNOT_REFERENCE_TACTIC "reference"
// Concatenates. The builder may have operands written in place, which this tactic then skips.
#define CARNOT_VIEW_TACTIC "view"
// Copies between host and device memory, and layout changes in device memory.
#define CARNOT_UPLOAD_TACTIC          "cuda_upload"
#define CARNOT_DOWNLOAD_TACTIC        "cuda_download"
#define CARNOT_DEVICE_REFORMAT_TACTIC "cuda_reformat"
// The same on the CPU.
#define CARNOT_HOST_REFORMAT_TACTIC "cpu_reformat"

#endif  // CARNOT_TACTIC_TACTIC_H_
