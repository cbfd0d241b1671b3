// Operators: the enumeration made from ops.def, the row each family defines, and what infer and
// reference see.
#ifndef CARNOT_IR_OP_H_
#define CARNOT_IR_OP_H_

#include "ir/tensor.h"

typedef enum carnot_op {
#define CARNOT_OP_ENUM(NAME, name) CARNOT_OP_##NAME,
#define OP                         CARNOT_OP_ENUM
#include "ir/ops.def"
#undef OP
  CARNOT_OP_COUNT
} carnot_op;

typedef enum carnot_fn {
#define FN(NAME, ...) CARNOT_FN_##NAME,
#include "base/fn.def"
#undef FN
  CARNOT_FN_COUNT
} carnot_fn;

// ---- inference: from the types (and known values) of inputs to the types of outputs ----

// What infer knows of an input.
typedef struct carnot_infer_input {
  const carnot_type* type;  // NULL: the optional input is absent
  const carnot_sym* syms;   // the elements of a small integer tensor, as expressions; NULL unknown
  size_t sym_count;
  const carnot_tensor* tensor;  // its data, when known; NULL unknown
} carnot_infer_input;

typedef struct carnot_infer_output {
  carnot_type type;
  carnot_sym* syms;  // set by infer where it can say the elements (from syms of inputs); in |arena|
  size_t sym_count;
  bool wanted;  // somebody reads it; an absent optional output stays untouched
} carnot_infer_output;

// One call of infer. The same code runs at build on expressions and at run time on plain integers.
typedef struct carnot_infer {
  const struct carnot_op_row* row;
  const carnot_attrs* attrs;
  carnot_syms* syms;
  carnot_arena* arena;
  int input_count, output_count;
  const carnot_infer_input* inputs;
  carnot_infer_output* outputs;
  // Types of a body's outputs for given types of its inputs (control flow and regions); NULL where
  // unavailable.
  carnot_status* (*infer_block)(struct carnot_infer* infer, const carnot_attr* body,
                                int input_count, const carnot_infer_input* inputs, int output_count,
                                carnot_infer_output* outputs);
  void* host;
} carnot_infer;

// ---- reference kernels ----

// A value at run time: a tensor, or a list of values in the store of the run. An optional is a list
// of 0 or 1 items.
typedef struct carnot_rt_value {
  carnot_value_kind kind;
  carnot_tensor tensor;  // kind TENSOR; data NULL on an output whose size the kernel must say
  const struct carnot_rt_value** items;  // kinds SEQUENCE and OPTIONAL
  size_t item_count;
} carnot_rt_value;

// One call of a reference kernel. Inputs that are absent are NULL. Outputs that infer could size
// are allocated with their dimensions set; the others the kernel sizes by
// carnot_call_size_output. Outputs nobody reads are NULL.
typedef struct carnot_call {
  const struct carnot_op_row* row;
  const carnot_attrs* attrs;
  int input_count, output_count;
  const carnot_rt_value* const* inputs;
  carnot_rt_value* const* outputs;
  const struct carnot_call_host* host;
} carnot_call;

// Memory in a loop. BEGIN opens it; what is allocated from then on lasts until the second NEXT, so
// an iteration may read what the one before it made. OUTER allocates for the surroundings again,
// INNER goes back. END closes it, and nothing made inside may be read any more.
typedef enum carnot_loop_phase {
  CARNOT_LOOP_BEGIN,
  CARNOT_LOOP_NEXT,
  CARNOT_LOOP_OUTER,
  CARNOT_LOOP_INNER,
  CARNOT_LOOP_END
} carnot_loop_phase;

// What the surroundings offer a reference kernel.
typedef struct carnot_call_host {
  // Memory until the end of the run, aligned to 64, zeroed not.
  carnot_status* (*alloc)(const struct carnot_call_host* host, size_t bytes, void** out_memory);
  // Runs a body: |inputs| in the order of its parameters, |outputs| are filled with cells of the
  // run's store.
  carnot_status* (*run_block)(const struct carnot_call_host* host, const carnot_attr* body,
                              int input_count, const carnot_rt_value* const* inputs,
                              int output_count, carnot_rt_value* outputs);
  struct carnot_executor* executor;  // may be NULL: one thread
  uint64_t seed;                     // for operators that draw; changes with every run
  // NULL: all memory lasts until the end of the run.
  void (*loop)(const struct carnot_call_host* host, carnot_loop_phase phase);
  // Was |data| made by the iteration before this one (or is it gone already)?
  bool (*is_passing)(const struct carnot_call_host* host, const void* data);
} carnot_call_host;

