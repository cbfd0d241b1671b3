// Reductions over any axes: a thread or a block per result, or columns of neighbouring results
// whose rows the threads of a block and the blocks of a cluster share. Accumulators are float or
// wider; the order of additions depends on the sizes alone.
#pragma once

#include "kernel/cuda/common/block_reduce.cuh"
#include "kernel/cuda/common/cluster.cuh"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/reduce/reduce_params.h"

template <class A>
DEVICE A start(int fn) {
  return fn == CARNOT_CUDA_MAX    ? lowest<A>()
         : fn == CARNOT_CUDA_MIN  ? highest<A>()
         : fn == CARNOT_CUDA_PROD ? (A)1
                                  : (A)0;
}
template <class A>
DEVICE A join(int fn, A a, A b) {
  return fn == CARNOT_CUDA_MAX    ? hi(a, b)
         : fn == CARNOT_CUDA_MIN  ? lo(a, b)
         : fn == CARNOT_CUDA_PROD ? a * b
                                  : a + b;
}
template <class A>
DEVICE A magnitude(A x) {
  return x < 0 ? -x : x;
}
DEVICE u32 magnitude(u32 x) { return x; }
DEVICE u64 magnitude(u64 x) { return x; }
template <class A>
DEVICE A term(int fn, A x, A most) {
  switch (fn) {
    case CARNOT_CUDA_L1: return magnitude(x);
    case CARNOT_CUDA_L2:
    case CARNOT_CUDA_SUM_SQUARE: return x * x;
    case CARNOT_CUDA_LOG_SUM_EXP: return exponential(x - most);
    default: return x;
  }
}
template <class A>
DEVICE A finish(int fn, A x, i64 count, A most) {
  switch (fn) {
    case CARNOT_CUDA_MEAN: return x / (A)count;
    case CARNOT_CUDA_L2: return root(x);
    case CARNOT_CUDA_LOG_SUM: return logarithm(x);
    case CARNOT_CUDA_LOG_SUM_EXP: return logarithm(x) + most;
    default: return x;
  }
}

// Of bytes: the ends of a wider accumulator, which nothing joined, become those of the type.
template <class T>
struct result_as : store_as<T> {};
template <>
struct result_as<i8> {
  static DEVICE_ONLY i8 of(i32 v) { return caster<i8>::of((f64)v); }
};
template <>
struct result_as<u8> {
  static DEVICE_ONLY u8 of(i32 v) { return caster<u8>::of((f64)v); }
};
template <>
struct result_as<b8> {
  static DEVICE_ONLY b8 of(i32 v) { return store_as<b8>::of(v > 0); }
};

template <class T, class A>
DEVICE void put_result(const carnot_cuda_reduce_params& p, i64 k, A v) {
  if (sizeof(T) == 2 && p.widens)
    ((f32*)p.y)[k] = (f32)v;
  else
    ((T*)p.y)[k] = result_as<T>::of(v);
}

// |step| threads share one result: a block (blockDim.x of them) or one.
template <class T, class A, bool BLOCK>
DEVICE void reduce(const carnot_cuda_reduce_params& p) {
  i64 k = BLOCK ? blockIdx.x : THREAD, base, unused, at;
  if (k >= p.kept_count) return;
  offsets<u64>((u64)k, p.kept_rank, p.kept_dims, p.kept, p.kept, &base, &unused);
  const T* x = (const T*)p.x + base;
  int step = BLOCK ? blockDim.x : 1, first = BLOCK ? threadIdx.x : 0;
  A most = 0;
  for (int pass = p.fn == CARNOT_CUDA_LOG_SUM_EXP ? 0 : 1; pass < 2; pass++) {
    int fn = pass ? p.fn : CARNOT_CUDA_MAX;
    A sum = start<A>(fn);
    for (i64 r = first; r < p.reduced_count; r += step) {
      if (p.reduced_rank == 1)
        at = r * p.reduced[0];
      else
        offsets<u64>((u64)r, p.reduced_rank, p.reduced_dims, p.reduced, p.reduced, &at, &unused);
      sum = join(fn, sum, term(fn, (A)load(x[at]), most));
    }
    if (BLOCK) {
      if (fn == CARNOT_CUDA_MAX)
        sum = block_reduce<max_of<A>, A>(sum, start<A>(fn));
      else if (fn == CARNOT_CUDA_MIN)
        sum = block_reduce<min_of<A>, A>(sum, start<A>(fn));
      else if (fn == CARNOT_CUDA_PROD)
        sum = block_reduce<mul_of<A>, A>(sum, start<A>(fn));
      else
        sum = block_reduce<add_of<A>, A>(sum, start<A>(fn));
    }
    if (!pass)
      most = sum - sum == 0 ? sum : (A)0;  // an infinite maximum is no reference
    else if (first == 0)
      put_result<T, A>(p, k, finish(p.fn, sum, p.reduced_count, most));
  }
}

template <class T, int V>
struct __align__(sizeof(T) * V) piece {
  T v[V];
};

