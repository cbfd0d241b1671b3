// Layer and RMS normalization of 16-bit floats: a warp per row of up to 2048 elements, or 8 or 16
// lanes per short row, in 16-byte vectors.
#pragma once

#include "kernel/cuda/common/async_copy.cuh"
#include "kernel/cuda/common/warp_reduce.cuh"
#include "kernel/cuda/norm/norm_params.h"
#include "kernel/cuda/quantize/byte_result.cuh"

// PIECES 16-byte vectors per lane, LANES lanes per row: all loads are issued at once; scale and
// bias are prefetched before the previous kernel ends.
template <class T, int PIECES, int LANES>
DEVICE void norm_warp(const carnot_cuda_norm_params& p) {
  const i64 asked = THREAD / LANES, row = lo(asked, (i64)p.count - 1);
  int lane = threadIdx.x % LANES, pieces = (int)p.size / 8;
  const half8 none = {}, *from = (const half8*)((const T*)p.x + row * p.group_pitch);
  half8 x[PIECES], scales[PIECES], biases[PIECES];
  // Only one warp prefetches scale and bias to L2; if all warps did, the requests would
  // serialize on the same cache lines.
#pragma unroll
  for (int k = 0; k < PIECES && blockIdx.x == 0 && threadIdx.x < 32; k++) {
    int at = (int)threadIdx.x + 32 * k;
    if (at < pieces && at % 8 == 0 && p.scale) prefetch_line((const half8*)p.scale + at);
    if (at < pieces && at % 8 == 0 && p.bias) prefetch_line((const half8*)p.bias + at);
  }
  wait_for_previous();
  if (LANES == 32 && asked > row) return;
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    int at = lane + LANES * k;
    x[k] = at < pieces ? from[at] : none;
    if (at < pieces && p.scale) scales[k] = ((const half8*)p.scale)[at];
    if (at < pieces && p.bias) biases[k] = ((const half8*)p.bias)[at];
  }
  f32 v[8], sum = 0, square = 0;
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    unpack<T>(x[k], v);
    for (int e = 0; e < 8; e++) sum += v[e];
  }
  f32 mean = p.rms ? 0.f : lanes_reduce_sum<LANES>(sum) / (f32)p.size;
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    unpack<T>(x[k], v);
    for (int e = 0; e < 8 && lane + LANES * k < pieces; e++)
      square += (v[e] - mean) * (v[e] - mean);
  }
  f32 inverse = 1 / sqrtf(lanes_reduce_sum<LANES>(square) / (f32)p.size + p.eps);
  f32 factor = p.q ? 1 / p.bytes.scale : 0;
#pragma unroll
  for (int k = 0; k < PIECES; k++) {
    if (lane + LANES * k >= pieces || asked > row) continue;
    f32 scale[8], bias[8];
    unpack<T>(x[k], v);
    if (p.scale) unpack<T>(scales[k], scale);
    if (p.bias) unpack<T>(biases[k], bias);
    for (int e = 0; e < 8; e++) {
      v[e] = (v[e] - mean) * inverse;
      if (p.scale) v[e] *= scale[e];
      if (p.bias) v[e] += bias[e];
    }
    i64 at = row * pieces + lane + LANES * k;
    if (p.y) pack<T>(p.y, at, v);
    if (p.q) ((result_bytes*)p.q)[at] = quantize_eight<T>(p.bytes, factor, v);
  }
}