// ---- the row of an operator ----

// Flags restrict what may be done with an operator.
enum {
  CARNOT_OP_RANDOM = 1,          // draws random numbers: never folded, never merged
  CARNOT_OP_DATA_DEPENDENT = 2,  // output sizes are known only after it ran
  CARNOT_OP_CONTROL = 4,         // control flow: has blocks as attributes
  CARNOT_OP_SIDE_EFFECT = 8,     // kept even when nothing reads its outputs
};

// Traits permit what passes do with an operator. An operator without traits is correct: passes
// leave it alone.
enum {
  // Applies a function of base/fn.def (attribute "fn") to each element, with broadcasting.
  CARNOT_TRAIT_ELEMENTWISE = 1,
  // A contraction of inputs 0 and 1 (matmul, GEMM, convolution). Gains from FP16 and BF16
  // operands with FP32 accumulation; kernels fuse an epilogue behind it.
  CARNOT_TRAIT_CONTRACTION = 2,
  // Output elements are copies of input elements (pad, trilu: or of the fill value), chosen by
  // attributes and integer inputs. Correct in any element type; a change of type commutes with it.
  // Scatter is none: it may reduce.
  CARNOT_TRAIT_MOVES_DATA = 4,
  // Besides, the row-major order of elements is kept: only the dimensions change.
  CARNOT_TRAIT_VIEW = 8,
  // Reads the dimensions of its input and none of its elements.
  CARNOT_TRAIT_READS_DIMS_ONLY = 16,
  // Means the same in FP32 as in FP16 or BF16 but for rounding, and all its half-precision operands
  // share one type: may be promoted. MOVES_DATA implies it.
  CARNOT_TRAIT_HALF_AS_F32 = 32,
  // FP32 operands and results may be stored as FP16 or BF16: kernels compute in FP32 inside, and
  // results stay within the range of the operands. MOVES_DATA implies it.
  CARNOT_TRAIT_F32_AS_HALF = 64,
  // Computes nothing that a precision requested for its layer could apply to; the request is
  // ignored.
  CARNOT_TRAIT_IGNORES_PRECISION = 128,
  // With MOVES_DATA: output elements may be a fill value that an input or attribute gives.
  CARNOT_TRAIT_FILLS = 256,
  // Each element of output 0 is the largest of some elements of input 0: commutes with a rising
  // function.
  CARNOT_TRAIT_MAXIMUM = 512,
  // Kernels may read input 0 and write the only result as quantized bytes: a dequantize node before
  // it and a quantize node behind it join its region where a kernel of the target takes them.
  CARNOT_TRAIT_BYTE_ENDS = 1024,
  // Products of weights with an input and with a state that each step passes on. Gains from FP16
  // and BF16 operands; kernels keep sums, and the state that a unit adds to, in FP32.
  CARNOT_TRAIT_RECURRENCE = 2048,
};

// For carnot_op_row.sized_by: element values of inputs from |i| on may decide output sizes.
#define CARNOT_SIZED_BY_INPUT(i) ((i) + 1)

// Where an operator names axes. With |moves|, a transpose commutes with it: the operator on
// transposed data, its axes renamed, gives transposed results. Data are the first input, the others
// then have at most one dimension; or all inputs.
typedef struct carnot_op_axes {
  bool moves;
  bool all_inputs;    // all inputs are data of one rank; element-wise: they broadcast
  const char* axis;   // attribute INT: one axis
  const char* axes;   // attribute INTS: the axes that |per_axis| lists
  int axes_input;     // a list of axes: CARNOT_AXES_INPUT(i); absent: all from 0 on
  unsigned per_axis;  // bit i: input i has, for each of the axes, one item or one in each half
} carnot_op_axes;
#define CARNOT_AXES_INPUT(i) ((i) + 1)

