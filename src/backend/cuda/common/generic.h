// Tactics of generic kernels: one thread or block per item, dense operands of any plain type
// (kernel/cuda/common/generic.cuh).
#ifndef CARNOT_BACKEND_CUDA_COMMON_GENERIC_H_
#define CARNOT_BACKEND_CUDA_COMMON_GENERIC_H_

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/common/generic.h"

// NULL where the region is |op| alone over row-major tensors of plain types, else the reason.
// Inputs in the bit set |host| decide sizes or are constants: the tactic reads them on the host
// when shapes are set.
const char* carnot_cuda_generic_reject(carnot_problem* problem, carnot_op op, uint32_t host,
                                       char* reason, size_t size);

typedef struct carnot_cuda_generic_state {
  CUfunction function;
  int64_t count;
  bool blocks;                    // one block an item
  size_t copied;                  // bytes of input 0 that the output begins with, copied unless
                                  // both have the same address
  size_t cleared;                 // bytes of the output that are zero before
  _Alignas(8) char params[1024];  // begins with a carnot_cuda_generic_io
} carnot_cuda_generic_state;
_Static_assert(sizeof(carnot_cuda_generic_state) <= CARNOT_STATE_BYTES, "the state has its size");

// Fills the state for a generic kernel (NONE: the input is copied, no kernel runs) over |params|,
// which begins with a carnot_cuda_generic_io.
carnot_status* carnot_cuda_generic_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                         const carnot_operand* outputs,
                                         carnot_cuda_kernel_id kernel, int64_t count,
                                         const void* params, size_t bytes,
                                         carnot_cuda_generic_state* out) CARNOT_MUST_USE;
// The addresses of a run.
void carnot_cuda_generic_bind(const carnot_step_view* step, const carnot_operand* inputs,
                              const carnot_operand* outputs, void* workspace,
                              carnot_cuda_generic_io* io);
carnot_status* carnot_cuda_generic_run(const carnot_step_view* step, void* state,
                                       const carnot_operand* inputs, const carnot_operand* outputs,
                                       void* workspace, carnot_executor* executor) CARNOT_MUST_USE;

// Input |i| where the step has it, else an absent one.
const carnot_operand* carnot_cuda_optional(const carnot_step_view* step,
                                           const carnot_operand* inputs, uint32_t i);
// Output |i| of the node where the step has it, else an absent one.
const carnot_operand* carnot_cuda_output(const carnot_step_view* step,
                                         const carnot_operand* outputs, uint32_t i);
static inline const carnot_plan_node* carnot_cuda_node_of(const carnot_step_view* step) {
  return &step->region->nodes[0];
}
static inline int64_t carnot_cuda_step_attr(const carnot_step_view* step, const char* name) {
  const carnot_plan_node* node = carnot_cuda_node_of(step);
  return carnot_attr_int(carnot_op_get(node->op), &node->attrs, name);
}
static inline int64_t carnot_cuda_count(const carnot_operand* t) {
  return t->format.dtype ? carnot_dims_count(t->dims, t->rank) : 0;
}
// An operand of a kernel: on the device, of |wanted| elements, or absent.
carnot_status* carnot_cuda_expect(const carnot_operand* t, const char* what,
                                  int64_t wanted) CARNOT_MUST_USE;
// An operand of indices: integers on the device.
carnot_status* carnot_cuda_check_index(const carnot_operand* t) CARNOT_MUST_USE;
// |x|, |updates| and result |y| are in device memory; x and y have the same type and dimensions,
// updates have their type.
carnot_status* carnot_cuda_check_copied(const carnot_operand* x, const carnot_operand* updates,
                                        const carnot_operand* y) CARNOT_MUST_USE;
// Attributes of the step's only node.
typedef struct carnot_cuda_attrs {
  const carnot_op_row* row;
  const carnot_attrs* attrs;
} carnot_cuda_attrs;
static inline carnot_cuda_attrs carnot_cuda_attrs_of(const carnot_step_view* step) {
  const carnot_plan_node* node = &step->region->nodes[0];
  return (carnot_cuda_attrs){carnot_op_get(node->op), &node->attrs};
}
static inline int64_t carnot_cuda_attr(const carnot_cuda_attrs* a, const char* name) {
  return carnot_attr_int(a->row, a->attrs, name);
}
// The axis of attribute |name|, counted from 0.
carnot_status* carnot_cuda_axis(const carnot_step_view* step, const char* name, int rank,
                                int* out_axis) CARNOT_MUST_USE;
// One number of a host operand.
carnot_status* carnot_cuda_host_number(const carnot_operand* operand, int64_t at,
                                       double* out) CARNOT_MUST_USE;

// Which of |words| the text attribute |name| is; |count| for none.
static inline int carnot_cuda_attr_word(const carnot_cuda_attrs* a, const char* name,
                                        const char* const* words, int count) {
  int at = 0;
  while (at < count && !carnot_attr_is(a->row, a->attrs, name, words[at])) at++;
  return at;
}

// The config of a tactic of one operator that any plain type and rank fits.
typedef struct carnot_cuda_generic_config {
  uint32_t host_inputs;  // bit set: inputs that the tactic reads on the host
} carnot_cuda_generic_config;
// The reject function of such tactics: carnot_cuda_generic_reject for the tactic's anchor, with the
// host inputs of its config (NULL: none).
const char* carnot_cuda_generic_op_reject(carnot_problem* problem, char* reason, size_t size);

#define CARNOT_CUDA_GENERIC_FIELDS(text, op, shape_fn)                                             \
  .name = text, .anchor = op, .numerics = CARNOT_NUMERICS_EXACT, .device = true, .fallback = true, \
  .configure = shape_fn, .run = carnot_cuda_generic_run
// A tactic whose reject function is its own.
#define CARNOT_CUDA_GENERIC_TACTIC(variable, text, op, reject_fn, shape_fn)                     \
  const carnot_tactic carnot_cuda_##variable = {CARNOT_CUDA_GENERIC_FIELDS(text, op, shape_fn), \
                                                .reject = reject_fn}

// A tactic of one operator by <family>_shape. |host|: bit set of its host inputs.
#define CARNOT_CUDA_GENERIC_HOST_OP_TACTIC(family, text, OP, host)      \
  const carnot_tactic carnot_cuda_##family = {                          \
      CARNOT_CUDA_GENERIC_FIELDS(text, CARNOT_OP_##OP, family##_shape), \
      .reject = carnot_cuda_generic_op_reject,                          \
      .config = &(const carnot_cuda_generic_config){.host_inputs = host}}
// The same without host inputs.
#define CARNOT_CUDA_GENERIC_OP_TACTIC(family, text, OP) \
  CARNOT_CUDA_GENERIC_HOST_OP_TACTIC(family, text, OP, /*host=*/0)

#endif  // CARNOT_BACKEND_CUDA_COMMON_GENERIC_H_