// Of few elements: V adjacent results a thread, which read V adjacent elements.
template <class T>
DEVICE void reduce_few(const carnot_cuda_reduce_params& p) {
  enum { V = 16 / sizeof(T) };
  i64 k = THREAD, base, unused, at;
  if (k * V >= p.kept_count) return;
  offsets<u32>((u32)(k * V), p.kept_rank, p.kept_dims, p.kept, p.kept, &base, &unused);
  f32 sum[V];
  for (int e = 0; e < V; e++) sum[e] = start<f32>(p.fn);
#pragma unroll 2
  for (i64 r = 0; r < p.reduced_count; r++) {
    offsets<u32>((u32)r, p.reduced_rank, p.reduced_dims, p.reduced, p.reduced, &at, &unused);
    const piece<T, V> x = *(const piece<T, V>*)((const T*)p.x + base + at);
    for (int e = 0; e < V; e++) sum[e] = join(p.fn, sum[e], load(x.v[e]));
  }
  piece<T, V> y;
  for (int e = 0; e < V; e++) y.v[e] = store_as<T>::of(finish(p.fn, sum[e], p.reduced_count, 0.f));
  ((piece<T, V>*)p.y)[k] = y;
}

// |slice| vectors of V adjacent results per block: the threads of the block and the |parts|
// blocks of a cluster share the reduced elements. For reductions of one pass. FN: the function
// where it is known at compile time, or -1.
template <class T, class A, int V, int FN>
DEVICE void reduce_columns(const carnot_cuda_reduce_params& p, A* sums) {
  enum { AT_ONCE = 4 };
  int fn = FN < 0 ? p.fn : FN, mine = threadIdx.x % p.slice, lane = threadIdx.x / p.slice,
      lanes = blockDim.x / p.slice, part = blockIdx.x % p.parts;
  i64 first = (i64)(blockIdx.x / p.parts) * p.slice, k = (first + mine) * V, base, unused;
  A sum[V];
  for (int e = 0; e < V; e++) sum[e] = start<A>(fn);
  if (k < p.kept_count) {
    offsets<u64>((u64)k, p.kept_rank, p.kept_dims, p.kept, p.kept, &base, &unused);
    const T* x = (const T*)p.x + base;
    i64 step = (i64)lanes * p.parts;
    for (i64 r = (i64)part * lanes + lane; r < p.reduced_count; r += AT_ONCE * step) {
      piece<T, V> read[AT_ONCE];
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) {
        i64 at = (r + j * step) * p.reduced[0];
        if (r + j * step >= p.reduced_count) break;
        if (p.reduced_rank > 1)
          offsets<u64>((u64)(r + j * step), p.reduced_rank, p.reduced_dims, p.reduced, p.reduced,
                       &at, &unused);
        read[j] = *(const piece<T, V>*)(x + at);
      }
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++)
        for (int e = 0; e < V; e++)
          if (r + j * step < p.reduced_count)
            sum[e] = join(fn, sum[e], term(fn, (A)load(read[j].v[e]), (A)0));
    }
  }
  // Columns of |lanes| partial sums: V of them per thread, then one thread per column.
  int width = p.slice * V, c = threadIdx.x % width, row = threadIdx.x / width,
      rows = blockDim.x / width;
  for (int e = 0; e < V; e++) sums[lane * width + mine * V + e] = sum[e];
  __syncthreads();
  A all = start<A>(fn);
  for (int i = row; i < lanes; i += rows) all = join(fn, all, sums[i * width + c]);
  __syncthreads();
  sums[row * width + c] = all;
  __syncthreads();
  if (row == 0) {
    for (int i = 1; i < rows; i++) all = join(fn, all, sums[i * width + c]);
    sums[c] = all;
  }
  if (p.parts > 1) {
    cluster_arrive();
    cluster_wait();
    for (int i = 1; i < p.parts && row == 0 && part == 0; i++)
      all = join(fn, all, read_peer(&sums[c], i));
    cluster_arrive();
    cluster_wait();
  }
  k = first * V + c;
  if (row == 0 && part == 0 && k < p.kept_count)
    put_result<T, A>(p, k, finish(p.fn, all, p.reduced_count, (A)0));
}

template <class T, class A>
DEVICE void reduce_scalar_columns(const carnot_cuda_reduce_params& p) {
  __shared__ A sums[CARNOT_CUDA_COLUMN_THREADS];
  reduce_columns<T, A, 1, -1>(p, sums);
}

template <class T>
DEVICE void reduce_vector_columns(const carnot_cuda_reduce_params& p) {
  enum { V = 16 / sizeof(T) };
  __shared__ f32 sums[CARNOT_CUDA_COLUMN_THREADS * V];
  if (p.fn == CARNOT_CUDA_MAX)
    reduce_columns<T, f32, V, CARNOT_CUDA_MAX>(p, sums);
  else if (p.fn == CARNOT_CUDA_MIN)
    reduce_columns<T, f32, V, CARNOT_CUDA_MIN>(p, sums);
  else if (p.fn == CARNOT_CUDA_L2 || p.fn == CARNOT_CUDA_SUM_SQUARE)
    reduce_columns<T, f32, V, CARNOT_CUDA_SUM_SQUARE>(p, sums);
  else
    reduce_columns<T, f32, V, CARNOT_CUDA_SUM>(p, sums);
}
