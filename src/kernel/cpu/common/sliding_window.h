// The part of a sliding window that lies inside the input; for depthwise convolution and pooling.
#ifndef CARNOT_KERNEL_CPU_COMMON_SLIDING_WINDOW_H_
#define CARNOT_KERNEL_CPU_COMMON_SLIDING_WINDOW_H_

#include "kernel/cpu/common/simd.h"

typedef struct window_taps {
  int64_t begin, end;  // taps t with 0 <= start + t * dilation < size
} window_taps;

CARNOT_INLINE window_taps window_inside(int64_t start, int64_t taps, int64_t dilation,
                                        int64_t size) {
  window_taps inside = {0, taps};
  if (start < 0) inside.begin = min_i64(taps, (-start + dilation - 1) / dilation);
  if (start + (taps - 1) * dilation >= size) {
    inside.end = start >= size ? 0 : (size - start + dilation - 1) / dilation;
  }
  inside.end = max_i64(inside.begin, inside.end);
  return inside;
}

#endif
