// Layer, RMS, group and instance normalization of a group per block, and batch normalization by
// given statistics.
#pragma once

#include "kernel/cuda/common/block_reduce.cuh"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/norm/norm_params.h"

// Where element |i| of a group of x is, from its first one on.
DEVICE i64 element_of_x(const carnot_cuda_norm_params& p, i64 i) {
  return p.row ? (int)i / p.row * (i64)p.pitch + (int)i % p.row : i;
}

template <class T>
DEVICE void write_normal(const carnot_cuda_norm_params& p, i64 base, i64 first, i64 i,
                         ACCUMULATOR v) {
  i64 c = p.per_element ? (p.period == p.size ? i : i % p.period)
                        : first + (p.spatial == 1 ? i : i / p.spatial);
  if (p.scale) v *= get<T>(p.scale, c);
  if (p.bias) v += get<T>(p.bias, c);
  put<T>(p.y, base + i, v);
}

template <class T>
DEVICE void norm(const carnot_cuda_norm_params& p) {
  typedef ACCUMULATOR A;
  i64 g = blockIdx.x, base = g * p.size;
  const T* x = (const T*)p.x + g * p.group_pitch;
  enum { KEEP = 8 };
  A kept[KEEP], sum = 0, square = 0;
  bool keeps = p.size <= KEEP * (i64)blockDim.x;
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    kept[k] = keeps && i < p.size ? load(x[element_of_x(p, i)]) : (A)0;
    sum += kept[k];
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x)
    sum += load(x[element_of_x(p, i)]);
  A mean = p.rms ? (A)0 : block_reduce<add_of<A>, A>(sum, 0) / (A)p.size;
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    A d = kept[k] - mean;
    if (keeps && i < p.size) square += d * d;
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x) {
    A d = load(x[element_of_x(p, i)]) - mean;
    square += d * d;
  }
  square = block_reduce<add_of<A>, A>(square, 0);
  A inverse = 1 / root(square / (A)p.size + p.eps);
  i64 channels = p.size / p.spatial, first = g % p.groups * channels;
#pragma unroll
  for (int k = 0; k < KEEP; k++) {
    i64 i = threadIdx.x + k * (i64)blockDim.x;
    if (keeps && i < p.size) write_normal<T>(p, base, first, i, (kept[k] - mean) * inverse);
  }
  for (i64 i = threadIdx.x; !keeps && i < p.size; i += blockDim.x)
    write_normal<T>(p, base, first, i, (load(x[element_of_x(p, i)]) - mean) * inverse);
  if (threadIdx.x == 0 && p.mean_out) ((f32*)p.mean_out)[g] = (f32)mean;
  if (threadIdx.x == 0 && p.inv_out) ((f32*)p.inv_out)[g] = (f32)inverse;
}

template <class T>
DEVICE void batch_norm(const carnot_cuda_batch_norm_params& p) {
  i64 i = THREAD;
  if (i >= p.count) return;
  i64 c = i / p.spatial % p.channels;
  ACCUMULATOR v = (get<T>(p.x, i) - get<T>(p.mean, c)) / root(get<T>(p.var, c) + p.eps);
  put<T>(p.y, i, v * get<T>(p.scale, c) + get<T>(p.bias, c));
}
