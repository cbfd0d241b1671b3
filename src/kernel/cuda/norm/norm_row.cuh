// Layer and RMS normalization of long rows: a block per row, in 16-byte vectors that registers
// hold. All loads are issued at once.
#pragma once

#include "kernel/cuda/common/block_reduce.cuh"
#include "kernel/cuda/norm/norm_params.h"
#include "kernel/cuda/quantize/byte_result.cuh"

#ifdef __CUDACC__

template <class T>
struct norm_row {
  enum { VECTOR = 16 / (int)sizeof(T), PIECES = CARNOT_CUDA_NORM_ROW_PIECES };
  const carnot_cuda_norm_params& p;

  // Vectors threadIdx.x, + blockDim.x, .. of a row; zeros behind its end.
  DEVICE_ONLY void fetch(const void* row, uint4 (&to)[PIECES]) const {
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
      const int at = threadIdx.x + k * blockDim.x;
      to[k] = row && at < (int)p.size / VECTOR ? ((const uint4*)row)[at] : uint4{};
    }
  }
  DEVICE_ONLY static f32 element(const uint4& x, int e) { return load(((const T*)&x)[e]); }
  DEVICE_ONLY static f32 sum_of(f32 x) { return block_reduce<add_of<f32>, f32>(x, 0); }

  DEVICE_ONLY void run() const {
    const i64 g = blockIdx.x;
    uint4 x[PIECES], scale[PIECES], bias[PIECES];
    fetch((const T*)p.x + g * p.group_pitch, x);
    fetch(p.scale, scale);
    fetch(p.bias, bias);
    f32 sum = 0, square = 0;
#pragma unroll
    for (int k = 0; k < PIECES * VECTOR; k++) sum += element(x[k / VECTOR], k % VECTOR);
    const f32 mean = p.rms ? 0.f : sum_of(sum) / (f32)p.size;
#pragma unroll
    for (int k = 0; k < PIECES * VECTOR; k++) {
      const bool inside = (int)threadIdx.x + k / VECTOR * (int)blockDim.x < (int)p.size / VECTOR;
      const f32 d = inside ? element(x[k / VECTOR], k % VECTOR) - mean : 0;
      square = fmaf(d, d, square);
    }
    const f32 inverse = 1 / sqrtf(sum_of(square) / (f32)p.size + p.eps);
    const f32 factor = p.q ? 1 / p.bytes.scale : 0;
#pragma unroll
    for (int k = 0; k < PIECES; k++) {
      const int at = threadIdx.x + k * blockDim.x;
      if (at >= (int)p.size / VECTOR) break;
      uint4 y;
      f32 values[VECTOR];
#pragma unroll
      for (int e = 0; e < VECTOR; e++) {
        f32 v = (element(x[k], e) - mean) * inverse;
        if (p.scale) v *= element(scale[k], e);
        if (p.bias) v += element(bias[k], e);
        ((T*)&y)[e] = store_as<T>::of(v);
        values[e] = v;
      }
      if (p.y) ((uint4*)((T*)p.y + g * p.size))[at] = y;
      if (!p.q) continue;
      u8* q = (u8*)p.q + g * p.size + at * VECTOR;
      if constexpr (VECTOR == 4)
        *(u32*)q = quantize_four<T>(p.bytes, factor, values);
      else
        *(result_bytes*)q = quantize_eight<T>(p.bytes, factor, values);
    }
    if (threadIdx.x == 0 && p.mean_out) ((f32*)p.mean_out)[g] = mean;
    if (threadIdx.x == 0 && p.inv_out) ((f32*)p.inv_out)[g] = inverse;
  }
};

#endif
