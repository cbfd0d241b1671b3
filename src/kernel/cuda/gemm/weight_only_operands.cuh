// What the GEMMs of few rows by packed integer weights share: operands of mma.sync, the end.
#pragma once

#include "kernel/cuda/common/activation.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/common/tensor_core.cuh"
#include "kernel/cuda/gemm/gemm_weight_only_params.h"

#if __CUDA_ARCH__ >= 800

// Four elements of x at k .. k+3 as operand B, in PARTS 16-bit floats each, and the weights of the
// same k as operand A. FP32 is the sum of three BF16 numbers, exactly.
template <class T>
struct weight_only_type {
  typedef T number;
  enum { PARTS = 1 };
  static DEVICE_ONLY void read(const void* x, i64 at, int count, bool aligned, u32 (*b)[2]) {
    const T* from = (const T*)x + at;
    if (aligned && count >= 4) {
      asm volatile("ld.global.v2.b32 {%0,%1}, [%2];" : "=r"(b[0][0]), "=r"(b[0][1]) : "l"(from));
      return;
    }
    for (int i = 0; i < 4; i++)
      if (i < count) b[0][i / 2] |= (u32)from[i].bits << i % 2 * 16;
  }
};
template <>
struct weight_only_type<f32> {
  typedef bf16 number;
  enum { PARTS = 3 };
  static DEVICE_ONLY void read(const void* x, i64 at, int count, bool aligned, u32 (*b)[2]) {
    const f32* from = (const f32*)x + at;
    f32 v[4] = {};
    if (aligned && count >= 4)
      asm volatile("ld.global.v4.f32 {%0,%1,%2,%3}, [%4];"
                   : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
                   : "l"(from));
    else
      for (int i = 0; i < 4; i++)
        if (i < count) v[i] = from[i];
#pragma unroll
    for (int part = 0; part < PARTS; part++)
#pragma unroll
      for (int h = 0; h < 2; h++) {
        b[part][h] = __byte_perm(__float_as_uint(v[2 * h]), __float_as_uint(v[2 * h + 1]), 0x7632);
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; i++) {
          f32 cut = __uint_as_float(__float_as_uint(v[i]) & 0xffff0000);
          v[i] = v[i] == cut ? 0 : v[i] - cut;  // infinity leaves no rest
        }
      }
  }
};

// q - zero of a step as operand A. Integers are put into the low bits of a large float's mantissa:
// its subtraction is exact. |zero|: in both halves.
DEVICE u32 multiply_add_pairs(u32 x, u32 y, u32 z, f16*) {
  asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x) : "r"(y), "r"(z));
  return x;
}
DEVICE u32 multiply_add_pairs(u32 x, u32 y, u32 z, bf16*) {
  asm("fma.rn.bf16x2 %0, %0, %1, %2;" : "+r"(x) : "r"(y), "r"(z));
  return x;
}
// x & mask | bits in one instruction: the compiler takes two for constants.
DEVICE u32 masked_with(u32 x, u32 mask, u32 bits) {
  asm("lop3.b32 %0, %0, %1, %2, 0xea;" : "+r"(x) : "r"(mask), "r"(bits));
  return x;
}
// 4 bits.
DEVICE void unpack_weights(const u32* w, const u32* zero, u32* a, f16* type) {
  u32 words[2] = {w[0], w[0] >> 8};
#pragma unroll
  for (int i = 0; i < 2; i++) {  // 1024 + q, 1024 + 16 q
    a[2 * i] = multiply_add_pairs(masked_with(words[i], 0x000f000f, 0x64006400), 0x3c003c00,
                                  0xe400e400 + zero[0], type);
    a[2 * i + 1] = multiply_add_pairs(masked_with(words[i], 0x00f000f0, 0x64006400), 0x2c002c00,
                                      0xd400d400 + zero[1] * 16, type);
  }
}
DEVICE void unpack_weights(const u32* w, const u32* zero, u32* a, bf16* type) {
#pragma unroll
  for (int i = 0; i < 4; i++)  // 128 + q
    a[i] = multiply_add_pairs(masked_with(w[0] >> 4 * i, 0x000f000f, 0x43004300), 0x3f803f80,
                              0xc300c300 + zero[i % 2], type);
}
// 8 bits.
DEVICE void unpack_bytes(const u32* w, const u32* zero, u32* a, f16* type) {
#pragma unroll
  for (int i = 0; i < 4; i++)
    a[i] = multiply_add_pairs(__byte_perm(w[i % 2], 0x64646464, i < 2 ? 0x4140 : 0x4342),
                              0x3c003c00, 0xe400e400 + zero[i % 2], type);
}
DEVICE void unpack_bytes(const u32* w, const u32* zero, u32* a, bf16*) {
#pragma unroll
  for (int i = 0; i < 4; i++) {
    f32 bias = __uint_as_float(0x4b000000 + (zero[i % 2] & 0xffff));
    int first = i / 2 * 2;  // 2^23 + q
    f32 low = __uint_as_float(__byte_perm(w[i % 2], 0x4b000000, 0x7540 + first)),
        high = __uint_as_float(__byte_perm(w[i % 2], 0x4b000000, 0x7541 + first));
    a[i] = mma<bf16>::pair(low - bias, high - bias);
  }
}

