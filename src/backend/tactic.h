// Tactics: problem → row → prepared step. One row is one way to compute a region on one device.
//
// A kernel sees operands (pointer, dimensions, strides), never the graph. The phases:
//   reject   build        NULL, or the reason in words with the fact in it
//   prepare  build, refit packs weights and notes parameters; portable C
//   check    load         everything run relies on, also against a hostile file
//   shape    shape change partition, tiles, descriptors into fixed-size state; says the workspace
//   it needs run      run          computes; allocates nothing
#ifndef CARNOT_BACKEND_TACTIC_H_
#define CARNOT_BACKEND_TACTIC_H_

#include "base/executor.h"
#include "carnot/types.h"
#include "engine/plan.h"

// CPU levels, each holding those before it. X(NAME, "name").
// clang-format off
#define CARNOT_ISAS(X) \
  X(SCALAR, "scalar")  \
  X(AVX2, "avx2") X(AVX512, "avx512") X(AVX512_VNNI, "avx512vnni") X(AVX512_BF16, "avx512bf16") \
  X(AMX_BF16, "amxbf16")
// clang-format on
typedef enum carnot_isa {
#define CARNOT_ISA_ENUM(NAME, name) CARNOT_ISA_##NAME,
  CARNOT_ISAS(CARNOT_ISA_ENUM)
#undef CARNOT_ISA_ENUM
      CARNOT_ISA_COUNT
} carnot_isa;

// An accelerator and a context's stream on it (backend/device.h).
typedef struct carnot_device carnot_device;
typedef struct carnot_queue carnot_queue;

// What was measured before (build/timing_cache.h), for rows that choose among their own ways.
typedef struct carnot_timings {
  struct carnot_timing_cache* cache;
  bool (*find)(const struct carnot_timing_cache* cache, uint64_t key, const char* tactic,
               uint64_t* out_ns);
  // Adds |*ns| unless there is a time already, which |*ns| then becomes.
  carnot_status* (*settle)(struct carnot_timing_cache* cache, uint64_t key, const char* tactic,
                           uint64_t* ns);
} carnot_timings;

typedef struct carnot_prepared carnot_prepared;

typedef struct carnot_problem {
  const carnot_region* region;
  uint32_t input_count, output_count;
  carnot_operand_type* inputs;
  carnot_operand_type* outputs;
  // Local values of the region that are neither input nor output, by local index - input_count.
  const carnot_operand_type* inner;
  carnot_isa isa;
  carnot_device* device;  // NULL: the processor alone
  bool fast_fp32;         // shortcuts were asked for
  bool times;             // candidates may be timed on the device
  const carnot_timings* timings;
  // Refit: what the engine holds for this step. Choices stand, and code is not made again (no
  // data).
  const carnot_prepared* standing;
  // Half types that the products may be computed in; |wanted|: the one that the user asked for.
  bool may_f16, may_bf16;
  bool exact_f16;  // float16 is not allowed but where it keeps every weight as it is
  carnot_dtype wanted;
} carnot_problem;

// An operand at run time. Strides in elements. data NULL: absent, or (in shape) not known yet.
typedef struct carnot_operand {
  void* data;
  carnot_place place;  // whose address |data| is
  carnot_dtype dtype;
  int rank;
  int64_t dims[CARNOT_MAX_RANK];
  int64_t strides[CARNOT_MAX_RANK];
} carnot_operand;

// What prepare gives; memory lives in |arena|.
struct carnot_prepared {
  carnot_arena* arena;
  uint32_t constant_count;
  struct {
    const char* packing;  // name and version of the format
    void* data;
    size_t bytes;
  } constants[4];
  const void* params;
  uint32_t param_bytes;
  uint64_t packed_inputs;  // bit i: input i is constant and needed in its packed form only
};

enum { CARNOT_STATE_BYTES = 2560 };

// A prepared step as the runtime holds it.
typedef struct carnot_step_view {
  const carnot_region* region;
  uint32_t input_count, output_count;
  const void* params;
  uint32_t param_bytes;
  uint32_t constant_count;
  const void* constants[4];
  size_t constant_bytes[4];
  carnot_isa isa;          // of the row
  carnot_isa machine_isa;  // of this machine, or the level that is forced
  carnot_queue* queue;     // of device rows: where shape finds the device and run records
  void* instance;          // what open gave
} carnot_step_view;

// Which output of the step is output |i| of |node|, one of its region's; NONE where nobody wants
// it.
static inline uint32_t carnot_step_output(const carnot_step_view* step,
                                          const carnot_plan_node* node, uint32_t i) {
  for (uint32_t k = 0; k < step->output_count && i < node->output_count; k++)
    if (node->outputs[i] != CARNOT_PLAN_NONE && step->region->outputs[k] == node->outputs[i])
      return k;
  return CARNOT_PLAN_NONE;
}

enum { CARNOT_FORESEEN = 5 };

