// Sums of shifted columns: the last step of a convolution whose filter columns were computed as
// channels of their own.
//   dst[k,q] = activation(bias[k] + sum_{s < S} src[q + s * dilation, s * K + k])
// |src| [Q + (S - 1) * dilation, S * K], rows |src_ld| floats apart  |dst| [K,Q], rows |dst_ld|
// floats apart, not overlapping src  |bias| [K] or NULL  |scratch| carnot_sum_columns_scratch
// floats, for this call alone. Any thread.
#ifndef CARNOT_KERNEL_CPU_CONV_SUM_COLUMNS_F32_H_
#define CARNOT_KERNEL_CPU_CONV_SUM_COLUMNS_F32_H_

#include <stdint.h>

#include "kernel/cpu/common/epilogue_f32.h"

typedef struct carnot_sum_columns_f32 {
  int64_t q, k, s, dilation;
  const float* src;
  int64_t src_ld;
  float* dst;
  int64_t dst_ld;
  carnot_epilogue_f32 epilogue;  // bias and activation
  float* scratch;
} carnot_sum_columns_f32;

enum { CARNOT_SUM_COLUMNS_SPAN = 256 };  // pixels that are transposed at a time

// Floats from one transposed column to the next.
static inline int64_t carnot_sum_columns_ld(const carnot_sum_columns_f32* p) {
  return CARNOT_SUM_COLUMNS_SPAN + (p->s - 1) * p->dilation;
}

static inline int64_t carnot_sum_columns_scratch(const carnot_sum_columns_f32* p) {
  return carnot_sum_columns_ld(p) * p->s * p->k;
}

typedef void carnot_sum_columns_f32_fn(const carnot_sum_columns_f32* p);

#endif