typedef struct carnot_op_row {
  const char* name;            // "conv"
  int min_inputs, max_inputs;  // max -1: any number
  int min_outputs, max_outputs;
  unsigned flags;                 // CARNOT_OP_…
  const carnot_attr_spec* attrs;  // ended by a NULL name; NULL: none
  unsigned traits;                // CARNOT_TRAIT_…
  int sized_by;                   // CARNOT_SIZED_BY_INPUT(i); 0: sizes follow from dimensions alone
  carnot_op_axes axes;            // all zero: a transpose does not commute with it
  carnot_status* (*infer)(carnot_infer* infer);
  carnot_status* (*reference)(carnot_call* call);
  const char* source;      // of the semantics: "ONNX Conv-22"
  const char* layer_type;  // the TensorRT layer it shows itself as: "CONVOLUTION"
} carnot_op_row;

#define CARNOT_OP_EXTERN(NAME, name) extern const carnot_op_row carnot_op_##name;
#define OP                           CARNOT_OP_EXTERN
#include "ir/ops.def"
#undef OP

const carnot_op_row* carnot_op_get(carnot_op op);
// True when |op| has any of |traits|.
static inline bool carnot_op_has_trait(carnot_op op, unsigned traits) {
  return (carnot_op_get(op)->traits & traits) != 0;
}
static inline bool carnot_op_wants_dims(carnot_op op) {
  return carnot_op_has_trait(op, CARNOT_TRAIT_READS_DIMS_ONLY);
}
// The first input whose element values may decide output sizes; -1: none.
static inline int carnot_op_first_sizing_input(carnot_op op) {
  return carnot_op_get(op)->sized_by - 1;
}
// CARNOT_OP_COUNT when there is none of that name.
carnot_op carnot_op_find(carnot_strview name);

// A line of base/fn.def.
typedef struct carnot_fn_fact {
  const char* name;
  int arity;
  char types;        // F, I, N, B, A: see fn.def
  bool to_bool;      // the result is bool
  bool keeps_range;  // FP32 operands and results may be stored as FP16 or BF16
} carnot_fn_fact;
const carnot_fn_fact* carnot_fn_get(carnot_fn fn);
carnot_fn carnot_fn_find(carnot_strview name);

// The value of an attribute, or its default by the row's list. The name must be in that list.
int64_t carnot_attr_int(const carnot_op_row* row, const carnot_attrs* attrs, const char* name);
double carnot_attr_float(const carnot_op_row* row, const carnot_attrs* attrs, const char* name);
carnot_strview carnot_attr_text(const carnot_op_row* row, const carnot_attrs* attrs,
                                const char* name);
bool carnot_attr_is(const carnot_op_row* row, const carnot_attrs* attrs, const char* name,
                    const char* text);
// The list, or NULL with count 0 when absent.
const int64_t* carnot_attr_ints(const carnot_attrs* attrs, const char* name, size_t* out_count);
const double* carnot_attr_floats(const carnot_attrs* attrs, const char* name, size_t* out_count);
bool carnot_attr_has(const carnot_attrs* attrs, const char* name);
// Every attribute is in the row's list with its type, and the required ones are there.
carnot_status* carnot_attrs_check(const carnot_op_row* row,
                                  const carnot_attrs* attrs) CARNOT_MUST_USE;

// ---- for infer functions ----

static inline bool carnot_infer_has(const carnot_infer* infer, int input) {
  return input < infer->input_count && infer->inputs[input].type;
}
// The input as a tensor of known or unknown rank; INVALID_MODEL when it is absent or no tensor.
carnot_status* carnot_infer_tensor(const carnot_infer* infer, int input,
                                   const carnot_type** out_type) CARNOT_MUST_USE;
// The elements of an integer input as expressions; *out_syms = NULL where they are unknown.
carnot_status* carnot_infer_ints(carnot_infer* infer, int input, const carnot_sym** out_syms,
                                 size_t* out_count) CARNOT_MUST_USE;
