// The mean over the pixels of NHWC bytes: a block sums 32 channels, a thread four of every 128th
// pixel.
#pragma once

#include "kernel/cuda/quantize/int8_epilogue.cuh"
#include "kernel/cuda/reduce/mean_bytes_params.h"

template <class X>
DEVICE void mean_bytes(const carnot_cuda_mean_bytes_params& p) {
  enum {
    CHANNELS = CARNOT_CUDA_MEAN_BYTES_CHANNELS,
    WARPS = CARNOT_CUDA_MEAN_BYTES_THREADS / 32,
    WORDS = CHANNELS / 4,
    STEP = CARNOT_CUDA_MEAN_BYTES_THREADS / WORDS,
    LOADS = 8  // in flight
  };
  __shared__ i32 parts[WARPS][CHANNELS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, word = threadIdx.x % WORDS;
  const int first = blockIdx.x * CHANNELS, c = first + word * 4;
  const u8* x = (const u8*)p.x + (i64)blockIdx.y * p.pixels * p.channels + c;
  i32 sums[4] = {};
  for (int i = threadIdx.x / WORDS; c < p.channels && i < p.pixels; i += LOADS * STEP) {
    u32 words[LOADS];
#pragma unroll
    for (int k = 0; k < LOADS; k++) {
      const int pixel = i + k * STEP;
      words[k] = pixel < p.pixels ? *(const u32*)(x + (i64)pixel * p.channels) : 0;
    }
#pragma unroll
    for (int k = 0; k < LOADS; k++)
      for (int e = 0; e < 4; e++) sums[e] += (i32)(X)(words[k] >> e * 8);
  }
  for (int e = 0; e < 4; e++) {
    for (int other = WORDS; other < 32; other *= 2)
      sums[e] += __shfl_xor_sync(0xffffffff, sums[e], other);
    if (lane < WORDS) parts[warp][word * 4 + e] = sums[e];
  }
  __syncthreads();
  if (threadIdx.x >= CHANNELS || first + (int)threadIdx.x >= p.channels) return;
  i32 sum = -p.pixels * p.x_zero;
  for (int w = 0; w < WARPS; w++) sum += parts[w][threadIdx.x];
  const i32 low = p.y_signed ? -128 : 0, high = p.y_signed ? 127 : 255;
  ((u8*)p.y)[(i64)blockIdx.y * p.channels + first + threadIdx.x] =
      (u8)quantized_bits(__fmul_rn((f32)sum, p.scale), p.y_zero, low, high);
}
