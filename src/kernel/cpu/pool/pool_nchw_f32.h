// Pooling over windows of any rank, dense planes with the last dimension innermost.
//   max:     dst[plane, o..] = max over the window's elements inside the input; NaN if one is
//   average: dst[plane, o..] = sum over the same elements / count
// count is the number of those elements, or with |include_padding| of the window's elements inside
// the input and its padding. A window without an element gives -inf, an average of none 0.
// |src| [planes, in..]  |dst| [planes, out..], not overlapping. A call computes rows [row0,row1) of
// the planes' rows, out[rank-1] numbers each, with in[rank-1] numbers of |line| to itself. Any
// thread. Source: ONNX MaxPool-12, AveragePool-19.
#ifndef CARNOT_KERNEL_CPU_POOL_POOL_NCHW_F32_H_
#define CARNOT_KERNEL_CPU_POOL_POOL_NCHW_F32_H_

#include <stdbool.h>
#include <stdint.h>

enum { CARNOT_POOL_NCHW_RANK = 6 };

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

typedef void carnot_max_pool_nchw_f32_fn(const carnot_pool_nchw_f32* pool, int64_t row0,
                                         int64_t row1, float* line);
typedef void carnot_average_pool_nchw_f32_fn(const carnot_pool_nchw_f32* pool, int64_t row0,
                                             int64_t row1, float* line);

#endif
