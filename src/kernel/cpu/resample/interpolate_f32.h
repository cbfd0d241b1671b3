// Weighted elements of an image, channels last: one output pixel of GridSample or RoiAlign.
//   interpolate_f32:     dst[c] = sum_{r,s} rows[r].weight * columns[s].weight * src(r,s,c)
//   interpolate_max_f32: dst[c] = the largest of |least| and, for all r and s, both of
//                  rows[r].weight * columns[s].weight * src(r,s,c) and the same of .low; NaN wins
// with src(r,s,c) = src[rows[r].offset + columns[s].offset + c], c < channels. Without taps the sum
// is 0. |dst| may not overlap |src|. Any thread. Source: ONNX RoiAlign-22, GridSample-22.
#ifndef CARNOT_KERNEL_CPU_RESAMPLE_INTERPOLATE_F32_H_
#define CARNOT_KERNEL_CPU_RESAMPLE_INTERPOLATE_F32_H_

#include <stdint.h>

typedef struct carnot_tap {
  int64_t offset;
  float weight, low;  // of interpolate_max: the largest and the smallest weight of an element
} carnot_tap;

typedef struct carnot_interpolate_f32 {
  int64_t channels;
  const float* src;
  int64_t row_count, column_count;
  const carnot_tap *rows, *columns;
  float least;  // of interpolate_max
} carnot_interpolate_f32;

typedef void carnot_interpolate_f32_fn(const carnot_interpolate_f32* interpolate, float* dst);
typedef void carnot_interpolate_max_f32_fn(const carnot_interpolate_f32* interpolate, float* dst);

#endif
