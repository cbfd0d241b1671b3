// GEMM of few rows of floats by packed integer weights with scales, at the rate of the memory. The
// weights are operand A of mma.sync, 16 columns at a time, the rows of x operand B: no row of
// the tensor core idles at 8 rows of x. Warps of a block take turns along K; each reads its own
// tiles through a ring of cp.async copies that only the same thread reads, so no barrier is
// needed. Sums of a block's scales are multiplied in float32.
#pragma once

#include "kernel/cuda/gemm/weight_only_operands.cuh"

#if __CUDA_ARCH__ >= 800

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
  // The numbers of a tile as operand A, and its scales.
  DEVICE_ONLY void take(int stage, int c, u32 (*a)[4], f32 (*scales)[2]) {
    half8 w = *(const half8*)weights_at(stage, c);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      u32 zero[2] = {p.zero, p.zero};
      if (p.zeros) weight_only_zeros(*(const u32*)zeros_at(stage, c, g), zero);
      const u32* words = (const u32*)scales_at(stage, c, g);
      weight_only_scales<T>(p.has_half_scales, words[0], words[1], scales[g]);
#pragma unroll
      for (int s = g * (STEPS / GROUPS); s < (g + 1) * (STEPS / GROUPS); s++)
        unpack_step<BITS>(w.two, s, zero, a[s], (number*)0);
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
    __syncthreads();
    weight_only_finish<T, ROWS, COLUMNS, SLICES, DOWN, ACROSS>(p, sums, m0, (f32*)memory);
  }
};

#endif
