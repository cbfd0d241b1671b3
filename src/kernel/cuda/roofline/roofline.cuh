// Device microbenchmarks for the roofline: multiply-add loops that stay in registers (by wgmma also
// in shared memory), and copies.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/stage.cuh"
#include "kernel/cuda/common/wgmma.cuh"
#include "kernel/cuda/roofline/roofline_params.h"

struct roofline_sums {
  f32 v[16];
};
DEVICE void keep_sums(const roofline_sums& s, f32* out) {
  f32 all = 0;
  for (int i = 0; i < 16; i++) all += s.v[i];
  if (all == 1234567) *out = all;  // never: the loop must not be left out
}

// 16 multiply-adds a thread and round.
DEVICE void fma_loop(const carnot_cuda_roofline_params& p) {
  roofline_sums s;
  for (int i = 0; i < 16; i++) s.v[i] = threadIdx.x * .001f + i;
  for (int r = 0; r < p.rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) s.v[i] = fmaf(s.v[i], .999f, .001f);
  keep_sums(s, p.out);
}

// Operands of -1 to 1: on zeros the device would draw less power and run faster.
template <class T>
DEVICE u16 roofline_operand(u32 i) {
  i = i * 2654435761u >> 8;
  return store_as<T>::of((f32)(i & 1023) * (1 / 512.f) - 1).bits;
}

// Per iteration 4 wgmma of 64x128x16 a warpgroup; without wgmma 16 mma of 16x8x16 a warp.
template <class T>
DEVICE void mma_loop(const carnot_cuda_roofline_params& p) {
#if __CUDA_ARCH__ >= 800
#if HAS_WGMMA
  __shared__ __align__(1024) u16 operands[(64 + 128) * 64];
  for (int i = threadIdx.x; i < (64 + 128) * 64; i += blockDim.x)
    operands[i] = roofline_operand<T>(i);
  wgmma_fence_async();
  __syncthreads();
  f32 sums[64];
  for (int i = 0; i < 64; i++) sums[i] = threadIdx.x;
  u64 a = wgmma_descriptor(shared_address(operands)),
      b = wgmma_descriptor(shared_address(operands) + 64 * STAGE_PITCH);
  for (int r = 0; r < p.rounds; r++) {
    wgmma_begin();
#pragma unroll
    for (int s = 0; s < 4; s++) wgmma_of<T, 128>::multiply(sums, a + 2 * s, b + 2 * s);
    wgmma_commit();
    wgmma_wait<1>();
  }
  wgmma_wait<0>();
  roofline_sums kept;
  for (int i = 0; i < 16; i++) kept.v[i] = sums[i] + sums[16 + i] + sums[32 + i] + sums[48 + i];
#else
  f32 sums[16][4];
  u32 a[6];
  for (int i = 0; i < 6; i++)
    a[i] = roofline_operand<T>(threadIdx.x * 12 + 2 * i) |
           (u32)roofline_operand<T>(threadIdx.x * 12 + 2 * i + 1) << 16;
  for (int i = 0; i < 16; i++)
    for (int e = 0; e < 4; e++) sums[i][e] = threadIdx.x;
  for (int r = 0; r < p.rounds; r++)
#pragma unroll
    for (int i = 0; i < 16; i++) mma<T>::multiply(sums[i], a, a[4], a[5]);
  roofline_sums kept;
  for (int i = 0; i < 16; i++) kept.v[i] = sums[i][0] + sums[i][1] + sums[i][2] + sums[i][3];
#endif
  keep_sums(kept, p.out);
#endif
}

// |rounds| vectors of 16 bytes per thread, four at a time.
DEVICE void copy_loop(const carnot_cuda_roofline_params& p) {
  uint4* to = (uint4*)p.out;
  i64 threads = (i64)gridDim.x * blockDim.x, all = threads * p.rounds;
  const uint4* from = to + all;
  for (i64 i = THREAD; i < all; i += 4 * threads) {
    uint4 v[4];
#pragma unroll
    for (int k = 0; k < 4; k++) v[k] = from[i + k * threads];
#pragma unroll
    for (int k = 0; k < 4; k++) to[i + k * threads] = v[k];
  }
}
