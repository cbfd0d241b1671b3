// Rows of rare layers: one thread or block an item, dense operands of any plain type
// (kernel/cuda/any.cuh).
#ifndef CARNOT_BACKEND_CUDA_EACH_H_
#define CARNOT_BACKEND_CUDA_EACH_H_

#include "backend/cuda/rows.h"

// The region is |op| alone over row-major tensors of plain types; NULL, or why not. Inputs by the
// bits of |host| decide sizes or are constants: the row reads them when shapes are set.
const char* carnot_cuda_each_reject(carnot_problem* problem, carnot_op op, uint32_t host,
                                    char* reason, size_t size);

typedef struct carnot_cuda_each {
  CUfunction function;
  int64_t count;
  bool blocks;                    // one block an item
  size_t copied;                  // bytes of input 0 that the output begins with
  size_t cleared;                 // bytes of the output that are zero before
  _Alignas(8) char params[1024];  // begins with a carnot_cuda_io
} carnot_cuda_each;
_Static_assert(sizeof(carnot_cuda_each) <= CARNOT_STATE_BYTES, "the state has its size");

// Fills the state for kernel any_<name> (NULL: none, the input is copied alone) over |params|,
// which begins with |io|.
carnot_status* carnot_cuda_each_shape(const carnot_step_view* step, const carnot_operand* inputs,
                                      const carnot_operand* outputs, const char* name,
                                      int64_t count, const void* params, size_t bytes,
                                      carnot_cuda_each* out) CARNOT_MUST_USE;
// The addresses of a run.
void carnot_cuda_each_point(const carnot_step_view* step, const carnot_operand* inputs,
                            const carnot_operand* outputs, void* workspace, carnot_cuda_io* io);
carnot_status* carnot_cuda_each_run(const carnot_step_view* step, void* state,
                                    const carnot_operand* inputs, const carnot_operand* outputs,
                                    void* workspace, carnot_executor* executor) CARNOT_MUST_USE;

// Input |i| where the step has it, else an absent one.
const carnot_operand* carnot_cuda_optional(const carnot_step_view* step,
                                           const carnot_operand* inputs, uint32_t i);
// Output |i| of the node where the step has it, else an absent one.
const carnot_operand* carnot_cuda_output(const carnot_step_view* step,
                                         const carnot_operand* outputs, uint32_t i);
static inline int64_t carnot_cuda_count(const carnot_operand* t) {
  return t->format.dtype ? carnot_dims_count(t->dims, t->rank) : 0;
}
// An operand of a kernel: on the device, of |wanted| elements, or absent.
carnot_status* carnot_cuda_expect(const carnot_operand* t, const char* what,
                                  int64_t wanted) CARNOT_MUST_USE;
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
carnot_status* carnot_cuda_number_of(const carnot_operand* operand, int64_t at,
                                     double* out) CARNOT_MUST_USE;

#define CARNOT_CUDA_EACH_ROW(variable, text, op, reject_fn, shape_fn)              \
  const carnot_tactic carnot_cuda_##variable = {.name = text,                      \
                                                .anchor = op,                      \
                                                .numerics = CARNOT_NUMERICS_EXACT, \
                                                .device = true,                    \
                                                .fallback = true,                  \
                                                .reject = reject_fn,               \
                                                .configure = shape_fn,             \
                                                .run = carnot_cuda_each_run}

// A row of one operator without host operands: its reject is the general one.
#define CARNOT_CUDA_PLAIN_ROW(family, text, OP)                                            \
  static const char* family##_reject(carnot_problem* problem, char* reason, size_t size) { \
    return carnot_cuda_each_reject(problem, CARNOT_OP_##OP, 0, reason, size);              \
  }                                                                                        \
  CARNOT_CUDA_EACH_ROW(family##_row, text, CARNOT_OP_##OP, family##_reject, family##_shape)

#endif  // CARNOT_BACKEND_CUDA_EACH_H_
