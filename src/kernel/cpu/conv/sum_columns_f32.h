// Sums of shifted columns: what is left of a convolution whose filter columns were computed as
// channels of their own.
//   dst[q,k] = activation(bias[k] + sum_{s < S} src[q + s * dilation, s * K + k])
// |src| [Q + (S - 1) * dilation, S * K], rows |src_ld| floats apart  |dst| [Q,K], rows |dst_ld|
// floats apart, not overlapping src  |bias| [K] or NULL. Any thread.
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
} carnot_sum_columns_f32;

typedef void carnot_sum_columns_f32_fn(const carnot_sum_columns_f32* p);

#endif
