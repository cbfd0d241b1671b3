// A function of one byte, for tactics of every backend: element-wise operators between dequantize
// nodes of one 8-bit operand and the quantize node of the result, whose other operands are known
// single numbers. It has 256 values, which the reference operators compute when a tactic prepares.
#ifndef CARNOT_TACTIC_PROBLEM_BYTE_FUNCTION_H_
#define CARNOT_TACTIC_PROBLEM_BYTE_FUNCTION_H_

#include "tactic/tactic.h"

enum { CARNOT_BYTE_VALUES = 256 };

// *out_x: the input of the step that holds the operand. NULL, or the reason; "" for other regions.
const char* carnot_byte_function_read(const carnot_problem* problem, uint32_t* out_x);
// The results for the bytes 0, 1, .. 255 of the operand |x|, as they are stored.
carnot_status* carnot_byte_function_table(const carnot_problem* problem, uint32_t x,
                                          uint8_t table[CARNOT_BYTE_VALUES]) CARNOT_MUST_USE;

// ---- tactics that look values up ----

// reject: result and operand have one layout.
const char* carnot_byte_function_reject(carnot_problem* problem, char* reason, size_t size);
// prepare: the table is constant 0, the input of the operand the only parameter.
carnot_status* carnot_byte_function_prepare(const carnot_problem* problem,
                                            carnot_prepared* out) CARNOT_MUST_USE;
carnot_status* carnot_byte_function_validate(const carnot_step_view* step) CARNOT_MUST_USE;
// The input that holds the operand of a prepared step.
uint32_t carnot_byte_function_operand(const carnot_step_view* step);
bool carnot_byte_function_uses_input(const carnot_step_view* step, uint32_t input);
// *out: the number of elements, which lie the same in both and without gaps. INVALID_MODEL for
// other types, INVALID_ARGUMENT for other strides.
carnot_status* carnot_byte_function_count(const carnot_operand* x, const carnot_operand* y,
                                          int64_t* out) CARNOT_MUST_USE;

#endif  // CARNOT_TACTIC_PROBLEM_BYTE_FUNCTION_H_
