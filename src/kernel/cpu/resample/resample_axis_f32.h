// Resampling along one axis by a table of taps: a pass of a separable resize of any rank.
//   dst[o,j,i] = sum_{t < taps} weight[j,t] * src[o, index[j,t], i]
// |src| [outer, in, inner] and |dst| [outer, out, inner] are dense float32 and do not overlap.
// |index|, |weight| [out, taps]; indices in [0, in). One tap is a copy: its weight is not read.
// A call computes rows [row0,row1) of outer * out. Any thread. Source: ONNX Resize-19.
#ifndef CARNOT_KERNEL_CPU_RESAMPLE_RESAMPLE_AXIS_F32_H_
#define CARNOT_KERNEL_CPU_RESAMPLE_RESAMPLE_AXIS_F32_H_

#include <stdint.h>

typedef struct carnot_resample_axis_f32 {
  int64_t in, out, inner, taps;
  const float* src;
  float* dst;
  const int32_t* index;
  const float* weight;
} carnot_resample_axis_f32;

typedef void carnot_resample_axis_f32_fn(const carnot_resample_axis_f32* axis, int64_t row0,
                                         int64_t row1);

#endif
