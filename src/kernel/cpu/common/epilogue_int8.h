// What an integer GEMM or convolution does with its finished sums, element (m,n), n a channel.
//   v = f32(sum + bias[n]) * scale[n]
//   v = f32(min(max(rint(v), inner_low), inner_high)) * inner_scale      (the inner quantization)
//   v = v + offset[n]                                                    (f32 results)
//   v = v + f32(residual - residual_zero) * residual_scale      (bytes), or v + residual (f32)
//   v = activation(v)
//   dst = v as f32, or min(max(rint(v / divisor) + zero_point, low), high) as u8 or s8, or
//         sum + bias itself as s32
// With |range|, of f32 results: range[0][lane] = min(range[0][lane], dst), range[1][lane] =
// max(..), in any lane; NaN says nothing. The caller sets all of it to 0 and combines the lanes.
// Each operation is one float32 operation rounded to nearest even, none contracted, so that every
// ISA level gives the same bits. rint(NaN) counts as 0. Plain data; borrows its pointers for the
// call.
#ifndef CARNOT_KERNEL_CPU_COMMON_EPILOGUE_INT8_H_
#define CARNOT_KERNEL_CPU_COMMON_EPILOGUE_INT8_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/common/epilogue_f32.h"

typedef enum carnot_int8_output {
  CARNOT_INT8_OUTPUT_S32,
  CARNOT_INT8_OUTPUT_F32,
  CARNOT_INT8_OUTPUT_U8,
  CARNOT_INT8_OUTPUT_S8,
  CARNOT_INT8_OUTPUT_COUNT
} carnot_int8_output;

typedef enum carnot_int8_residual {
  CARNOT_INT8_RESIDUAL_NONE,
  CARNOT_INT8_RESIDUAL_F32,
  CARNOT_INT8_RESIDUAL_U8,
  CARNOT_INT8_RESIDUAL_S8,
  CARNOT_INT8_RESIDUAL_COUNT
} carnot_int8_residual;

enum { CARNOT_INT8_RANGE_LANES = 16 };

typedef struct carnot_int8_epilogue {
  const int32_t* bias;  // [N] or NULL
  const float* scale;   // [N]; unused for s32
  carnot_int8_residual residual_type;
  const void* residual;  // rows |residual_ld| elements apart; unused without residual
  int64_t residual_ld;
  float residual_scale;  // of bytes
  int32_t residual_zero;
  const float* offset;  // [N] or NULL
  float* range;         // [2][CARNOT_INT8_RANGE_LANES] of this call alone, or NULL
  bool is_twice;        // there is an inner quantization
  float inner_scale;
  int32_t inner_low, inner_high;  // less the inner zero point
  carnot_kernel_activation activation;
  float a, b;  // parameters of the activation
  carnot_int8_output output;
  float divisor;  // of u8 and s8 results, like what follows
  int32_t zero_point;
  int32_t low, high;
  // Of u8 and s8 results without activation, divisor and float32 residual: the results before their
  // zero point are below 2^30 in magnitude, so that they are rounded to integers at once. With an
  // inner quantization and its divisor likewise, if the bytes are those of
  //   v = fma(inner integer, inner_factor, fma(f32(residual), residual_factor, residual_base))
  bool is_small;
  float inner_factor, residual_factor, residual_base;
} carnot_int8_epilogue;

#endif
