// Normalization of rows.
//   layer norm: dst[i,j] = (x[i,j] - mean_i) * inv_i * scale[j] + bias[j],
//               mean_i = sum_j x[i,j] / n,  inv_i = 1 / sqrt(sum_j (x[i,j] - mean_i)^2 / n +
//               epsilon)
//   RMS norm:   dst[i,j] = x[i,j] * inv_i * scale[j] + bias[j],
//               inv_i = 1 / sqrt(sum_j x[i,j]^2 / n + epsilon)
// |src|, |dst| rows of n floats, |src_ld|, |dst_ld| apart; dst may be src  |scale|, |bias| [n] or
// NULL  |mean|, |inv| [rows] or NULL, where the statistics are wanted too
// A call computes rows [row0,row1). Sums in blocks, variance in a second pass. Any thread.
// Source: ONNX LayerNormalization-17, RMSNormalization-23.
#ifndef CARNOT_KERNEL_CPU_NORM_ROW_NORM_F32_H_
#define CARNOT_KERNEL_CPU_NORM_ROW_NORM_F32_H_

#include <stdint.h>

typedef struct carnot_row_norm_f32 {
  int64_t n;
  const float* src;
  int64_t src_ld;
  float* dst;
  int64_t dst_ld;
  const float *scale, *bias;
  float epsilon;
  float *mean, *inv;
} carnot_row_norm_f32;

typedef void carnot_layer_norm_f32_fn(const carnot_row_norm_f32* norm, int64_t row0, int64_t row1);
typedef void carnot_rms_norm_f32_fn(const carnot_row_norm_f32* norm, int64_t row0, int64_t row1);

#endif
