// The plan: what the builder decided and the runtime executes. The engine file is its serialised
// form; the reader gives back the same structs, copied off the file and checked.
//
// Dimensions at run time come from the operators' own infer on plain integers, so a plan that lies
// about a size is found out when shapes are set; what the plan fixes is storage: where each value
// lives and how large it may become.
#ifndef CARNOT_PLAN_PLAN_H_
#define CARNOT_PLAN_PLAN_H_

#include "plan/operand.h"
#include "plan/region.h"

typedef enum carnot_storage {
  CARNOT_STORAGE_NONE,           // nobody reads it
  CARNOT_STORAGE_CONSTANT,       // blob |index|
  CARNOT_STORAGE_BINDING,        // the user's tensor |index|
  CARNOT_STORAGE_ARENA,          // at offset[profile] of the context's arena
  CARNOT_STORAGE_DYNAMIC_ARENA,  // the arena too, but sized without a bound: placed when shapes are
                                 // set
  CARNOT_STORAGE_HEAP,     // the context's growable store: size or time of death unknown before the
                           // run
  CARNOT_STORAGE_ALIAS,    // in the memory of value |index|: its elements under other dimensions,
                           // or written over them by the last step that reads them
  CARNOT_STORAGE_SUBVIEW,  // a part of value |index| along |axis|, behind |before|: of a concat,
                           // which its producer writes in place, or of a split
  CARNOT_STORAGE_COUNT
} carnot_storage;

typedef struct carnot_plan_value {
  const char* name;
  carnot_value_kind kind;  // UNKNOWN: known only while running
  carnot_format format;
  carnot_storage storage;
  uint32_t index;
  int32_t axis;
  const uint32_t* before;  // PART: the values before it along |axis|
  uint32_t before_count;
  uint64_t max_bytes;              // of an ARENA value, over all profiles
  const uint64_t* offsets;         // ARENA, by profile
  uint32_t first_step, last_step;  // of its life, both included
} carnot_plan_value;

// The type in which a tensor of type |declared| is stored: float32 that half types may replace lies
// in memory as its format says.
static inline carnot_dtype carnot_plan_stored_dtype(const carnot_plan_value* v,
                                                    carnot_dtype declared) {
  const bool is_half = declared == CARNOT_DTYPE_F32 && carnot_dtype_is_half(v->format.dtype);
  return is_half ? v->format.dtype : declared;
}

// A constant. |refit_expr| says how it is made from the user's weights, for refit; NONE: it is the
// weight itself or fixed.
typedef struct carnot_plan_blob {
  const char* name;      // of the user's weight; "" for derived ones
  const char* packing;   // "" for a plain tensor, else the named format of the bytes
  carnot_tensor tensor;  // type and dimensions; data once loaded. Packed: u8 [bytes]
  uint64_t offset;       // in the weight section
  uint64_t bytes;
  uint64_t hash;
  uint32_t refit_expr;
  bool dropped;  // only type and dimensions are kept: the bytes live on in a packed form
} carnot_plan_blob;

// Machine code of a generated program, which no weight changes.
static inline bool carnot_packing_is_code(const char* packing) {
  return packing && strncmp(packing, "cubin", 5) == 0;
}
static inline bool carnot_blob_is_code(const carnot_plan_blob* blob) {
  return carnot_packing_is_code(blob->packing);
}
// The user's weight, or made from such: what a stripped engine leaves out and refit supplies.
static inline bool carnot_blob_is_weight(const carnot_plan_blob* blob) {
  return (blob->name[0] || blob->packing[0] || blob->refit_expr != UINT32_MAX) &&
         !carnot_blob_is_code(blob);
}

// A dimension of an operand, or with CARNOT_GUARD_ELEMENTS the product of all its dimensions, must
// lie in [min, max] and be a multiple of |multiple|.
#define CARNOT_GUARD_ELEMENTS UINT32_MAX
typedef struct carnot_guard {
  uint32_t operand, dim;
  int64_t min, max, multiple;
} carnot_guard;

static inline bool carnot_guard_holds(const carnot_guard* guard, const int64_t* dims, int rank) {
  const bool all = guard->dim == CARNOT_GUARD_ELEMENTS;
  if (!all && (int)guard->dim >= rank) return false;
  const int64_t size = all ? carnot_dims_count(dims, rank) : dims[guard->dim];
  return size >= guard->min && size <= guard->max && size % guard->multiple == 0;
}

enum { CARNOT_MAX_VARIANTS = 4, CARNOT_MAX_GUARDS = 4 };

