// Rows divided by their Euclidean norm: a warp per row, or eight lanes per short row.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/common/warp_reduce.cuh"
#include "kernel/cuda/norm/norm_params.h"

template <class T, int LANES>
DEVICE void l2_norm(const carnot_cuda_l2_norm_params& p) {
  const i64 asked = THREAD / LANES, row = lo(asked, (i64)p.count - 1), base = row * p.size;
  const int lane = threadIdx.x % LANES;
  enum { KEEP = 4 };  // elements of a lane that are read once
  f32 kept[KEEP], sum = 0;
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    const i64 i = lane + LANES * k;
    kept[k] = i < p.size ? get<T>(p.x, base + i) : 0.f;
    sum = fmaf(kept[k], kept[k], sum);
  }
  for (i64 i = lane + LANES * KEEP; i < p.size; i += LANES) {
    const f32 v = get<T>(p.x, base + i);
    sum = fmaf(v, v, sum);
  }
  const f32 norm = hi(root(lanes_reduce_sum<LANES>(sum)), p.eps);
  if (asked > row) return;
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    const i64 i = lane + LANES * k;
    if (i < p.size) put<T>(p.y, base + i, norm == 0 ? 0.f : kept[k] / norm);
  }
  for (i64 i = lane + LANES * KEEP; i < p.size; i += LANES)
    put<T>(p.y, base + i, norm == 0 ? 0.f : get<T>(p.x, base + i) / norm);
}
