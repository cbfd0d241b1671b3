// The view of a quantized region, for tactics of every backend: anchor, operands, scales, epilogue
// and requantization of
//   x', w' = dequantize(x), dequantize(w)
//   t      = anchor(x', w') + bias, anchor: Conv, ConvTranspose, MatMul or Gemm
//   t      = t + residual, residual = dequantize(r) or a float32 value
//   t      = activation(t)
//   y      = quantize(t), or t itself as float32
// of which bias, residual, activation and quantize may be absent. Before the residual t may be
// quantized and dequantized again, the inner quantization:
//   t      = dequantize(quantize(bound(t))), bound: absent, RELU or CLAMP
// Casts between float types may stand behind dequantize and before quantize nodes: regions of FP8
// operands in half precision have them, those of integers have none. The region keeps its
// operators, so that the reference tactic interprets it; pass form_fusion_regions makes it, and
// asks the tactics before. Everything here is computed from the region and its constants when a
// tactic is asked and when it prepares; a step keeps what it needs in its parameters.
//
// One rounding rule holds for every kernel of every ISA level and device, so that all agree to the
// bit. Sums are exact integers; operations on floats are single float32 operations, rounded to
// nearest even, none contracted.
//   sum  = sum_k (x - x_zero) * (w - w_zero) + bias_q[n]
//          bias_q[n] = rint(bias[n] / (double(x_scale) * w_scale[n])), as int32
//   integer path: y is quantized, and the activation is absent or a bound (RELU, CLAMP)
//     v  = f32(sum) * m[n],          m[n] = f32(double(x_scale) * w_scale[n] / y_scale)
//     v += f32(r - r_zero) * m_r,    m_r  = f32(double(r_scale) / y_scale)    (dequantized
//     residual) y  = min(max(rint(v) + y_zero, low), high), with rint(NaN) = 0
//          [low, high]: the range of y's type and, of a bound b, rint(f32(b / y_scale)) + y_zero
//   inner quantization: y1 as y of the integer path without a residual, then the real path from
//     v  = f32(y1 - y1_zero) * y1_scale
//   real path: everything else
//     v  = f32(sum) * m[n],          m[n] = f32(double(x_scale) * w_scale[n])
//     v += f32(r - r_zero) * r_scale, or v += r                               (residual)
//     v  = activation(v)
//     y  = v, or saturate(rint(v / y_scale) + y_zero), with rint(NaN) = 0
#ifndef CARNOT_TACTIC_PROBLEM_QUANTIZED_H_
#define CARNOT_TACTIC_PROBLEM_QUANTIZED_H_

#include "tactic/problem/epilogue.h"

// One operand of the anchor or the residual, as it is stored.
typedef struct carnot_quantized_operand {
  uint32_t value;       // input of the step: integers, or floats of an operand without scale; NONE
  uint32_t scale;       // input of the step; NONE: the operand is not quantized
  uint32_t zero_point;  // input of the step; NONE: 0
} carnot_quantized_operand;

typedef struct carnot_quantized_region {
  const carnot_plan_node* node;  // the anchor, borrowed from the region
  uint32_t anchor;               // its index
  carnot_quantized_operand x, weights, residual;
  uint32_t bias;    // input of the step: one number a channel of the result; NONE
  uint32_t offset;  // likewise of float32, added behind the inner quantization; NONE
  bool has_casts;   // it computes in half precision
  carnot_epilogue_activation activation;
  bool is_twice;                     // there is an inner quantization
  uint32_t inner_scale, inner_zero;  // inputs of the step; inner_zero NONE: 0
  carnot_dtype inner_dtype;          // U8 or I8
  carnot_epilogue_activation inner_bound;
  bool quantizes;            // the result is quantized, else it is float32
  uint32_t y_scale, y_zero;  // inputs of the step; y_zero NONE: 0
} carnot_quantized_region;

// The numbers of the rule above but those of channels, from constants.
typedef struct carnot_quantized_numbers {
  bool is_real_path;
  double x_scale, y_scale;  // y_scale 1 for a float32 result
  float residual_scale;     // what r - r_zero is multiplied with: m_r or r_scale; 1 for float32
  int32_t x_zero, residual_zero, y_zero;
  // Of the integer path, and of an inner quantization whose residual is no float32, which a bound
  // leaves; else the range of y's type.
  int32_t low, high;
  // Of an inner quantization, which makes the rest the real path.
  double inner_scale;
  int32_t inner_zero, inner_low, inner_high;
} carnot_quantized_numbers;

// Reads the region of |problem|: its nodes are those above and no others, its operands inputs of
// the step, its only result the last node's. |channel_axis|: the axis of the result that channels
// run along, from the end (1 is the last); |channels|: their number. NULL; "" when the region holds
// no dequantized operand of an anchor; else the reason.
const char* carnot_quantized_read(const carnot_problem* problem, int channel_axis, int64_t channels,
                                  carnot_quantized_region* out, char* reason, size_t size);

