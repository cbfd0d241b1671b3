// NHWC group normalization of 16-bit floats in one pass: the blocks of a cluster keep a slice of an
// image in shared memory.
#pragma once

#include "kernel/cuda/common/activation.cuh"
#include "kernel/cuda/common/async_copy.cuh"
#include "kernel/cuda/common/cluster_mailbox.cuh"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/common/warp_reduce.cuh"
#include "kernel/cuda/norm/group_norm_params.h"

// One pass: a block keeps its pixels of the slice in shared memory, each thread what it loads
// itself. The blocks of a cluster exchange sums and sums of squares of differences from a value
// that all of them know, the first of each group: squares lose no precision to a large mean.
// COLUMNS: groups that eight channels may belong to, 2 or 8.
template <class T, int COLUMNS>
DEVICE void group_norm(const carnot_cuda_group_norm_params& p) {
  extern __shared__ __align__(16) char shared[];
  __shared__ u64 counter;
  struct __align__(8) sums {
    f32 sum, square;
  };
  int t = threadIdx.x, threads = blockDim.x, pieces = p.slice / 8, lanes = threads / pieces,
      lane = t / pieces, mine = t - lane * pieces, per_group = p.channels / p.groups,
      last = p.slice / per_group - 1, row = p.channels / 8, columns = pieces * COLUMNS,
      stride = lanes | 1, rank = blockIdx.x;
  half8* x = (half8*)shared + t;
  sums* part = (sums*)((half8*)shared + p.kept * threads);  // [columns][stride]
  sums* received = part + columns * stride;                 // [parts][columns]
  f32* means = (f32*)(received + p.parts * columns);        // [groups of the slice]
  f32* inverses = means + last + 1;
  int of[8], first = rank * p.per_part, pixels = lo(p.per_part, (int)p.pixels - first), kept = 0;
  for (int e = 0; e < 8; e++) of[e] = (mine * 8 + e) / per_group;
  if (lane < lanes && lane < pixels) kept = (pixels - lane + lanes - 1) / lanes;
  i64 piece = (i64)blockIdx.y * pieces + mine;
  const half8* image = (const half8*)p.x + (i64)blockIdx.z * p.pixels * row;
  const half8* from = image + (i64)(first + lane) * row + piece;
  if (lane == 0 && p.scale) prefetch_line((const half8*)p.scale + piece);
  if (lane == 0 && p.bias) prefetch_line((const half8*)p.bias + piece);
  const cluster_mailbox box = {&counter, p.parts};
  box.open();
  wait_for_previous();

  for (int k = 0; k < kept; k++) copy_async(x + k * threads, from + (i64)k * lanes * row);
  const T* firsts = (const T*)(image + (i64)blockIdx.y * pieces);
  f32 v[8], centre[8];
  sums own[8] = {};
  for (int e = 0; e < 8; e++) centre[e] = kept ? load(firsts[of[e] * per_group]) : 0.f;
  copy_async_wait();
#pragma unroll 1
  for (int k = 0; k < kept; k++) {
    unpack<T>(x[k * threads], v);
    for (int e = 0; e < 8; e++) {
      f32 d = v[e] - centre[e];
      own[e].sum += d, own[e].square = fmaf(d, d, own[e].square);
    }
  }
  if (COLUMNS == 2) {
    sums two[2] = {};
    for (int e = 0; e < 8; e++)
      if (of[e] == of[0])
        two[0].sum += own[e].sum, two[0].square += own[e].square;
      else
        two[1].sum += own[e].sum, two[1].square += own[e].square;
    own[0] = two[0], own[1] = two[1];
  }
  if (lane < lanes)
    for (int i = 0; i < COLUMNS; i++) part[(mine * COLUMNS + i) * stride + lane] = own[i];
  box.ready(p.parts * columns * (u32)sizeof(sums));
  __syncthreads();
#pragma unroll 1
  for (int c = t / 32; c < columns; c += threads / 32) {
    sums all = {0, 0};
    for (int l = t % 32; l < lanes; l += 32)
      all.sum += part[c * stride + l].sum, all.square += part[c * stride + l].square;
    all.sum = warp_reduce_sum(all.sum), all.square = warp_reduce_sum(all.square);
    if (t % 32 < p.parts) {
      f32* to = &received[rank * columns + c].sum;
      box.send(to, t % 32, all.sum);
      box.send(to + 1, t % 32, all.square);
    }
  }
  f32 scale[8], shift[8];
  half8 none = {}, scales = p.scale ? ((const half8*)p.scale)[piece] : none,
        shifts = p.bias ? ((const half8*)p.bias)[piece] : none;
  box.wait();
  // Eight threads a group.
#pragma unroll 1
  for (int g = t / 8; (g & ~3) <= last; g += threads / 8) {
    int begin = g * per_group, end = g <= last ? begin + per_group : 0;
    f32 sum = 0, square = 0;
#pragma unroll 1
    for (int r = t % 8; r < p.parts; r += 8) {
      const sums* all = received + r * columns;
      if (COLUMNS == 8)
        for (int c = begin; c < end; c++) sum += all[c].sum, square += all[c].square;
      else
        for (int m = begin / 8; m * 8 < end; m++) {
          sum += all[m * 2 + (m * 8 < begin)].sum, square += all[m * 2 + (m * 8 < begin)].square;
        }
    }
    sum = lanes_reduce_sum<8>(sum), square = lanes_reduce_sum<8>(square);
    if (g <= last && t % 8 == 0) {
      f32 count = (f32)p.pixels * per_group, mean = sum / count;
      means[g] = load(firsts[begin]) + mean;
      inverses[g] = 1 / sqrtf(hi(square / count - mean * mean, 0.f) + p.eps);
    }
  }
  __syncthreads();
  unpack<T>(scales, scale), unpack<T>(shifts, shift);
  for (int e = 0; e < 8 && kept; e++) {
    scale[e] = (p.scale ? scale[e] : 1.f) * inverses[of[e]];
    shift[e] -= means[of[e]] * scale[e];
  }
  half8* to = (half8*)p.y + (from - (const half8*)p.x);
#pragma unroll 1
  for (int k = 0; k < kept; k++) {
    unpack<T>(x[k * threads], v);
    for (int e = 0; e < 8; e++) v[e] = fmaf(v[e], scale[e], shift[e]);
    activate8(p.activation, 0, highest<f32>(), v);
    pack<T>(to, (i64)k * lanes * row, v);
  }
}
