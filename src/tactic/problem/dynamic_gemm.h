// A GEMM or convolution by integer weights whose activations are quantized in the run, for tactics
// of every backend:
//   [q, x_scale, x_zero = dynamic_quantize_linear(x)]
//   y = activation(f32(matmul_integer(q, w, x_zero, w_zero)) * (x_scale * w_scale) [+ bias]
//                  [+ residual])
//   [y_q, y_scale, y_zero = dynamic_quantize_linear(y)]
// with conv_integer in place of matmul_integer for a convolution.
// Each operation on floats is one float32 operation rounded to nearest even; sums are exact int32.
#ifndef CARNOT_TACTIC_PROBLEM_DYNAMIC_GEMM_H_
#define CARNOT_TACTIC_PROBLEM_DYNAMIC_GEMM_H_

#include "tactic/problem/epilogue.h"

// Inputs of the step, and what it makes of the sums.
typedef struct carnot_dynamic_gemm {
  bool quantizes;            // |x| is float32 and quantized in the step
  uint32_t x;                // q, or x
  uint32_t x_scale, x_zero;  // of q; NONE where the step quantizes. |x_zero| NONE: 0
  uint32_t weights, w_zero;  // [K,N], or [N,C,window]; |w_zero| NONE: 0
  uint32_t w_scale;          // known float32: one, or one a column or output channel
  uint32_t bias;             // constant float32, one a column or output channel; NONE
  uint32_t residual;         // float32 of the result's dimensions; NONE
  carnot_epilogue_activation activation;
  // Outputs of the step: y first, if |writes_y|; behind it, if |quantizes_y|, y_q with its scale
  // and zero point.
  bool writes_y, quantizes_y;
} carnot_dynamic_gemm;

// Reads the region of |op|, MATMUL_INTEGER or CONV_INTEGER. NULL, or the reason; "" for other
// regions. Types and sizes of x and weights are not checked.
const char* carnot_dynamic_gemm_read(const carnot_problem* problem, carnot_op op,
                                     carnot_dynamic_gemm* out);

#endif  // CARNOT_TACTIC_PROBLEM_DYNAMIC_GEMM_H_
