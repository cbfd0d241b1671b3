// NHWC group normalization of images that a cluster's shared memory does not hold: one kernel
// computes the moments of parts of an image, a second one combines and applies them.
#pragma once

#include "kernel/cuda/common/activation.cuh"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/common/warp_reduce.cuh"
#include "kernel/cuda/norm/group_norm_params.h"

struct moments {
  f32 count, mean, m2;
};
// Chan, Golub, LeVeque: updating formulae for variances.
DEVICE moments join_moments(moments a, moments b) {
  moments r;
  r.count = a.count + b.count;
  f32 d = b.mean - a.mean, share = r.count > 0 ? b.count / r.count : 0.f;
  r.mean = a.mean + d * share;
  r.m2 = a.m2 + b.m2 + d * d * a.count * share;
  return r;
}

// A block of |lanes| x |pieces| threads, eight channels per thread from |first| on: of group
// |group| up to channel |split|, of the next group from there on. Groups of fewer than eight
// channels are reduced by channel.
struct group_place {
  enum { THREADS = CARNOT_CUDA_GROUP_THREADS, MOST = 64 };
  int pieces, mine, lane, lanes, per_group, groups, group, split, width;
};
DEVICE group_place place_of(const carnot_cuda_group_norm_params& p) {
  group_place at;
  at.pieces = p.slice / 8, at.lanes = group_place::THREADS / at.pieces;
  at.lane = threadIdx.x / at.pieces, at.mine = threadIdx.x - at.lane * at.pieces;
  at.per_group = p.channels / p.groups, at.groups = p.slice / at.per_group;
  at.group = at.mine * 8 / at.per_group, at.split = (at.group + 1) * at.per_group - at.mine * 8;
  at.width = at.per_group < 8 ? 8 : 2;
  return at;
}
DEVICE int group_of(const group_place& at, int e) {
  return at.width == 8 ? (at.mine * 8 + e) / at.per_group : at.group + (e >= at.split);
}

struct group_room {
  f32 parts[group_place::THREADS * 8 + CARNOT_CUDA_GROUP_SLICE];  // columns of |lanes| sums
  f32 columns[CARNOT_CUDA_GROUP_SLICE];
  f32 means[group_place::MOST], squares[group_place::MOST];
};

// out[g] = the sum of group g over the block / count, from the partial sums of eight channels
// per thread.
DEVICE void reduce_groups(const group_place& at, const f32* mine, group_room& room, f32* out,
                          f32 count) {
  int stride = at.lanes | 1, warp = threadIdx.x >> 5, of_warp = threadIdx.x & 31;
  f32* part = room.parts + at.mine * at.width * stride + at.lane;
  if (at.lane < at.lanes && at.width == 8)
    for (int e = 0; e < 8; e++) part[e * stride] = mine[e];
  if (at.lane < at.lanes && at.width == 2) {
    f32 first = 0, next = 0;
    for (int e = 0; e < 8; e++) (e < at.split ? first : next) += mine[e];
    part[0] = first, part[stride] = next;
  }
  __syncthreads();
  for (int c = warp; c < at.pieces * at.width; c += group_place::THREADS / 32) {
    f32 sum = 0;
    for (int l = of_warp; l < at.lanes; l += 32) sum += room.parts[c * stride + l];
    sum = warp_reduce_sum(sum);
    if (of_warp == 0) room.columns[c] = sum;
  }
  __syncthreads();
  int g = threadIdx.x, first = g * at.per_group, last = first + at.per_group;
  if (g < at.groups) {
    f32 sum = 0;
    if (at.width == 8)
      for (int c = first; c < last; c++) sum += room.columns[c];
    else
      for (int m = first / 8; m * 8 < last; m++) sum += room.columns[m * 2 + (m * 8 < first)];
    out[g] = sum / count;
  }
  __syncthreads();
}

// Keeps the compiler from holding values derived from |e| in registers.
DEVICE void forget(half8& e) {
  asm volatile("" : "+r"(e.two[0]), "+r"(e.two[1]), "+r"(e.two[2]), "+r"(e.two[3]));
}