// Step |step| of a tile's |words|.
template <int BITS, class T>
DEVICE void unpack_step(const u32* words, int step, const u32* zero, u32* a, T* type) {
  if constexpr (BITS == 4)
    unpack_weights(words + step, zero, a, type);
  else
    unpack_bytes(words + step * 2, zero, a, type);
}

// Zero points of columns g and g + 8, each in both halves, from their word.
DEVICE void weight_only_zeros(u32 word, u32* zero) {
  zero[0] = __byte_perm(word, 0, 0x1010), zero[1] = __byte_perm(word, 0, 0x3232);
}
// Scales of columns g and g + 8 from their one or two words. 16-bit scales beside x of FP32 are
// FP16.
template <class T>
struct weight_only_scale {
  typedef f16 half;
};
template <>
struct weight_only_scale<bf16> {
  typedef bf16 half;
};
template <class T>
DEVICE void weight_only_scales(bool is_half, u32 low, u32 high, f32* scales) {
  typename weight_only_scale<T>::half first, second;
  first.bits = (u16)low, second.bits = (u16)(low >> 16);
  scales[0] = is_half ? load(first) : __uint_as_float(low);
  scales[1] = is_half ? load(second) : __uint_as_float(high);
}

// The sum |v| of row |m| and column |n| with bias, residual and activation.
template <class T>
DEVICE void weight_only_store(const carnot_cuda_weight_only_params& p, i64 m, int n, f32 v) {
  const i64 at = m * p.columns + n;
  if (p.bias) v += p.bias[n];
  if (p.residual) v += load(((const T*)p.residual)[at]);
  ((T*)p.y)[at] = store_as<T>::of(activate(p.activation, p.low, p.high, v));
}

// Sums of all slices in their order, then bias, residual and activation. |sums|: of rows 8d .. 8d+7
// and column group |c| of |part|; |all|: shared memory.
template <class T, int ROWS, int COLUMNS, int SLICES, int DOWN, int ACROSS>
DEVICE void weight_only_finish(const carnot_cuda_weight_only_params& p, f32 (*sums)[ACROSS][4],
                               i64 m0, f32* all) {
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, slice = warp % SLICES,
            part = warp / SLICES;
#pragma unroll
  for (int d = 0; d < DOWN; d++)
#pragma unroll
    for (int c = 0; c < ACROSS; c++)
#pragma unroll
      for (int e = 0; e < 4; e++)
        all[(slice * ROWS + d * 8 + lane % 4 * 2 + e % 2) * COLUMNS + (part * ACROSS + c) * 16 +
            e / 2 * 8 + lane / 4] = sums[d][c][e];
  __syncthreads();
  for (int i = threadIdx.x; i < ROWS * COLUMNS; i += CARNOT_CUDA_WEIGHT_ONLY_THREADS) {
    i64 m = m0 + i / COLUMNS;
    int n = blockIdx.x * COLUMNS + i % COLUMNS;
    if (m >= p.rows || n >= p.columns) continue;
    f32 v = 0;
#pragma unroll
    for (int s = 0; s < SLICES; s++) v += all[s * ROWS * COLUMNS + i];
    weight_only_store<T>(p, m, n, v);
  }
}

#endif
