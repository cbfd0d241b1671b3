// Rows divided by their Euclidean norm: a warp per row.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/common/warp_reduce.cuh"
#include "kernel/cuda/norm/norm_params.h"

template <class T>
DEVICE void l2_norm(const carnot_cuda_l2_norm_params& p) {
  const i64 row = blockIdx.x * (i64)(blockDim.x >> 5) + (threadIdx.x >> 5), base = row * p.size;
  const int lane = threadIdx.x & 31;
  if (row >= p.count) return;
  enum { KEEP = 4 };  // elements of a lane that are read once
  f32 kept[KEEP], sum = 0;
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    const i64 i = lane + 32 * k;
    kept[k] = i < p.size ? get<T>(p.x, base + i) : 0.f;
    sum = fmaf(kept[k], kept[k], sum);
  }
  for (i64 i = lane + 32 * KEEP; i < p.size; i += 32) {
    const f32 v = get<T>(p.x, base + i);
    sum = fmaf(v, v, sum);
  }
  const f32 norm = hi(root(warp_reduce_sum(sum)), p.eps);
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    const i64 i = lane + 32 * k;
    if (i < p.size) put<T>(p.y, base + i, norm == 0 ? 0.f : kept[k] / norm);
  }
  for (i64 i = lane + 32 * KEEP; i < p.size; i += 32)
    put<T>(p.y, base + i, norm == 0 ? 0.f : get<T>(p.x, base + i) / norm);
}
