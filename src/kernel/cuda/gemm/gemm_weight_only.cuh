// GEMM of few rows of floats by packed integer weights with scales, at the rate of the memory. The
// weights are operand A of mma.sync, 16 columns at a time, the rows of x operand B: no row of
// the tensor core idles at 8 rows of x. Warps of a block take turns along K; each reads its own
// tiles through a ring of cp.async copies that only the same thread reads, so no barrier is
// needed. Sums of a block's scales are multiplied in float32.
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
// 4 bits.
DEVICE void unpack_weights(const u32* w, const u32* zero, u32* a, f16* type) {
  u32 words[2] = {w[0], w[0] >> 8};
#pragma unroll
  for (int i = 0; i < 2; i++) {  // 1024 + q, 1024 + 16 q
    a[2 * i] = multiply_add_pairs((words[i] & 0x000f000f) | 0x64006400, 0x3c003c00,
                                  0xe400e400 + zero[0], type);
    a[2 * i + 1] = multiply_add_pairs((words[i] & 0x00f000f0) | 0x64006400, 0x2c002c00,
                                      0xd400d400 + zero[1] * 16, type);
  }
}
DEVICE void unpack_weights(const u32* w, const u32* zero, u32* a, bf16* type) {
#pragma unroll
  for (int i = 0; i < 4; i++)  // 128 + q
    a[i] = multiply_add_pairs((w[0] >> 4 * i & 0x000f000f) | 0x43004300, 0x3f803f80,
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

template <class T, int BITS, int GROUPS, int ROWS, int COLUMNS, int SLICES>
struct gemm_weight_only {
  typedef weight_only_type<T> type;
  typedef typename type::number number;
  enum {
    ACROSS = CARNOT_CUDA_WEIGHT_ONLY_ACROSS(COLUMNS, SLICES),
    DOWN = ROWS / 8,
    STEPS = BITS == 4 ? 4 : 2,  // of a tile
    STAGES = CARNOT_CUDA_WEIGHT_ONLY_STAGES(ACROSS),
    SLOT = CARNOT_CUDA_WEIGHT_ONLY_SLOT(ACROSS, GROUPS)
  };
  const carnot_cuda_weight_only_params& p;
  char* ring;
  int lane, slice, part;  // |part|: of the block's columns
  i64 m0;
  f32 sums[DOWN][ACROSS][4];

  DEVICE_ONLY gemm_weight_only(const carnot_cuda_weight_only_params& params) : p(params) {}

  // Where this thread's part of a slot lies: weights, scales, zero points of column group |c|.
  DEVICE_ONLY char* weights_at(int stage, int c) {
    return ring + stage * SLOT + c * (SLOT / ACROSS) + lane * 16;
  }
  DEVICE_ONLY char* scales_at(int stage, int c, int group) {
    return ring + stage * SLOT + c * (SLOT / ACROSS) + 512 + group * 256 + lane * 8;
  }
  DEVICE_ONLY char* zeros_at(int stage, int c, int group) {
    return ring + stage * SLOT + c * (SLOT / ACROSS) + 512 + GROUPS * 256 + group * 128 + lane * 4;
  }
  DEVICE_ONLY void fetch(int tile, int stage) {
    if (tile < p.tiles)
#pragma unroll
      for (int c = 0; c < ACROSS; c++) {
        // Behind the last one it is read again, and its sums are dropped.
        i64 column_group =
            lo((int)blockIdx.x * (COLUMNS / 16) + part * ACROSS + c, p.column_groups - 1);
        cp_async16(shared_address(weights_at(stage, c)),
                   (const char*)p.w + (column_group * p.tiles + tile) * 512 + lane * 16, 16);
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
          int block = (tile * STEPS + g * (STEPS / GROUPS)) >> p.shift;
          i64 at = (column_group * p.blocks + block) * 8 + lane / 4;
          if (p.has_half_scales)
            cp_async<4>(shared_address(scales_at(stage, c, g)), (const char*)p.scales + at * 4, 4);
          else
            cp_async<8>(shared_address(scales_at(stage, c, g)), (const char*)p.scales + at * 8, 8);
          if (p.zeros) cp_async<4>(shared_address(zeros_at(stage, c, g)), p.zeros + at, 4);
        }
      }
    cp_async_commit();
  }
  DEVICE_ONLY void read_scales(const char* at, f32* scales) {
    u32 word = *(const u32*)at;
    f16 low, high;
    low.bits = (u16)word, high.bits = (u16)(word >> 16);
    scales[0] = p.has_half_scales ? load(low) : __uint_as_float(word);
    scales[1] = p.has_half_scales ? load(high) : *(const f32*)(at + 4);
  }
  // The numbers of a tile as operand A, and its scales.
  DEVICE_ONLY void take(int stage, int c, u32 (*a)[4], f32 (*scales)[2]) {
    half8 w = *(const half8*)weights_at(stage, c);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      u32 zero[2] = {p.zero, p.zero};
      if (p.zeros) {
        u32 both = *(const u32*)zeros_at(stage, c, g);
        zero[0] = __byte_perm(both, 0, 0x1010), zero[1] = __byte_perm(both, 0, 0x3232);
      }
      read_scales(scales_at(stage, c, g), scales[g]);
#pragma unroll
      for (int s = g * (STEPS / GROUPS); s < (g + 1) * (STEPS / GROUPS); s++)
        if constexpr (BITS == 4)
          unpack_weights(w.two + s, zero, a[s], (number*)0);
        else
          unpack_bytes(w.two + 2 * s, zero, a[s], (number*)0);
    }
  }
  // Operand B of a tile, rows 8d to 8d + 7; zero outside of x.
  DEVICE_ONLY void read_x(int tile, int d, u32 (*b)[type::PARTS][2]) {
    i64 row = m0 + d * 8 + lane / 4;
    bool aligned = p.depth % 4 == 0;
#pragma unroll
    for (int s = 0; s < STEPS; s++) {
      int k = (tile * STEPS + s) * 16 + lane % 4 * 4;
#pragma unroll
      for (int part = 0; part < type::PARTS; part++) b[s][part][0] = b[s][part][1] = 0;
      if (row < p.rows && k < p.depth)
        type::read(p.x, row * p.depth + k, p.depth - k, aligned, b[s]);
    }
  }
  // |first|: operand B of the first rows.
  static DEVICE_ONLY void copy(u32 (*to)[type::PARTS][2], const u32 (*from)[type::PARTS][2]) {
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
      for (int i = 0; i < type::PARTS; i++)
        to[s][i][0] = from[s][i][0], to[s][i][1] = from[s][i][1];
  }
  DEVICE_ONLY void multiply(int tile, int stage, const u32 (*first)[type::PARTS][2]) {
    u32 a[ACROSS][STEPS][4];
    f32 scales[ACROSS][GROUPS][2];
#pragma unroll
    for (int c = 0; c < ACROSS; c++) take(stage, c, a[c], scales[c]);
#pragma unroll
    for (int d = 0; d < DOWN; d++) {
      u32 b[STEPS][type::PARTS][2];
      if (d)
        read_x(tile, d, b);
      else
        copy(b, first);
#pragma unroll
      for (int c = 0; c < ACROSS; c++)
#pragma unroll
        for (int g = 0; g < GROUPS; g++) {
          f32 part[4] = {};
#pragma unroll
          for (int s = g * (STEPS / GROUPS); s < (g + 1) * (STEPS / GROUPS); s++)
#pragma unroll
            for (int i = 0; i < type::PARTS; i++)
              mma<number>::multiply(part, a[c][s], b[s][i][0], b[s][i][1]);
#pragma unroll
          for (int e = 0; e < 4; e++)
            sums[d][c][e] = fmaf(part[e], scales[c][g][e / 2], sums[d][c][e]);
        }
    }
  }
  // Sums of all slices in their order, then bias, residual and activation.
  DEVICE_ONLY void finish(f32* all) {
    __syncthreads();
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
      i64 at = m * p.columns + n;
      if (p.bias) v += p.bias[n];
      if (p.residual) v += load(((const T*)p.residual)[at]);
      ((T*)p.y)[at] = store_as<T>::of(activate(p.activation, p.low, p.high, v));
    }
  }
  DEVICE_ONLY void run() {
    extern __shared__ __align__(16) char memory[];
    const int warp = threadIdx.x / 32;
    lane = threadIdx.x % 32, slice = warp % SLICES, part = warp / SLICES;
    m0 = (i64)blockIdx.y * ROWS, ring = memory + warp * STAGES * SLOT;
#pragma unroll
    for (int d = 0; d < DOWN; d++)
#pragma unroll
      for (int c = 0; c < ACROSS; c++)
#pragma unroll
        for (int e = 0; e < 4; e++) sums[d][c][e] = 0;
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) fetch(slice + s * SLICES, s);
    wait_for_previous();
    u32 b[STEPS][type::PARTS][2];
    read_x(slice, 0, b);
    int stage = 0;
    for (int first = 0; first < p.tiles; first += SLICES) {
      // Warps that read the same x at the same time find it in the cache next to them.
      if (SLICES < 8) __syncthreads();
      const int tile = first + slice;
      cp_async_wait<STAGES - 2>();
      fetch(tile + (STAGES - 1) * SLICES, stage ? stage - 1 : STAGES - 1);
      u32 next[STEPS][type::PARTS][2];
      read_x(tile + SLICES, 0, next);
      if (tile < p.tiles) multiply(tile, stage, b);
      copy(b, next);
      stage = stage + 1 < STAGES ? stage + 1 : 0;
    }
    cp_async_wait<0>();
    finish((f32*)memory);
  }
};

#endif
