// Convolutions that read few channels, by mma.sync with all weights of a block in shared memory:
// inputs and outputs pass through registers once.
// Weights are packed by chunks of 32 filters, steps of 16 along K, and lanes, in the order of
// the B fragments: lane 4g + t holds, at K positions 4t .. 4t+3 of a step (they serve as
// positions 2t, 2t+1, 2t+8, 2t+9 of both A and B), the filters (g >> 1) * 8 + 2j + (g & 1) of
// the fragments j = 0 .. 3. So the accumulators of a lane are eight adjacent filters, from t * 8
// of the chunk on.
#pragma once

#include "kernel/cuda/common/activation.cuh"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/common/tensor_core.cuh"
#include "kernel/cuda/conv/conv_small_channels_params.h"

#if __CUDA_ARCH__ >= 800

enum { CHUNK_STEP = 1024 };  // bytes of a chunk's weights in a step

struct __align__(8) half4 {
  u32 two[2];
};

// One K step of TILES tiles of 16 rows by 32 filters with the weights at |weights|.
template <class T, int TILES>
DEVICE void multiply_chunk(f32 (*sums)[4][4], const u32 (*a)[4], const char* weights) {
#pragma unroll
  for (int j = 0; j < 4; j += 2) {
    half8 b = *(const half8*)(weights + j * 256 + (threadIdx.x & 31) * 16);
#pragma unroll
    for (int m = 0; m < TILES; m++) {
      mma<T>::multiply(sums[m][j], a[m], b.two[0], b.two[1]);
      mma<T>::multiply(sums[m][j + 1], a[m], b.two[2], b.two[3]);
    }
  }
}
// Accumulators start with |bias|, that of the lane's eight filters.
template <int TILES>
DEVICE void begin_chunk(f32 (*sums)[4][4], const f32* bias) {
#pragma unroll
  for (int j = 0; j < 4; j++) {
    float2 b = ((const float2*)bias)[j];
#pragma unroll
    for (int m = 0; m < TILES; m++)
      sums[m][j][0] = sums[m][j][2] = b.x, sums[m][j][1] = sums[m][j][3] = b.y;
  }
}
// The results of row |r| (0: g, 1: g + 8 of the tile): eight filters. A clamp is applied to the
// rounded values with rounded limits, which is the same as rounding the clamped value.
template <class T>
DEVICE half8 finish_chunk(const f32 (*sums)[4], int r, int activation, f32 low, f32 high) {
  f32 v[8];
  half8 y;
#pragma unroll
  for (int e = 0; e < 8; e++) v[e] = sums[e >> 1][2 * r + (e & 1)];
  if (activation > CARNOT_CUDA_CLAMP) activate8(activation, low, high, v);
#pragma unroll
  for (int i = 0; i < 4; i++) y.two[i] = mma<T>::pair(v[2 * i], v[2 * i + 1]);
  if (activation == CARNOT_CUDA_CLAMP) {
    u32 least = mma<T>::pair(low, low), most = mma<T>::pair(high, high);
#pragma unroll
    for (int i = 0; i < 4; i++) y.two[i] = mma<T>::clamp(y.two[i], least, most);
  }
  return y;
}
// Converts |count| bias values to float in shared memory, zeros after them up to |room|; all
// threads of the block.
template <class T>
DEVICE void keep_bias(f32* to, const void* bias, int count, int room) {
  for (int i = threadIdx.x; i < room; i += blockDim.x)
    to[i] = bias && i < count ? get<T>(bias, i) : 0.f;
}

// The bits at |from|, 0 where nothing is; no branch, so that many are on the way at once.
DEVICE u32 bits_if(const f32* from, bool there) {
  u32 v;
  asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %2, 0;\nmov.b32 %0, 0;\n@p ld.global.b32 %0, [%1];}"
               : "=r"(v)
               : "l"(from), "r"((int)there));
  return v;
}
template <class T>
DEVICE u32 bits_if(const T* from, bool there) {
  u16 v;
  asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %2, 0;\nmov.b16 %0, 0;\n@p ld.global.b16 %0, [%1];}"
               : "=h"(v)
               : "l"(from), "r"((int)there));
  return v;
}
// Two values of type X, given by their bits, as a pair of 16-bit floats.
template <class T, class X>
struct pair_of {
  static DEVICE_ONLY u32 bits(u32 a, u32 b) { return a | b << 16; }
};
template <class T>
struct pair_of<T, f32> {
  static DEVICE_ONLY u32 bits(u32 a, u32 b) {
    return mma<T>::pair(__uint_as_float(a), __uint_as_float(b));
  }
};

#endif
