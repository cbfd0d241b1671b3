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

#endif  // CARNOT_TACTIC_PROBLEM_BYTE_FUNCTION_H_
