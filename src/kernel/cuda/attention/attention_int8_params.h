// Parameters of the kernels of attention between 8-bit integers.
#ifndef CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_INT8_PARAMS_H_
#define CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_INT8_PARAMS_H_

#include "kernel/cuda/attention/attention_params.h"

// |elements| of a head, at most, and whether q, k and v begin at multiples of 16 bytes.
#define CARNOT_CUDA_ATTENTION_INT8_FORMS(X) X(32, true) X(64, true) X(128, true) X(128, false)

// The same of kernels for few keys, with the tiles of 32 keys of a warp, of which a block has up to
// CARNOT_CUDA_ATTENTION_INT8_WARPS.
#define CARNOT_CUDA_ATTENTION_INT8_SPLIT_FORMS(X) \
  X(32, 1) X(32, 2) X(32, 4) X(64, 1) X(64, 2) X(64, 4) X(128, 1) X(128, 2) X(128, 4)
enum { CARNOT_CUDA_ATTENTION_INT8_WARPS = 8 };

// One operand: |flip| turns four bytes into signed ones, of which |zero| is the zero point.
typedef struct carnot_cuda_int8_operand {
  unsigned flip;
  int zero;
} carnot_cuda_int8_operand;

// Scores to 8-bit integers and back: the bounds less the zero point; |scale| 0: not at all.
typedef struct carnot_cuda_score_rounding {
  float scale, low, high;
} carnot_cuda_score_rounding;

// The rule of tactic/problem/int8_attention.h. Softmax's result is stored less its zero point,
// 0 to |weight_high|; weight_factor: 1 / its scale.
typedef struct carnot_cuda_attention_int8_params {
  carnot_cuda_attention_params heads;  // scale 1; its result and kinds are not used
  carnot_cuda_int8_operand q, k, v;
  float score_scale;
  carnot_cuda_score_rounding scores, scaled, masked;
  int divides;
  float factor;
  float weight_factor, weight_high;
  float out_scale;
  int is_quantized, out_zero, out_low, out_high;  // else y is float32
  int in_fours;                                   // y is stored four elements at a time
} carnot_cuda_attention_int8_params;

#endif  // CARNOT_KERNEL_CUDA_ATTENTION_ATTENTION_INT8_PARAMS_H_
