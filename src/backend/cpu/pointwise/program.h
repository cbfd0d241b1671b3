// Pointwise programs of regions: element-wise nodes, with the conversions of their operands and
// results from and to bytes.
#ifndef CARNOT_BACKEND_CPU_POINTWISE_PROGRAM_H_
#define CARNOT_BACKEND_CPU_POINTWISE_PROGRAM_H_

#include "backend/cpu/common/cpu.h"

// Stored in engines.
typedef struct carnot_pointwise_params {
  carnot_pw_program program;
  int32_t inputs[CARNOT_PW_MAX_INPUTS];  // of the step, by input of the program
} carnot_pointwise_params;

// The carnot_pw_type that stores |dtype|; -1: none.
int carnot_pointwise_type_of(carnot_dtype dtype);
// True for an operator that becomes one instruction.
static inline bool carnot_is_pointwise_op(carnot_op op) {
  return op == CARNOT_OP_UNARY || op == CARNOT_OP_BINARY || op == CARNOT_OP_TERNARY ||
         op == CARNOT_OP_CAST;
}
// True for a quantize or dequantize node, which becomes the storage of an operand or result.
static inline bool carnot_is_conversion(const carnot_plan_node* node) {
  return node->op == CARNOT_OP_DEQUANTIZE_LINEAR || node->op == CARNOT_OP_QUANTIZE_LINEAR;
}
// Writes the program of the region to |params|, a carnot_pointwise_params, as
// carnot_cpu_prepare_params wants it. NULL, or the reason; "" when it holds another operator.
const char* carnot_pointwise_program_make(const carnot_problem* problem, void* params, char* reason,
                                          size_t size);

#endif  // CARNOT_BACKEND_CPU_POINTWISE_PROGRAM_H_