typedef struct carnot_tactic_row {
  const char* name;        // cpu_<family>_<types>_<tile>_<isa>: the key in caches and engines
  carnot_op anchor;        // the operator that a region must hold to be tried; CARNOT_OP_COUNT: any
  carnot_isa isa;          // the least level it runs on
  const char* numerics;    // "exact", "winograd", "split6", … (design.md section 5)
  carnot_dtype precision;  // of its products where that is a half type, which must be allowed
  bool takes_exact_f16;    // reject looks whether weights are exact where only that is allowed
  // Runs on the accelerator: operands, packed constants and workspace are device addresses, run
  // records into step->queue. Operands of host values are lists that decide sizes.
  bool device;
  uint32_t sources;      // 1 << carnot_tactic_source of each library that it calls
  bool last_resort;      // far from the best: taken where no other row serves, never timed
  bool crosses;          // a copy between the two, or a view: takes operands of either memory
  bool strided_outputs;  // takes outputs with any strides whose innermost is 1
  bool any_layout;       // writes its only result in another layout too, when asked after reject
  // What a library takes long to make of the problem, made ahead of its use: part |part| of
  // CARNOT_FORESEEN, on any thread, parts of all nodes at once. NULL: nothing.
  void (*foresee)(const carnot_problem* problem, int part);
  // Nanoseconds that a library takes to make of the step what it needs, whenever an engine is
  // loaded; asked after prepare and timing. NULL: nothing to speak of.
  uint64_t (*load_ns)(const carnot_problem* problem, const carnot_prepared* prepared);
  // |reason| has room for |size| bytes; "" when the row is about other operators altogether. The
  // row may set the layouts it wants of non-constant inputs and of outputs
  // (problem->inputs[i].layout …): the runtime reformats what stands otherwise. A device row sets
  // the place of inputs that only decide sizes to HOST; all others are brought to the device.
  const char* (*reject)(carnot_problem* problem, char* reason, size_t size);
  carnot_status* (*prepare)(const carnot_problem* problem, carnot_prepared* out);
  carnot_status* (*check)(const carnot_step_view* step);
  // What a context keeps for the step as long as it lives, seen as step->instance (a plugin's
  // clone). Called after check. NULL: nothing.
  carnot_status* (*open)(const carnot_step_view* step, void** out_instance);
  void (*close)(void* instance);
  // False: run never touches this input (a constant that it reads in packed form). NULL: it reads
  // all.
  bool (*reads)(const carnot_step_view* step, uint32_t input);
  carnot_status* (*shape)(const carnot_step_view* step, const carnot_operand* inputs,
                          const carnot_operand* outputs, void* state, size_t* out_workspace_bytes);
  // Of an operator whose results' sizes follow from values: finds them, waits, and sets the
  // dimensions of |outputs|, of which shape knows the type alone. run follows with the same state
  // and workspace, unless all outputs are empty.
  carnot_status* (*count)(const carnot_step_view* step, void* state, const carnot_operand* inputs,
                          carnot_operand* outputs, void* workspace);
  // Constants that were packed come through the step; their operands have data NULL.
  carnot_status* (*run)(const carnot_step_view* step, void* state, const carnot_operand* inputs,
                        const carnot_operand* outputs, void* workspace, carnot_executor* executor);
  // Floating-point operations and bytes moved at the problem's dimensions, for the roofline; NULL:
  // bytes of operands.
  void (*work)(const carnot_problem* problem, double* out_flops, double* out_bytes);
} carnot_tactic_row;

// The highest level of this machine; CARNOT_ISA=<name> in the environment lowers it.
carnot_isa carnot_isa_of_machine(void);
const char* carnot_isa_name(carnot_isa isa);
// NULL when this machine has |isa|, else what it lacks. Any thread.
const char* carnot_isa_lacks(carnot_isa isa);
// CARNOT_ISA_COUNT when there is none of that name.
carnot_isa carnot_isa_find(const char* name);

// All rows of this build, fastest first, the reference row last.
const carnot_tactic_row* const* carnot_tactics(size_t* out_count);
const carnot_tactic_row* carnot_tactic_find(const char* name);
// "cuBLASLt": the library, or what else the source is.
const char* carnot_tactic_source_name(carnot_tactic_source source);
// The row that runs anything by the reference kernels. Its run is the runtime's own (it needs the
// store).
#define CARNOT_REFERENCE_TACTIC "reference"

// The row that joins parts: the builder may have some written in place, which it then leaves alone.
#define CARNOT_CONCAT_TACTIC "cpu_concat"
#define CARNOT_VIEW_TACTIC   "view"
// Between the memory of processor and accelerator.
#define CARNOT_UPLOAD_TACTIC          "cuda_upload"
#define CARNOT_DOWNLOAD_TACTIC        "cuda_download"
#define CARNOT_DEVICE_REFORMAT_TACTIC "cuda_reformat"

#endif  // CARNOT_BACKEND_TACTIC_H_
