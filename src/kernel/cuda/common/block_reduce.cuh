// Reduction over a block. The order of additions depends on the block's size alone: equal runs give
// equal bits.
#pragma once

#include "kernel/cuda/common/functions.cuh"

template <class T>
struct add_of {
  static DEVICE_ONLY T of(T a, T b) { return a + b; }
};
template <class T>
struct max_of {
  static DEVICE_ONLY T of(T a, T b) { return hi(a, b); }
};
template <class T>
struct min_of {
  static DEVICE_ONLY T of(T a, T b) { return lo(a, b); }
};
template <class T>
struct mul_of {
  static DEVICE_ONLY T of(T a, T b) { return a * b; }
};

#ifdef __CUDACC__

// Reduction over a block of at most 1024 threads; all threads get the result.
template <class C, class T>
DEVICE T block_reduce(T v, T identity) {
  __shared__ T parts[32];
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) >> 5;
  for (int step = 16; step; step >>= 1) v = C::of(v, __shfl_xor_sync(~0u, v, step));
  __syncthreads();
  if (lane == 0) parts[warp] = v;
  __syncthreads();
  v = lane < warps ? parts[lane] : identity;
  for (int step = 16; step; step >>= 1) v = C::of(v, __shfl_xor_sync(~0u, v, step));
  return v;
}

#else
// Host builds of the tests run one thread a block.
template <class C, class T>
DEVICE T block_reduce(T v, T) {
  return v;
}
#endif
