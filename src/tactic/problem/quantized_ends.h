// A region of one float operator between bytes, for tactics of every backend:
//   [dequantize x,] operator, [quantize y]
// The operator's first operand and its only result may be bytes; other operands are inputs of the
// step. Where the result is quantized, its float32 form may be a second output. The float result is
// quantized by the rule of QuantizeLinear, as if both were steps.
#ifndef CARNOT_TACTIC_PROBLEM_QUANTIZED_ENDS_H_
#define CARNOT_TACTIC_PROBLEM_QUANTIZED_ENDS_H_

#include "tactic/tactic.h"

// The scale and zero point of one end, inputs of the step. |scale| NONE: the end is float32;
// |zero| NONE: 0.
typedef struct carnot_quantized_end {
  uint32_t scale, zero;
} carnot_quantized_end;

typedef struct carnot_quantized_ends {
  const carnot_plan_node* node;  // the operator, borrowed from the region
  uint32_t input;                // input of the step: x, bytes or floats
  carnot_quantized_end x, y;
  uint32_t y_output;      // output of the step: the result
  uint32_t float_output;  // the result before it is quantized, where that is read too; NONE
} carnot_quantized_ends;

static inline bool carnot_is_end_bytes(const carnot_quantized_end* end) {
  return end->scale != CARNOT_PLAN_NONE;
}

// A quantize or dequantize node with one scale a tensor or channel, in float32 arithmetic.
bool carnot_is_plain_conversion(const carnot_plan_node* node);

// The scale and zero point of a quantize or dequantize |node|. False where it is not plain or they
// are no inputs of the step.
bool carnot_quantized_end_read(const carnot_plan_node* node, uint32_t input_count,
                               carnot_quantized_end* out);
// The same input of the step, or two known equal numbers.
bool carnot_is_same_number(const carnot_problem* problem, uint32_t a, uint32_t b);

// Reads |region| of a step with |input_count| inputs, whose operator others may follow before the
// quantize node. |core| borrows from it: the nodes between the conversions, and the values up to
// their result. False for other regions. |input| is NONE where the operator's first operand is no
// input of the step.
bool carnot_quantized_ends_strip(const carnot_region* region, uint32_t input_count,
                                 carnot_region* core, carnot_quantized_ends* out);
// The same of a region with one operator.
bool carnot_quantized_ends_read(const carnot_region* region, uint32_t input_count,
                                carnot_quantized_ends* out);
// For reject: ends in bytes are int8 or uint8 with one float32 scale and a zero point of their
// type, the others float32, or BF16 where the tactic takes it. NULL, or the reason.
const char* carnot_quantized_ends_check(const carnot_problem* problem,
                                        const carnot_quantized_ends* ends);

#endif  // CARNOT_TACTIC_PROBLEM_QUANTIZED_ENDS_H_
