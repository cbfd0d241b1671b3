// Attention between 8-bit integers, for tactics of every backend: views of the heads, and the
// numbers of
//   s = f32(sum_c (q - q_zero) (k - k_zero)) * score_scale
//   with |rounds_scores|: s = f32(clamp(rint(s) + scores.zero) - scores.zero) * scores.scale
//   s = s * factor, or s / factor with |divides|
//   with |rounds_scaled|: s = dequantize(quantize(s)) by |scaled|
//   s = s + mask
//   with |rounds_masked|: s = dequantize(quantize(s)) by |masked|
//   p = quantize(softmax(s))
//   y = f32(sum_j (p - p_zero) (v - v_zero)) * out_scale
//   with |is_quantized|: y = clamp(rint(y) + out.zero)
// clamp: to the range of the type. Sums are exact integers; operations on floats are float32
// operations rounded to nearest even, none contracted; rint(NaN) counts as 0. Source: ONNX
// MatMul-13, Softmax-13, QuantizeLinear-13.
#ifndef CARNOT_TACTIC_PROBLEM_INT8_ATTENTION_H_
#define CARNOT_TACTIC_PROBLEM_INT8_ATTENTION_H_

#include "tactic/problem/attention.h"

// Elements of a head: sums of their products fit in int32.
enum { CARNOT_INT8_ATTENTION_MOST_ELEMENTS = 32768 };

// Scale, zero point and signedness of quantized values.
typedef struct carnot_quantized_type {
  float scale;
  int32_t zero, is_signed;
} carnot_quantized_type;

// Stored in engines.
typedef struct carnot_int8_attention {
  carnot_attention_params views;
  carnot_quantized_type q, k, v, scores, scaled, masked, weights, out;
  int32_t rounds_scores, rounds_scaled, rounds_masked, is_quantized;
  int32_t divides;
  float factor;
} carnot_int8_attention;

// score_scale and out_scale of the rule.
typedef struct carnot_int8_attention_scales {
  float scores, out;
} carnot_int8_attention_scales;

// Reads the region: NULL, or why it is none.
const char* carnot_int8_attention_read(const carnot_problem* problem, carnot_int8_attention* out,
                                       char* reason, size_t size);
carnot_int8_attention_scales carnot_int8_attention_scales_of(const carnot_int8_attention* p);
// validate: parameters of the right size, zero points of their types.
carnot_status* carnot_int8_attention_validate(const carnot_step_view* step) CARNOT_MUST_USE;
// uses_input: whether the step reads input |input|; conversions are read at build.
bool carnot_int8_attention_uses_input(const carnot_step_view* step, uint32_t input);
// INVALID_MODEL unless operands and result have their types.
carnot_status* carnot_int8_attention_check_types(const carnot_int8_attention* p,
                                                 const carnot_operand* inputs,
                                                 const carnot_operand* y) CARNOT_MUST_USE;
// INVALID_ARGUMENT for more elements than sums fit in int32.
carnot_status* carnot_int8_attention_check_elements(const carnot_heads* q) CARNOT_MUST_USE;

// The least integer of a type.
static inline int32_t carnot_quantized_low(const carnot_quantized_type* t) {
  return t->is_signed ? -128 : 0;
}
static inline carnot_dtype carnot_quantized_dtype(const carnot_quantized_type* t) {
  return t->is_signed ? CARNOT_DTYPE_I8 : CARNOT_DTYPE_U8;
}

#endif  // CARNOT_TACTIC_PROBLEM_INT8_ATTENTION_H_
