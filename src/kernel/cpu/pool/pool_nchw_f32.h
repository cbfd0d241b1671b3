// Pooling over windows of any rank, dense planes with the last dimension innermost.
//   max:     dst[plane, o..] = max over the window's elements inside the input; NaN if one is
//   average: dst[plane, o..] = sum over the same elements / count
// count is the number of those elements, or with |include_padding| of the window's elements inside
// the input and its padding. A window without an element gives -inf, an average of none 0.
// |src| [planes, in..]  |dst| [planes, out..], not overlapping. A call computes rows [row0,row1) of
// the planes' rows, out[rank-1] numbers each, with carnot_pool_nchw_line floats of |line| to
// itself. Any thread. Source: ONNX MaxPool-12, AveragePool-19.
#ifndef CARNOT_KERNEL_CPU_POOL_POOL_NCHW_F32_H_
#define CARNOT_KERNEL_CPU_POOL_POOL_NCHW_F32_H_

#include <stdbool.h>
#include <stdint.h>

enum { CARNOT_POOL_NCHW_RANK = 6, CARNOT_POOL_NCHW_LINES = 8 };

// Along one dimension; the padding at the end only counts.
typedef struct carnot_pool_axis {
  int64_t in, out, kernel, stride, dilation, pad, pad_end;
} carnot_pool_axis;

typedef struct carnot_pool_nchw_f32 {
  int rank;  // from 1 on
  carnot_pool_axis axes[CARNOT_POOL_NCHW_RANK];
  bool include_padding;
  const float* src;
  float* dst;
} carnot_pool_nchw_f32;

// What a line holds of the last dimension |a|: zeros or the like before the input, the input, and
// as many behind it as windows and whole vectors reach.
static inline int64_t carnot_pool_nchw_line_left(const carnot_pool_axis* a) {
  return a->pad > 0 ? a->pad : 0;
}
static inline int64_t carnot_pool_nchw_line_width(const carnot_pool_axis* a) {
  enum { kWidestRead = 64 };  // two vectors from the last window on
  const int64_t left = carnot_pool_nchw_line_left(a), input_end = left + a->in;
  const int64_t end = left - a->pad + (a->out - 1) * a->stride + (a->kernel - 1) * a->dilation + 1;
  return (end > input_end ? end : input_end) + kWidestRead;
}
// Lines of several rows, and for each result of one a count and a factor.
static inline int64_t carnot_pool_nchw_lines(const carnot_pool_axis* a) {
  return CARNOT_POOL_NCHW_LINES * carnot_pool_nchw_line_width(a) + 2 * a->out;
}

typedef void carnot_max_pool_nchw_f32_fn(const carnot_pool_nchw_f32* pool, int64_t row0,
                                         int64_t row1, float* lines);
typedef void carnot_average_pool_nchw_f32_fn(const carnot_pool_nchw_f32* pool, int64_t row0,
                                             int64_t row1, float* lines);

#endif
