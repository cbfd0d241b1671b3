// The mean over the pixels of NHWC bytes: a warp sums 128 channels of every eighth pixel.
#pragma once

#include "kernel/cuda/quantize/int8_epilogue.cuh"
#include "kernel/cuda/reduce/mean_bytes_params.h"

template <class X>
DEVICE void mean_bytes(const carnot_cuda_mean_bytes_params& p) {
  enum { WARPS = CARNOT_CUDA_MEAN_BYTES_THREADS / 32 };
  __shared__ i32 parts[WARPS][CARNOT_CUDA_MEAN_BYTES_CHANNELS];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int c = blockIdx.x * CARNOT_CUDA_MEAN_BYTES_CHANNELS + lane * 4;
  const u8* x = (const u8*)p.x + (i64)blockIdx.y * p.pixels * p.channels + c;
  i32 sums[4] = {};
  for (int i = warp; c < p.channels && i < p.pixels; i += WARPS) {
    u32 word = *(const u32*)(x + (i64)i * p.channels);
    for (int e = 0; e < 4; e++) sums[e] += (i32)(X)(word >> e * 8);
  }
  for (int e = 0; e < 4; e++) parts[warp][lane * 4 + e] = sums[e];
  __syncthreads();
  if (warp || c >= p.channels) return;
  i32 low = p.y_signed ? -128 : 0, high = p.y_signed ? 127 : 255;
  u32 y = 0;
  for (int e = 0; e < 4; e++) {
    i32 sum = -p.pixels * p.x_zero;
    for (int w = 0; w < WARPS; w++) sum += parts[w][lane * 4 + e];
    y |= quantized_bits(__fmul_rn((f32)sum, p.scale), p.y_zero, low, high) << e * 8;
  }
  *(u32*)((u8*)p.y + (i64)blockIdx.y * p.channels + c) = y;
}
