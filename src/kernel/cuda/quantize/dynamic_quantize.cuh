// DynamicQuantizeLinear in one block.
#pragma once

#include "kernel/cuda/common/block_reduce.cuh"
#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/reduce/axis_ops_params.h"

// One block: scale and zero point of uint8 from the range of x, zero included. In float32, as the
// results are.
DEVICE void dynamic_quantize(const carnot_cuda_axis_params& p, i64) {
  const f32* x = (const f32*)p.io.in[0];
  f32 low = 0, high = 0;
  for (i64 i = threadIdx.x; i < p.length; i += blockDim.x) {
    low = x[i] < low ? x[i] : low;
    high = x[i] > high ? x[i] : high;
  }
  low = block_reduce<min_of<f32>, f32>(low, 0), high = block_reduce<max_of<f32>, f32>(high, 0);
  f32 scale = high == low ? 1 : (high - low) / 255;
  u8 zero = caster<u8>::of(rintf(-low / scale));
  for (i64 i = threadIdx.x; p.io.out[0] && i < p.length; i += blockDim.x)
    ((u8*)p.io.out[0])[i] = caster<u8>::of(rintf(x[i] / scale) + zero);
  if (threadIdx.x == 0 && p.io.out[1]) *(f32*)p.io.out[1] = scale;
  if (threadIdx.x == 0 && p.io.out[2]) *(u8*)p.io.out[2] = zero;
}