// The elements of a floating input whose data are known; *out_values = NULL where they are not.
carnot_status* carnot_infer_floats(carnot_infer* infer, int input, const double** out_values,
                                   size_t* out_count) CARNOT_MUST_USE;
// axis in [-rank, rank) made non-negative; INVALID_MODEL otherwise.
carnot_status* carnot_axis(int64_t axis, int rank, const char* what, int* out_axis) CARNOT_MUST_USE;
// Sets output |i|: a tensor of these dimensions; rank -1: unknown rank.
void carnot_infer_set(carnot_infer* infer, int i, carnot_dtype dtype, int rank,
                      const carnot_sym* dims);
// Output i has the dimensions of input |input| and this type.
carnot_status* carnot_infer_like(carnot_infer* infer, int i, int input,
                                 carnot_dtype dtype) CARNOT_MUST_USE;
// A dimension nobody knows before the run, in [0, max].
carnot_sym carnot_infer_unknown(carnot_infer* infer, int64_t max);
// Multidirectional broadcast of two shapes; |a| is updated. Proved conflicts are INVALID_MODEL with
// both sizes named; what cannot be decided takes the larger side (the run checks it).
carnot_status* carnot_infer_broadcast(carnot_infer* infer, carnot_type* a,
                                      const carnot_type* b) CARNOT_MUST_USE;
// One dimension shared by two operands: the more precise one; INVALID_MODEL when they are proved
// unequal.
carnot_status* carnot_infer_merge(carnot_infer* infer, carnot_sym a, carnot_sym b, const char* what,
                                  carnot_sym* out) CARNOT_MUST_USE;

// ---- for reference kernels ----

static inline const carnot_tensor* carnot_call_in(const carnot_call* call, int i) {
  return i < call->input_count && call->inputs[i] ? &call->inputs[i]->tensor : NULL;
}
static inline carnot_tensor* carnot_call_out(const carnot_call* call, int i) {
  return i < call->output_count && call->outputs[i] ? &call->outputs[i]->tensor : NULL;
}
carnot_status* carnot_call_alloc(const carnot_call* call, size_t bytes,
                                 void** out_memory) CARNOT_MUST_USE;
// Sizes output |i|: allocates where infer could not, else checks that the dimensions are those
// planned.
carnot_status* carnot_call_size_output(const carnot_call* call, int i, carnot_dtype dtype, int rank,
                                       const int64_t* dims) CARNOT_MUST_USE;
// Makes output |i| a sequence or optional of |count| items; the array is copied, the cells are
// borrowed.
carnot_status* carnot_call_set_items(const carnot_call* call, int i, carnot_value_kind kind,
                                     const carnot_rt_value* const* items,
                                     size_t count) CARNOT_MUST_USE;
// A new cell in the run's store holding a tensor with room for these dimensions.
carnot_status* carnot_call_new_tensor(const carnot_call* call, carnot_dtype dtype, int rank,
                                      const int64_t* dims,
                                      carnot_rt_value** out_cell) CARNOT_MUST_USE;
// A copy of |text| that lives as long as the run.
carnot_status* carnot_call_text(const carnot_call* call, carnot_strview text,
                                carnot_strview* out_text) CARNOT_MUST_USE;
// fn(arg, part) for every part, on the threads of the call.
void carnot_call_parallel(const carnot_call* call, int64_t part_count,
                          void (*fn)(void* arg, int64_t part), void* arg);

static inline int64_t carnot_call_int(const carnot_call* call, const char* name) {
  return carnot_attr_int(call->row, call->attrs, name);
}
static inline double carnot_call_float(const carnot_call* call, const char* name) {
  return carnot_attr_float(call->row, call->attrs, name);
}
static inline bool carnot_call_is(const carnot_call* call, const char* name, const char* text) {
  return carnot_attr_is(call->row, call->attrs, name, text);
}
static inline int64_t carnot_infer_int(const carnot_infer* infer, const char* name) {
  return carnot_attr_int(infer->row, infer->attrs, name);
}
static inline bool carnot_infer_is(const carnot_infer* infer, const char* name, const char* text) {
  return carnot_attr_is(infer->row, infer->attrs, name, text);
}

#endif  // CARNOT_IR_OP_H_
