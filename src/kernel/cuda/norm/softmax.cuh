// Softmax and LogSoftmax of a row per block, with scale, mask and causal mask, or of a row per warp
// without them.
#pragma once

#include "kernel/cuda/common/block_reduce.cuh"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/common/warp_reduce.cuh"
#include "kernel/cuda/norm/softmax_params.h"

template <class T>
DEVICE ACCUMULATOR score(const carnot_cuda_softmax_params& p, const T* x, i64 row, i64 i) {
  typedef ACCUMULATOR A;
  A v = load(x[i * p.stride]) * (A)p.scale;
  if (!p.mask && !p.causal) return v;
  i64 q = row % p.queries, h = row / p.queries % p.head_offsets_of,
      b = row / p.queries / p.head_offsets_of;
  if (p.causal && i > q + p.past) return lowest<A>();
  if (!p.mask) return v;
  i64 at = b * p.mask_b + h * p.mask_h + q * p.mask_q + i * p.mask_k;
  if (p.mask_type == 1) return ((const u8*)p.mask)[at] ? v : lowest<A>();
  return v + get<T>(p.mask, at);
}

template <class T>
DEVICE void softmax(const carnot_cuda_softmax_params& p) {
  typedef ACCUMULATOR A;
  i64 row = blockIdx.x, base = row / p.inner * p.size * p.stride + row % p.inner;
  const T* x = (const T*)p.x + base;
  enum { KEEP = 4 };
  A kept[KEEP], most = lowest<A>(), sum = 0;
  bool keeps = p.size <= KEEP * (i64)blockDim.x;
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    kept[k] = keeps && i < p.size ? score<T>(p, x, row, i) : lowest<A>();
    most = hi(most, kept[k]);
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x)
    most = hi(most, score<T>(p, x, row, i));
  most = block_reduce<max_of<A>, A>(most, lowest<A>());
  if (most == lowest<A>()) most = 0;  // all keys are left out
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    if (keeps && i < p.size) {
      kept[k] = kept[k] - most;
      sum += exponential(kept[k]);
    }
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x)
    sum += exponential(score<T>(p, x, row, i) - most);
  sum = block_reduce<add_of<A>, A>(sum, 0);
  A inverse = 1 / sum, shift = p.log ? logarithm(sum) : 0;
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    if (keeps && i < p.size)
      put<T>(p.y, base + i * p.stride, p.log ? kept[k] - shift : exponential(kept[k]) * inverse);
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x) {
    A v = score<T>(p, x, row, i) - most;
    put<T>(p.y, base + i * p.stride, p.log ? v - shift : exponential(v) * inverse);
  }
}

#ifdef __CUDACC__
// Of each of COLUMNS neighbouring rows, which threads take in turn; all threads get their row's.
template <class C, int COLUMNS>
DEVICE f32 reduce_columns_of_rows(f32 v, f32 (*parts)[COLUMNS]) {
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5,
            column = lane % COLUMNS;
#pragma unroll
  for (int step = 16; step >= COLUMNS; step >>= 1) v = C::of(v, __shfl_xor_sync(~0u, v, step));
  __syncthreads();
  if (lane < COLUMNS) parts[warp][column] = v;
  __syncthreads();
  v = parts[0][column];
  for (int w = 1; w < warps; w++) v = C::of(v, parts[w][column]);
  return v;
}

// Along an axis that is not the last: a block has eight neighbouring rows, so that whole sectors
// are read. Without scale and masks.
template <class T>
DEVICE void softmax_columns(const carnot_cuda_softmax_params& p) {
  enum { COLUMNS = CARNOT_CUDA_SOFTMAX_COLUMNS };
  __shared__ f32 parts[32][COLUMNS];
  const i64 across = (p.inner + COLUMNS - 1) / COLUMNS, outer = blockIdx.x / across,
            column = (blockIdx.x - outer * across) * COLUMNS + threadIdx.x % COLUMNS,
            base = outer * p.size * p.inner + column;
  const int first = threadIdx.x / COLUMNS, step = blockDim.x / COLUMNS;
  const bool is_row = column < p.inner;
  f32 most = lowest<f32>(), sum = 0;
#pragma unroll 4
  for (i64 i = first; is_row && i < p.size; i += step)
    most = hi(most, (f32)get<T>(p.x, base + i * p.inner));
  most = reduce_columns_of_rows<max_of<f32>, COLUMNS>(most, parts);
  if (most == lowest<f32>()) most = 0;  // all keys are left out
#pragma unroll 4
  for (i64 i = first; is_row && i < p.size; i += step)
    sum += exponential((f32)get<T>(p.x, base + i * p.inner) - most);
  sum = reduce_columns_of_rows<add_of<f32>, COLUMNS>(sum, parts);
  const f32 inverse = 1 / sum, shift = p.log ? logarithm(sum) : 0.f;
#pragma unroll 4
  for (i64 i = first; is_row && i < p.size; i += step) {
    const f32 v = (f32)get<T>(p.x, base + i * p.inner) - most;
    put<T>(p.y, base + i * p.inner, p.log ? v - shift : exponential(v) * inverse);
  }
}
#endif

// Dense rows of up to 32 * KEEP elements, which stay in registers.
template <class T, int KEEP>
DEVICE void softmax_warp(const carnot_cuda_softmax_params& p) {
  const i64 row = blockIdx.x * (i64)(blockDim.x >> 5) + (threadIdx.x >> 5), base = row * p.size;
  const int lane = threadIdx.x & 31;
  if (row >= p.rows) return;
  f32 kept[KEEP], most = lowest<f32>(), sum = 0;
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    const int i = lane + 32 * k;
    kept[k] = i < p.size ? get<T>(p.x, base + i) : lowest<f32>();
    most = hi(most, kept[k]);
  }
  most = warp_reduce_max(most);
  if (most == lowest<f32>()) most = 0;  // all keys are left out
#pragma unroll
  for (int k = 0; k < KEEP; k++)
    if (lane + 32 * k < p.size) kept[k] -= most, sum += exponential(kept[k]);
  sum = warp_reduce_sum(sum);
  const f32 inverse = 1 / sum, shift = p.log ? logarithm(sum) : 0.f;
#pragma unroll
  for (int k = 0; k < KEEP; k++)
    if (lane + 32 * k < p.size)
      put<T>(p.y, base + lane + 32 * k, p.log ? kept[k] - shift : exponential(kept[k]) * inverse);
}
