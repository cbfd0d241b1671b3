// Reductions of one axis.
//   dst[o,j] = reduction over i < n of src[o,i,j]
// |src| [outer, n, inner]: element (o,i,j) at o * src_outer + i * src_axis + j; with inner = 1 the
// axis must be contiguous  |dst| [outer, inner]: element (o,j) at o * dst_outer + j
// A call computes outer rows [o0,o1) of inner columns [j0,j1). Sums go in blocks, so that errors do
// not grow with n; NaN propagates through all. Any thread.
// Source: ONNX ReduceSum-13 and the other reductions.
#ifndef CARNOT_KERNEL_CPU_REDUCE_REDUCE_F32_H_
#define CARNOT_KERNEL_CPU_REDUCE_REDUCE_F32_H_

#include <stdbool.h>
#include <stdint.h>

typedef enum carnot_kernel_reduction {
  CARNOT_KERNEL_REDUCTION_SUM,
  CARNOT_KERNEL_REDUCTION_MEAN,
  CARNOT_KERNEL_REDUCTION_MAX,
  CARNOT_KERNEL_REDUCTION_MIN,
  CARNOT_KERNEL_REDUCTION_SUM_SQUARE,
  CARNOT_KERNEL_REDUCTION_SUM_ABS,
  CARNOT_KERNEL_REDUCTION_PRODUCT,
  CARNOT_KERNEL_REDUCTION_L2,           // root of the sum of squares
  CARNOT_KERNEL_REDUCTION_LOG_SUM_EXP,  // without overflow, in the largest element
  CARNOT_KERNEL_REDUCTION_COUNT
} carnot_kernel_reduction;

typedef struct carnot_reduce_f32 {
  carnot_kernel_reduction reduction;
  int64_t n, inner;
  const void* src;
  int64_t src_outer, src_axis;
  float* dst;
  int64_t dst_outer;
  bool src_is_bf16;  // elements of src are BF16
} carnot_reduce_f32;

typedef void carnot_reduce_f32_fn(const carnot_reduce_f32* reduce, int64_t o0, int64_t o1,
                                  int64_t j0, int64_t j1);

#endif