// Moments of up to lanes x KEEP pixels from x on, which stay in registers: means of the groups
// and squared differences from them.
enum { KEEP = CARNOT_CUDA_GROUP_KEEP };
template <class T>
DEVICE void read_moments(const carnot_cuda_group_norm_params& p, const group_place& at, i64 base,
                         i64 pixels, half8* x, int kept, group_room& room) {
  f32 v[8], total[8] = {}, mean[8];
  i64 step = (i64)at.lanes * (p.channels / 8);
#pragma unroll
  for (int k = 0; k < KEEP; k++)
    if (k < kept) x[k] = ((const half8*)p.x)[base + k * step];
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    if (k >= kept) continue;
    unpack<T>(x[k], v);
    for (int e = 0; e < 8; e++) total[e] += v[e];
  }
  reduce_groups(at, total, room, room.means, hi((f32)pixels, 1.f) * at.per_group);
  for (int e = 0; e < 8; e++) mean[e] = room.means[group_of(at, e)], total[e] = 0;
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    if (k >= kept) continue;
    forget(x[k]);
    unpack<T>(x[k], v);
    for (int e = 0; e < 8; e++) total[e] += (v[e] - mean[e]) * (v[e] - mean[e]);
  }
  reduce_groups(at, total, room, room.squares, 1);
}
DEVICE int pixels_of_lane(const group_place& at, i64 pixels) {
  return at.lane < at.lanes && at.lane < pixels
             ? (int)((pixels - at.lane + at.lanes - 1) / at.lanes)
             : 0;
}
// Joined over |threads| neighbouring threads; the lower one first, so that all come to one result.
DEVICE moments reduce_moments(moments all, int threads) {
  for (int step = 1; step < threads; step <<= 1) {
    moments other = {__shfl_xor_sync(~0u, all.count, step), __shfl_xor_sync(~0u, all.mean, step),
                     __shfl_xor_sync(~0u, all.m2, step)};
    all = threadIdx.x & step ? join_moments(other, all) : join_moments(all, other);
  }
  return all;
}

// Two readings, where an image's slice is too large: the moments of each part of an image ..
template <class T>
DEVICE void group_norm_moments(const carnot_cuda_group_norm_params& p) {
  __shared__ group_room room;
  group_place at = place_of(p);
  i64 first = (i64)blockIdx.x * p.per_part, last = lo(first + p.per_part, (i64)p.pixels);
  i64 row = p.channels / 8, chunk = (i64)at.lanes * KEEP;
  moments all = {0, 0, 0};
  for (; first < last; first += chunk) {
    i64 pixels = lo(chunk, last - first),
        base =
            ((i64)blockIdx.z * p.pixels + first + at.lane) * row + blockIdx.y * at.pieces + at.mine;
    half8 x[KEEP];
    read_moments<T>(p, at, base, pixels, x, pixels_of_lane(at, pixels), room);
    if (threadIdx.x < at.groups)
      all = join_moments(
          all, {(f32)pixels * at.per_group, room.means[threadIdx.x], room.squares[threadIdx.x]});
  }
  if (threadIdx.x >= at.groups) return;
  i64 group = blockIdx.z * (i64)p.groups + blockIdx.y * at.groups + threadIdx.x;
  f32* out = p.partial + (group * p.parts + blockIdx.x) * 3;
  out[0] = all.count, out[1] = all.mean, out[2] = all.m2;
}

// .. and then all of them applied to a part of a slice.
template <class T>
DEVICE void group_norm_apply(const carnot_cuda_group_norm_params& p) {
  __shared__ f32 means[group_place::MOST], inverses[group_place::MOST];
  group_place at = place_of(p);
  for (int g = threadIdx.x >> 5; g < at.groups; g += group_place::THREADS / 32) {
    i64 group = blockIdx.z * (i64)p.groups + blockIdx.y * at.groups + g;
    moments all = {0, 0, 0};
    const f32* from = p.partial + group * p.parts * 3;
    for (int i = threadIdx.x & 31; i < p.parts; i += 32)
      all = join_moments(all, {from[i * 3], from[i * 3 + 1], from[i * 3 + 2]});
    all = reduce_moments(all, 32);
    if ((threadIdx.x & 31) == 0) {
      means[g] = all.mean;
      inverses[g] = 1 / sqrtf(all.m2 / all.count + p.eps);
    }
  }
  __syncthreads();
  if (at.lane >= at.lanes) return;
  f32 scale[8], shift[8], v[8];
  i64 channel = (i64)blockIdx.y * p.slice + at.mine * 8;
  for (int e = 0; e < 8; e++) {
    int g = group_of(at, e);
    scale[e] = inverses[g] * (p.scale ? get<T>(p.scale, channel + e) : 1.f);
    shift[e] = (p.bias ? get<T>(p.bias, channel + e) : 0.f) - means[g] * scale[e];
  }
  i64 first = (i64)blockIdx.x * p.per_part, last = lo(first + p.per_part, (i64)p.pixels);
  i64 row = p.channels / 8,
      base = (i64)blockIdx.z * p.pixels * row + blockIdx.y * at.pieces + at.mine;
#pragma unroll 4
  for (i64 i = first + at.lane; i < last; i += at.lanes) {
    unpack<T>(p.x, base + i * row, v);
    for (int e = 0; e < 8; e++) v[e] = fmaf(v[e], scale[e], shift[e]);
    activate8(p.activation, 0, highest<f32>(), v);
    pack<T>(p.y, base + i * row, v);
  }
}
