// Softmax and its logarithm along one axis.
//   softmax:     dst = exp(x - m) / s,   m = max over the axis, s = sum of exp(x - m)
//   log_softmax: dst = x - m - log(s)
// |src|, |dst| [outer, n, inner], the inner elements side by side; element (o,i,j) at
// o * outer_stride + i * axis_stride + j. With inner = 1 the axis must be contiguous (stride 1).
// A call computes outer rows [o0,o1). dst may be src. A NaN makes its whole row NaN. Any thread.
// Source: ONNX Softmax-13, LogSoftmax-13.
#ifndef CARNOT_KERNEL_CPU_NORM_SOFTMAX_F32_H_
#define CARNOT_KERNEL_CPU_NORM_SOFTMAX_F32_H_

#include <stdint.h>

typedef struct carnot_softmax_f32 {
  int64_t n, inner;
  const float* src;
  int64_t src_outer, src_axis;
  float* dst;
  int64_t dst_outer, dst_axis;
} carnot_softmax_f32;

typedef void carnot_softmax_f32_fn(const carnot_softmax_f32* softmax, int64_t o0, int64_t o1);
typedef void carnot_log_softmax_f32_fn(const carnot_softmax_f32* softmax, int64_t o0, int64_t o1);

#endif
