// Reductions of one axis over integers and float64, in their own type; sums of integers wrap.
//   dst[o,j] = reduction over i < n of src[o,i,j]
// |src| [outer, n, inner] and |dst| [outer, inner] are dense. Reductions: sum, mean (float64
// alone), max, min and product; NaN propagates. A call computes outer rows [o0,o1). Any thread.
// Source: ONNX ReduceSum-13 and the other reductions.
#ifndef CARNOT_KERNEL_CPU_REDUCE_REDUCE_NATIVE_H_
#define CARNOT_KERNEL_CPU_REDUCE_REDUCE_NATIVE_H_

#include "kernel/cpu/pointwise/elementwise.h"
#include "kernel/cpu/reduce/reduce_f32.h"

typedef struct carnot_reduce_native {
  carnot_kernel_reduction reduction;
  carnot_element_type type;
  int64_t n, inner;
  const void* src;
  void* dst;
} carnot_reduce_native;

// False, and nothing is done: there is no loop of this reduction and type. With rows 0 to 0 the
// call only says so.
typedef bool carnot_reduce_native_fn(const carnot_reduce_native* reduce, int64_t o0, int64_t o1);

#endif
