// The output position whose window covers an input position by a given tap: the index of transposed
// windows.
#pragma once

#include "kernel/cuda/common/types.cuh"

// The output position (flat in |dims|) whose window has tap |tap| at input position |o| (padding
// included); -1: none.
template <typename P>
DEVICE i64 window_index(const P& p, const i64 dims[3], const i64 o[3], i64 tap) {
  i64 at = 0, stride = 1;
  for (int d = 2; d >= 0; d--) {
    i64 from = o[d] - tap % p.kernel[d] * p.dilation[d];
    tap /= p.kernel[d];
    if (from < 0 || from % p.step[d] || from / p.step[d] >= dims[d]) return -1;
    at += from / p.step[d] * stride;
    stride *= dims[d];
  }
  return at;
}
