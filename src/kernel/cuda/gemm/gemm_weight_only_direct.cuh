// GEMM of few rows of floats by packed integer weights with scales, at the rate of the memory:
// gemm_weight_only.cuh for whole tiles along K and blocks of 32 and more. Weights go from global
// memory to registers, a batch of tiles ahead of the products; nothing is checked inside the loop.
#pragma once

#include "kernel/cuda/gemm/weight_only_operands.cuh"

#if __CUDA_ARCH__ >= 800

// SPAN: steps of 16 k of one scale.
template <class T, int BITS, int SPAN, int ROWS, int COLUMNS, int SLICES>
struct gemm_weight_only_direct {
  typedef weight_only_type<T> type;
  typedef typename type::number number;
  enum {
    ACROSS = CARNOT_CUDA_WEIGHT_ONLY_ACROSS(COLUMNS, SLICES),
    DOWN = ROWS / 8,
    TILES = ACROSS == 1 && SPAN == 4 ? 4 : 2,  // of a batch
    TILE_STEPS = BITS == 4 ? 4 : 2,
    STEPS = TILES * TILE_STEPS,
    GROUPS = STEPS / SPAN,
    IS_AHEAD = DOWN <= 2  // x in two sets of registers
  };
  // Packed weights, scales and zero points of a batch.
  struct batch {
    u32 w[ACROSS][TILES][4], scales[ACROSS][GROUPS][2], zeros[ACROSS][GROUPS];
  };
  const carnot_cuda_weight_only_params& p;
  int lane;
  i64 column_groups[ACROSS];
  const T* x[DOWN];  // this lane's row; behind the last row it is read again and its sums dropped

  DEVICE_ONLY gemm_weight_only_direct(const carnot_cuda_weight_only_params& params) : p(params) {}

  static DEVICE_ONLY void read16(const void* from, u32* to) {
    asm volatile("ld.global.nc.L1::no_allocate.v4.b32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "l"(from));
  }
  // Tiles and blocks behind the last are read again.
  DEVICE_ONLY void fetch(int tile, batch& to) {
#pragma unroll
    for (int c = 0; c < ACROSS; c++) {
      const char* w = (const char*)p.w + column_groups[c] * p.tiles * 512 + lane * 16;
#pragma unroll
      for (int i = 0; i < TILES; i++) read16(w + (i64)lo(tile + i, p.tiles - 1) * 512, to.w[c][i]);
      const i64 first = column_groups[c] * p.blocks * 8 + lane / 4;
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        const i64 at = first + (i64)lo((tile * TILE_STEPS + g * SPAN) >> p.shift, p.blocks - 1) * 8;
        if (p.has_half_scales) {
          to.scales[c][g][0] = __ldg((const u32*)p.scales + at);
        } else {
          to.scales[c][g][0] = __ldg((const u32*)p.scales + at * 2);
          to.scales[c][g][1] = __ldg((const u32*)p.scales + at * 2 + 1);
        }
        if (p.zeros) to.zeros[c][g] = __ldg(p.zeros + at);
      }
    }
  }
  // Steps of group |g| as operand A, and their scales.
  DEVICE_ONLY void take(const batch& from, int c, int g, u32 (*a)[4], f32* scales) {
    u32 zero[2] = {p.zero, p.zero};
    if (p.zeros) {
      zero[0] = __byte_perm(from.zeros[c][g], 0, 0x1010);
      zero[1] = __byte_perm(from.zeros[c][g], 0, 0x3232);
    }
    weight_only_scales(p, from.scales[c][g][0], from.scales[c][g][1], scales);
#pragma unroll
    for (int i = 0; i < SPAN; i++) {
      const int s = g * SPAN + i;
      const u32* w = from.w[c][s / TILE_STEPS];
      if constexpr (BITS == 4)
        unpack_weights(w + s % TILE_STEPS, zero, a[i], (number*)0);
      else
        unpack_bytes(w + s % TILE_STEPS * 2, zero, a[i], (number*)0);
    }
  }
  // Operand B of the steps from |step| on; behind the last ones they are read again.
  DEVICE_ONLY void read_x(int step, u32 (*b)[SPAN][type::PARTS][2]) {
    const i64 first = (i64)lo(step, p.tiles * TILE_STEPS - SPAN) * 16;
#pragma unroll
    for (int d = 0; d < DOWN; d++)
#pragma unroll
      for (int i = 0; i < SPAN; i++) type::read(x[d], first + i * 16, 4, true, b[d][i]);
  }
  // |b|: operand B of the batch's first group; then of the next batch's. x is read a group ahead.
  DEVICE_ONLY void multiply(int tile, const batch& from, u32 (*b)[SPAN][type::PARTS][2],
                            f32 (*sums)[ACROSS][4]) {
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      const int step = tile * TILE_STEPS + g * SPAN;
      if (step >= p.tiles * TILE_STEPS) break;
      u32 ahead[DOWN][SPAN][type::PARTS][2];
      if (IS_AHEAD)
        read_x(g + 1 < GROUPS ? step + SPAN : (tile + SLICES * TILES) * TILE_STEPS, ahead);
      else
        read_x(step, b);
#pragma unroll
      for (int c = 0; c < ACROSS; c++) {
        u32 a[SPAN][4];
        f32 scales[2];
        take(from, c, g, a, scales);
#pragma unroll
        for (int d = 0; d < DOWN; d++) {
          f32 part[4] = {};
#pragma unroll
          for (int i = 0; i < SPAN; i++)
#pragma unroll
            for (int n = 0; n < type::PARTS; n++)
              mma<number>::multiply(part, a[i], b[d][i][n][0], b[d][i][n][1]);
#pragma unroll
          for (int e = 0; e < 4; e++) sums[d][c][e] = fmaf(part[e], scales[e / 2], sums[d][c][e]);
        }
      }
      if (IS_AHEAD)
#pragma unroll
        for (int i = 0; i < DOWN * SPAN * type::PARTS * 2; i++)
          ((u32*)b)[i] = ((const u32*)ahead)[i];
    }
  }
  DEVICE_ONLY void run() {
    extern __shared__ __align__(16) char memory[];
    const int warp = threadIdx.x / 32, slice = warp % SLICES, part = warp / SLICES;
    const i64 m0 = (i64)blockIdx.y * ROWS;
    lane = threadIdx.x % 32;
    // Behind the last one it is read again, and its sums are dropped.
#pragma unroll
    for (int c = 0; c < ACROSS; c++)
      column_groups[c] =
          lo((int)blockIdx.x * (COLUMNS / 16) + part * ACROSS + c, p.column_groups - 1);
    f32 sums[DOWN][ACROSS][4] = {};
#pragma unroll
    for (int d = 0; d < DOWN; d++) {
      i64 row = m0 + d * 8 + lane / 4;
      x[d] = (const T*)p.x + (row < p.rows ? row : p.rows - 1) * p.depth + lane % 4 * 4;
    }
    batch now, next;
    fetch(slice * TILES, now);
    wait_for_previous();
    u32 b[DOWN][SPAN][type::PARTS][2];
    if (IS_AHEAD) read_x(slice * TILES * TILE_STEPS, b);
    for (int tile = slice * TILES; tile < p.tiles; tile += SLICES * TILES) {
      fetch(tile + SLICES * TILES, next);
      multiply(tile, now, b, sums);
      now = next;
    }
    weight_only_finish<T, ROWS, COLUMNS, SLICES, DOWN, ACROSS>(p, sums, m0, (f32*)memory);
  }
};

#endif
