// Sums and maxima over a warp or over a power of two of neighbouring lanes, known to all of them.
#pragma once

#include "kernel/cuda/common/functions.cuh"

DEVICE f32 warp_reduce_sum(f32 v) {
  for (int step = 16; step; step >>= 1) v += __shfl_xor_sync(~0u, v, step);
  return v;
}
DEVICE f32 warp_reduce_max(f32 v) {
  for (int step = 16; step; step >>= 1) v = hi(v, __shfl_xor_sync(~0u, v, step));
  return v;
}
// Over LANES neighbouring threads; all of them get the result.
template <int LANES>
DEVICE f32 lanes_reduce_sum(f32 v) {
  for (int step = 1; step < LANES; step <<= 1) v += __shfl_xor_sync(~0u, v, step);
  return v;
}