// One way to compute a step. Variants are tried in order; the last has no guards.
typedef struct carnot_variant {
  const char* tactic;
  uint32_t guard_count;
  carnot_guard guards[CARNOT_MAX_GUARDS];
  uint32_t constant_count;
  const uint32_t* constants;  // blobs that prepare made
  uint32_t param_bytes;
  const void* params;  // what prepare noted, read by check and shape
} carnot_variant;

typedef struct carnot_plan_step {
  const char* name;
  carnot_region region;
  uint32_t input_count, output_count;
  const uint32_t* inputs;  // values
  const uint32_t* outputs;
  uint32_t variant_count;
  carnot_variant variants[CARNOT_MAX_VARIANTS];
  bool is_shape;  // computes elements of small shape tensors: runs when shapes are set, not in the
                  // run
  uint32_t type_count;  // refittable engines: inputs, outputs, then inner values; else 0
  carnot_operand_desc* types;
} carnot_plan_step;

typedef struct carnot_plan_block {
  uint32_t param_count, output_count;
  const uint32_t* params;
  const uint32_t* outputs;
  uint32_t first_step, step_count;
} carnot_plan_block;

typedef struct carnot_dim_range {
  int64_t min, opt, max;
} carnot_dim_range;

enum { CARNOT_MAX_SHAPE_ELEMENTS = 64 };  // of an input that decides shapes

typedef struct carnot_plan_binding {
  const char* name;
  bool is_input;
  bool is_shape;                // its elements decide shapes: must be known when shapes are set
  carnot_tensor_format format;  // the layout in the user's memory (plan/io_format.h)
  uint32_t value;               // as it lies in memory: its dimensions follow from |format|
  carnot_dtype dtype;
  int32_t rank;                            // -1 unknown, or no tensor
  int64_t dims[CARNOT_MAX_RANK];           // -1: dynamic
  const char* dim_names[CARNOT_MAX_RANK];  // "" where unnamed
  const carnot_dim_range* ranges;          // inputs: [profile][rank]
  uint32_t value_count;                    // elements of a shape input that profiles bound
  const carnot_dim_range* value_ranges;    // [profile][value_count]
} carnot_plan_binding;

// How to make a constant again from named weights: operators over blobs, the last result being the
// constant.
typedef struct carnot_refit_expr {
  carnot_region region;  // inputs are blobs
  uint32_t input_count;
  const uint32_t* inputs;  // blobs
} carnot_refit_expr;

// A plugin library that travels with the engine.
typedef struct carnot_plan_library {
  const char* name;  // of the file, without folders
  const void* data;
  uint32_t bytes;
} carnot_plan_library;

typedef struct carnot_plan {
  carnot_arena arena;  // all metadata
  const char* name;
  const char* device;  // "cpu", or an accelerator and its kind as in "cuda:sm_90"
  uint32_t isa;        // the ISA it was built for, a carnot_isa
  uint32_t value_count, blob_count, step_count, block_count, binding_count, refit_expr_count,
      profile_count;
  carnot_plan_value* values;
  carnot_plan_blob* blobs;
  carnot_plan_step* steps;
  carnot_plan_block* blocks;  // block 0 is the main one
  carnot_plan_binding* bindings;
  carnot_refit_expr* refit_exprs;
  uint32_t library_count;
  carnot_plan_library* libraries;
  uint32_t dynamic_count;       // values with FLEXIBLE storage
  uint64_t arena_bytes;         // of the planned arena, over all profiles
  uint64_t device_arena_bytes;  // the same on the accelerator
  uint64_t arena_bound;         // the most bytes alive at once: no plan needs less
  uint64_t workspace_bytes;     // behind the arena, shared by all steps
  const char* inspector;        // JSON, "" when left out
  char* inspector_text;         // the same where the builder made it; freed with the plan
  bool refittable, stripped;
  void* keep;  // what the builder's blobs point into; dropped with the plan
  void (*drop)(void* keep);
} carnot_plan;

carnot_status* carnot_plan_create(carnot_plan** out_plan) CARNOT_MUST_USE;
void carnot_plan_destroy(carnot_plan* plan);
// Leaves out the bytes of the user's weights and of what is made from them; refit supplies them.
void carnot_plan_strip(carnot_plan* plan);

// Indices, counts, enums, types and attribute lists hold together, blocks nest without cycles,
// aliases end in storage. INVALID_MODEL names the object, what was found and what is required.
// Sizes are checked when shapes are set.
carnot_status* carnot_plan_verify(const carnot_plan* plan) CARNOT_MUST_USE;

#endif  // CARNOT_PLAN_PLAN_H_