// Finds the anchor without reading the epilogue. NULL when there is none, else the node; *out_index
// is its index.
const carnot_plan_node* carnot_quantized_anchor(const carnot_region* region, uint32_t* out_index);
// Finds the dequantize node that makes input |input| of node |anchor|. |out| has no scale when the
// operand is no dequantized value; its value is NONE when no input of the step holds it.
carnot_quantized_operand carnot_quantized_operand_of(const carnot_region* region, uint32_t anchor,
                                                     uint32_t input, uint32_t input_count);

// The dequantize node that makes input |input| of node |anchor|, borrowed from the region; NULL:
// none.
const carnot_plan_node* carnot_quantized_dequantize(const carnot_region* region, uint32_t anchor,
                                                    uint32_t input);

// Reads the numbers. Scales must be known float32, normal and positive, and one for the tensor; x,
// r and y int8 or uint8. NULL, or the reason with the number found.
const char* carnot_quantized_read_numbers(const carnot_problem* problem,
                                          const carnot_quantized_region* region,
                                          carnot_quantized_numbers* out, char* reason, size_t size);

// Weights [any rank] of channels along |axis|: the integers less their zero points go to |out| (as
// many as the weights), the scales to |out_scales| [channels]. The weights are known int8 or uint8
// with one scale, or one for each channel. NULL, or the reason: a weight less its zero point
// exceeds int8, a scale is unfit. |out| and |out_scales| may be NULL.
const char* carnot_quantized_weights(const carnot_problem* problem,
                                     const carnot_quantized_region* region, int axis,
                                     int64_t channels, int8_t* out, float* out_scales, char* reason,
                                     size_t size);

// bias_q + shift * sum_w[n] -> |bias| [channels], in which |sum_w| [channels] is the sum of the
// weights of a channel less their zero points, of |depth| weights each. |shift| is what the
// kernel's accumulator has too much a weight: x_zero, and 128 more where it adds that to signed x;
// it is subtracted. m[n] -> |scale| [channels], in place over the weights' scales. NULL, or the
// reason: a sum may exceed int32.
const char* carnot_quantized_channels(const carnot_problem* problem,
                                      const carnot_quantized_region* region,
                                      const carnot_quantized_numbers* numbers, int64_t channels,
                                      int64_t depth, int32_t shift, const int32_t* sum_w,
                                      int32_t* bias, float* scale, char* reason, size_t size);

// The weights of a region: channels of the result along |axis| of them, each with |depth| weights.
typedef struct carnot_quantized_shape {
  int axis;
  int64_t channels, depth;
} carnot_quantized_shape;

// Checks that weights and sums fit. *out_bound (may be NULL): what no |(sum + bias[n]) m[n]|
// exceeds. NULL, or the reason.
const char* carnot_quantized_check_channels(const carnot_problem* problem,
                                            const carnot_quantized_region* region,
                                            const carnot_quantized_numbers* numbers,
                                            const carnot_quantized_shape* shape, double* out_bound,
                                            char* reason, size_t size);
// carnot_quantized_weights to |centered|, then carnot_quantized_channels over their sums to |bias|
// and |scale| [channels]. NULL, or the reason.
const char* carnot_quantized_make_channels(const carnot_problem* problem,
                                           const carnot_quantized_region* region,
                                           const carnot_quantized_numbers* numbers,
                                           const carnot_quantized_shape* shape, int32_t shift,
                                           int8_t* centered, int32_t* bias, float* scale,
                                           char* reason, size_t size);

// An inner quantization followed by a residual of bytes; the result is v / divisor, rounded.
typedef struct carnot_quantized_twice {
  int32_t inner_zero, inner_low, inner_high;
  float inner_scale;
  bool residual_signed;
  int32_t residual_zero;
  float residual_scale, divisor;
  bool folds_zero;  // the residual's zero point, into an addend
} carnot_quantized_twice;

// The addend of a residual whose zero point is folded, by the factor that was found.
static inline float carnot_quantized_residual_base(int32_t residual_zero, float residual_factor) {
  return (float)-residual_zero * residual_factor;
}
// Finds factors by which
//   rint(fma(y1 - y1_zero, *out_inner, f32(r - r_zero) * *out_residual)), or
//   rint(fma(y1 - y1_zero, *out_inner, fma(r, *out_residual, base)))  where the zero point is
//   folded
// is rint(v / divisor) for all bytes y1 and r, as far as it is a byte. False: none were found.
bool carnot_quantized_find_factors(const carnot_quantized_twice* twice, float* out_inner,
                                   float* out_residual);

#endif  // CARNOT_TACTIC_PROBLEM_QUANTIZED_H_
