// The mean over all spatial axes between quantized values, for tactics of every backend:
//   sum = sum of the integers of a channel of an image, n of them, exact in int32
//   y   = min(max(rint(f32(sum - n * x_zero) * m) + y_zero, low), high), with rint(NaN) = 0
//         m = f32(double(x_scale) / (n * double(y_scale))), [low, high] the range of y's type
// or, where the result is not quantized, y = f32(sum - n * x_zero) * m with a y_scale of 1.
#ifndef CARNOT_TACTIC_PROBLEM_QUANTIZED_MEAN_H_
#define CARNOT_TACTIC_PROBLEM_QUANTIZED_MEAN_H_

#include "tactic/tactic.h"

enum { CARNOT_QUANTIZED_MEAN_ELEMENTS = 1 << 22 };  // of a sum, at most

// Stored in engines.
typedef struct carnot_quantized_mean {
  int32_t x;  // input of the step
  int32_t x_zero, y_zero, x_signed, y_signed, y_float;
  float x_scale, y_scale;
} carnot_quantized_mean;

// Reads the region [dequantize, reduce to the mean, quantize], of which the last may be absent.
// NULL, or the reason; "" for other regions.
const char* carnot_quantized_mean_read(const carnot_problem* problem, carnot_quantized_mean* out);
// m of a mean of |n| elements.
static inline float carnot_quantized_mean_scale(const carnot_quantized_mean* mean, int64_t n) {
  return (float)((double)mean->x_scale / ((double)n * (double)mean->y_scale));
}
// Checks stored parameters. INVALID_MODEL.
carnot_status* carnot_quantized_mean_validate(const carnot_step_view* step) CARNOT_MUST_USE;
// Checks types and sizes of the operands, and that x is dense in |layout|. INVALID_MODEL,
// INVALID_ARGUMENT.
carnot_status* carnot_quantized_mean_check(const carnot_quantized_mean* mean,
                                           const carnot_operand* x, const carnot_operand* y,
                                           carnot_layout layout) CARNOT_MUST_USE;

#endif  // CARNOT_TACTIC_PROBLEM_QUANTIZED_MEAN_H_
