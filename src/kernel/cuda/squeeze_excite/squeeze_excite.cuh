// Squeeze and excitation of NHWC 16-bit floats in one kernel: global average pool, two small dense
// layers, scale.
#pragma once

#include "kernel/cuda/common/activation.cuh"
#include "kernel/cuda/common/async_copy.cuh"
#include "kernel/cuda/common/cluster_mailbox.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/common/warp_reduce.cuh"
#include "kernel/cuda/squeeze_excite/squeeze_excite_params.h"

struct __align__(16) f32x4 {
  f32 at[4];
};
// Dot product of eight 16-bit weights and eight floats in shared memory.
template <class T>
DEVICE f32 dot8(const half8& w, const f32* v) {
  f32 a[8], sum = 0;
  f32x4 low = ((const f32x4*)v)[0], high = ((const f32x4*)v)[1];
  unpack<T>(w, a);
  for (int e = 0; e < 4; e++) sum = fmaf(a[e], low.at[e], sum);
  for (int e = 0; e < 4; e++) sum = fmaf(a[e + 4], high.at[e], sum);
  return sum;
}

// One cluster per image. Each block sums the pixels of its channels and multiplies the sums by
// its columns of the first layer; these partial hidden sums are all that the blocks exchange.
// Each thread keeps the vectors it loads in shared memory, as far as there is room.
template <class T>
DEVICE void squeeze_excite(const carnot_cuda_squeeze_excite_params& p) {
  extern __shared__ __align__(16) char shared[];
  __shared__ u64 counter;
  int t = threadIdx.x, threads = blockDim.x, rank = blockIdx.x, blocks = p.slices * p.parts,
      pieces = p.slice / 8, lanes = threads / pieces, lane = t / pieces, mine = t - lane * pieces,
      row = p.channels / 8, hidden = p.hidden, stride = p.slice + 4, step = row;
  int of_slice = rank % p.slices * pieces;
  const half8 *w1 = (const half8*)p.weights + of_slice,
              *w2 = (const half8*)p.weights + hidden * (row + of_slice),
              *b1 = (const half8*)p.weights + 2 * hidden * row, *b2 = b1 + hidden / 8 + of_slice;
  half8 *kept = (half8*)shared + t, *weights = (half8*)shared + p.kept * threads;
  f32* part = (f32*)(weights + (p.staged ? 2 * hidden * pieces : 0));  // [lanes][stride]
  f32* sums = part + lanes * stride;                                   // [slice], later the gates
  f32* inside = sums + p.slice;                                        // [hidden]
  f32* received = inside + hidden;                                     // [blocks][hidden]
  const cluster_mailbox box = {&counter, blocks};
  box.open();
  if (p.staged) {
    for (int s = t / 32; s < hidden; s += threads / 32)
      for (int k = t % 32; k < pieces; k += 32)
        copy_async(weights + s * pieces + k, w1 + s * row + k);
    for (int i = t; i < hidden * pieces; i += threads)
      copy_async(weights + hidden * pieces + i, w2 + i);
    w1 = weights, w2 = weights + hidden * pieces, step = pieces;
  }
  if (t * 64 < hidden) prefetch_line(b1 + t * 8);
  if (t * 64 < p.slice) prefetch_line(b2 + t * 8);
  int first = rank / p.slices * p.per_part,
      pixels = lane < lanes ? lo(p.per_part, p.pixels - first) : 0;
  i64 base = ((i64)blockIdx.y * p.pixels + first) * row + of_slice + mine;
  const half8* x = (const half8*)p.x + base;
  wait_for_previous();

  for (int k = 0, i = lane; k < p.kept && i < pixels; k++, i += lanes)
    copy_async(kept + k * threads, x + i * row);
  f32 sum[8] = {}, v[8];
#pragma unroll 4
  for (int i = lane + p.kept * lanes; i < pixels; i += lanes) {
    unpack<T>(x[i * row], v);
    for (int e = 0; e < 8; e++) sum[e] += v[e];
  }
  copy_async_wait();
#pragma unroll 2
  for (int k = 0, i = lane; k < p.kept && i < pixels; k++, i += lanes) {
    unpack<T>(kept[k * threads], v);
    for (int e = 0; e < 8; e++) sum[e] += v[e];
  }
  if (lane < lanes)
    for (int e = 0; e < 8; e++) part[lane * stride + mine * 8 + e] = sum[e];
  __syncthreads();
  for (int c = t / 8; c < p.slice; c += threads / 8) {
    f32 all = 0;
    for (int l = t % 8; l < lanes; l += 8) all += part[l * stride + c];
    all = lanes_reduce_sum<8>(all);
    if (t % 8 == 0) sums[c] = all;
  }
  box.ready(blocks * hidden * 4);
  __syncthreads();
  for (int s = t / 8; s < hidden; s += threads / 8) {
    f32 all = 0;
    for (int k = t % 8; k < pieces; k += 8) all += dot8<T>(w1[s * step + k], sums + 8 * k);
    all = lanes_reduce_sum<8>(all);
    for (int to = t % 8; to < blocks; to += 8) box.send(received + rank * hidden + s, to, all);
  }
  box.wait();
  for (int s = t; s < hidden; s += threads) {
    f32 all = 0;
    for (int r = 0; r < blocks; r++) all += received[r * hidden + s];
    inside[s] = activate(p.inner, p.inner_low, p.inner_high,
                         all / (f32)p.pixels + half8_at<T>(b1[s / 8], s % 8));
  }
  __syncthreads();
  for (int c = t / 4; c < p.slice; c += threads / 4) {
    f32 all = 0;
    for (int k = t % 4; k < hidden / 8; k += 4)
      all += dot8<T>(w2[c * (hidden / 8) + k], inside + 8 * k);
    all = lanes_reduce_sum<4>(all);
    if (t % 4 == 0)
      sums[c] = activate(p.outer, p.outer_low, p.outer_high, all + half8_at<T>(b2[c / 8], c % 8));
  }
  __syncthreads();
  f32 gate[8];
  for (int e = 0; e < 8; e++) gate[e] = sums[mine * 8 + e];
  half8* y = (half8*)p.y + base;
#pragma unroll 2
  for (int k = 0, i = lane; i < pixels; k++, i += lanes) {
    unpack<T>(k < p.kept ? kept[k * threads] : x[i * row], v);
    for (int e = 0; e < 8; e++) v[e] *= gate[e];
    pack<T>(y, (i64)i * row, v);
  }
}
