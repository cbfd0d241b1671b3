// What an integer GEMM or convolution does with its finished sums (tactic/problem/quantized.h).
#ifndef CARNOT_KERNEL_CUDA_QUANTIZE_INT8_EPILOGUE_PARAMS_H_
#define CARNOT_KERNEL_CUDA_QUANTIZE_INT8_EPILOGUE_PARAMS_H_

#include "kernel/cuda/common/activation.h"

typedef enum carnot_cuda_int8_type {
  CARNOT_CUDA_INT8_NONE,  // of a residual: none
  CARNOT_CUDA_INT8_F32,
  CARNOT_CUDA_INT8_U8,
  CARNOT_CUDA_INT8_S8,
  CARNOT_CUDA_INT8_TYPES
} carnot_cuda_int8_type;

// The form says which of the code paths of int8_epilogue.cuh serves: how the sum becomes bytes.
typedef enum carnot_cuda_int8_form {
  CARNOT_CUDA_INT8_REQUANTIZE,  // as it is
  CARNOT_CUDA_INT8_RESIDUAL,    // after a residual of bytes; the divisor is 1
  CARNOT_CUDA_INT8_TWICE,       // with an inner quantization and a residual of bytes
  CARNOT_CUDA_INT8_GENERAL,     // everything
  CARNOT_CUDA_INT8_FORMS
} carnot_cuda_int8_form;

// The element behind the scales is 1 where all |sum + bias| are below this bound and all results
// before saturation too, whatever x is. Additions to 1.5 * 2^23 then convert between integers and
// floats exactly; conversion instructions run at an eighth of their rate.
enum { CARNOT_CUDA_INT8_NARROW_SUM = 1 << 22 };

//   v = f32(sum + bias[n]) * scale[n]
//   v = f32(min(max(rint(v) + inner_zero, inner_low), inner_high) - inner_zero) * inner_scale,
//       where |is_twice|, then v = v + offset[n]
//   v = v + f32(residual - residual_zero) * residual_scale   (bytes), or v + residual (f32)
//   v = activation(v)
//   y = v as f32, or min(max(rint(v / divisor) + zero_point, low), high) as u8 or s8
// Each operation is one float32 operation rounded to nearest even, none contracted. rint(NaN)
// counts as 0. Residual and result are [rows, filters], dense; |filters| is a multiple of 8. The
// forms but GENERAL have no activation and |v / divisor| <= 2^30. TWICE computes v / divisor as
// fma(inner integer, inner_factor, residual integer * residual_factor), which gives the same bytes
// for all pairs of an inner byte and a byte of the residual.
typedef struct carnot_cuda_int8_epilogue {
  int form;            // carnot_cuda_int8_form
  const int* bias;     // [filters]
  const float* scale;  // [filters], then a flag: see CARNOT_CUDA_INT8_NARROW_SUM
  const void* residual;
  int residual_type, residual_zero;
  float residual_scale;
  int is_twice, inner_zero, inner_low, inner_high;
  float inner_scale;
  const float* offset;  // [filters]; NULL: 0
  int activation;       // carnot_cuda_activation, with its parameters
  float a, b;
  int output;  // carnot_cuda_int8_type
  float divisor, inner_factor, residual_factor;
  int zero_point, low, high;
  int is_bounded;  // [low, high] is less than the range of the output's type
} carnot_cuda_int8_epilogue;

#endif  // CARNOT_KERNEL_CUDA_QUANTIZE_INT8_EPILOGUE_PARAMS_H_
