// What the tactics of all families share.
#ifndef CARNOT_BACKEND_CUDA_COMMON_TACTIC_H_
#define CARNOT_BACKEND_CUDA_COMMON_TACTIC_H_

#include "backend/cuda/driver/cuda.h"
#include "kernel/cuda/common/activation.h"
#include "kernel/cuda/common/params.h"
#include "tactic/problem/epilogue.h"

// All tactics, fastest first within an operator.
const carnot_tactic* const* carnot_cuda_tactics(size_t* out_count);

// reject: writes the reason and returns it.
const char* carnot_cuda_reject_reason(char* reason, size_t size, const char* format, ...)
    CARNOT_PRINTF(3, 4);
// The type's name in device code ("f32", "bf16"); NULL where it has none.
const char* carnot_cuda_type(carnot_dtype dtype);
static inline bool carnot_cuda_is_float(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F32 || dtype == CARNOT_DTYPE_F16 || dtype == CARNOT_DTYPE_BF16;
}
// Plain kernels compute in float64 as well.
static inline bool carnot_cuda_is_real(carnot_dtype dtype) {
  return carnot_cuda_is_float(dtype) || dtype == CARNOT_DTYPE_F64;
}
// NULL when |t| is a tensor of float32, float16 or bfloat16; or of float64 besides.
const char* carnot_cuda_not_float(const carnot_operand_desc* t, char* reason, size_t size);
const char* carnot_cuda_not_real(const carnot_operand_desc* t, char* reason, size_t size);
// The region is |op| alone.
static inline bool carnot_cuda_is_single(const carnot_problem* problem, carnot_op op) {
  return problem->region->node_count == 1 && problem->region->nodes[0].op == op;
}
static inline bool carnot_cuda_is_fn(const carnot_plan_node* node, carnot_fn fn) {
  return (node->op == CARNOT_OP_UNARY || node->op == CARNOT_OP_BINARY) &&
         carnot_attr_int(carnot_op_get(node->op), &node->attrs, "fn") == (int64_t)fn;
}
static inline bool carnot_cuda_is_half(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F16 || dtype == CARNOT_DTYPE_BF16;
}
// The activations of carnot_fused_activation that the kernels apply in registers: a bit set for
// carnot_epilogue_mask.
#define CARNOT_CUDA_FUSED_ACTIVATIONS                                                       \
  (CARNOT_FUSED_BIT(RELU) | CARNOT_FUSED_BIT(CLAMP) | CARNOT_FUSED_BIT(SIGMOID) |           \
   CARNOT_FUSED_BIT(SILU) | CARNOT_FUSED_BIT(HARD_SIGMOID) | CARNOT_FUSED_BIT(HARD_SWISH) | \
   CARNOT_FUSED_BIT(GELU_ERF) | CARNOT_FUSED_BIT(GELU_TANH))
// An activation as the kernels take it.
typedef struct carnot_cuda_epilogue {
  carnot_cuda_activation kind;
  float low, high;
} carnot_cuda_epilogue;
// Kind NONE for an activation that the kernels lack.
carnot_cuda_epilogue carnot_cuda_epilogue_from(const carnot_epilogue_activation* activation);
// The activation that |node| computes; kind NONE when it is none, or one that the kernels lack.
carnot_cuda_epilogue carnot_cuda_epilogue_of(const carnot_plan_node* node);
// Inputs from |first| on decide sizes only: the tactic reads them on the host when shapes are
// set.
static inline void carnot_cuda_keep_on_host(carnot_problem* problem, uint32_t first) {
  for (uint32_t i = first; i < problem->input_count; i++) {
    problem->inputs[i].format.memory = CARNOT_MEMORY_HOST;
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  }
}
static inline void carnot_cuda_want_row_major(carnot_problem* problem) {
  for (uint32_t i = 0; i < problem->input_count; i++)
    problem->inputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < problem->output_count; i++)
    problem->outputs[i].format.layout = CARNOT_LAYOUT_ROW_MAJOR;
}
// Elements without gaps, row major or channels last, at a multiple of 16 bytes.
bool carnot_cuda_is_dense(const carnot_operand* t, bool channels_last);
// Elements from one row of the innermost axis to the next, 0 where rows are not evenly apart, or
// are neither dense nor begin at multiples of 16 bytes.
int64_t carnot_cuda_row_pitch(const carnot_operand* t, bool channels_last);
// An operand of the device at the sizes that the build is for, nowhere yet.
carnot_operand carnot_cuda_operand_of(const carnot_operand_desc* t, carnot_layout layout);
// The integers of a small host operand; *out_count -1 when it is absent.
carnot_status* carnot_cuda_ints(const carnot_operand* operand, int64_t* out, int capacity,
                                int* out_count) CARNOT_MUST_USE;
// Checks that every operand is in device memory, or absent. INVALID_MODEL.
carnot_status* carnot_cuda_on_device(const carnot_operand* operands,
                                     uint32_t count) CARNOT_MUST_USE;
// Dense, channels innermost, at 16 bytes; of three or more dimensions.
bool carnot_cuda_is_channels_last(const carnot_operand* t);
static inline int carnot_cuda_bytes(const carnot_operand* t) {
  return carnot_dtype_bits(t->format.dtype) / 8;
}

// Threads of a block that reduces a row of |size| elements: four elements each, 1024 threads at
// most.
static inline unsigned carnot_cuda_row_threads(int64_t size) {
  unsigned threads = 32;
  while (threads < size / 4 && threads < 1024) threads *= 2;
  return threads;
}
// Attribute "axis" of |node|, counted from 0.
static inline int64_t carnot_cuda_node_axis(const carnot_plan_node* node, int rank) {
  int64_t axis = carnot_attr_int(carnot_op_get(node->op), &node->attrs, "axis");
  return axis < 0 ? axis + rank : axis;
}

#endif  // CARNOT_BACKEND_CUDA_COMMON_TACTIC_H_
