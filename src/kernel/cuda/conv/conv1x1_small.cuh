// 1x1 convolutions of up to 128 channels, bound by memory: all weights stay in shared memory.
#pragma once

#include "kernel/cuda/conv/conv_small_channels.cuh"

#if __CUDA_ARCH__ >= 800

// A lane reads eight channels of each block of 32, two mma steps; a warp walks over tiles of 16
// rows and prefetches the next one into registers.
template <class T, int BLOCKS>
struct conv1x1_small {
  enum { THREADS = CARNOT_CUDA_CONV1X1_SMALL_THREADS, WARPS = THREADS / 32 };
  const carnot_cuda_conv1x1_small_params& p;
  int lane;
  DEVICE_ONLY conv1x1_small(const carnot_cuda_conv1x1_small_params& params) : p(params) {}

  // The index of vector |n| (eight elements) in row |r| (0: g, 1: g + 8) of a tile whose rows
  // have |pieces| vectors and are |pitch| apart; -1 out of range.
  DEVICE_ONLY i64 piece_of(int tile, int r, int n, int pieces, int pitch) {
    int row = tile * 16 + r * 8 + (lane >> 2);
    return row < p.rows && n < pieces ? (i64)row * pitch + n : -1;
  }
  DEVICE_ONLY half8 read_piece(const void* from, i64 at) {
    half8 none = {};
    return at < 0 ? none : ((const half8*)from)[at];
  }
  DEVICE_ONLY void read(int tile, half8 (*x)[BLOCKS]) {
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int b = 0; b < BLOCKS; b++)
        x[r][b] =
            read_piece(p.x, piece_of(tile, r, b * 4 + (lane & 3), p.channels / 8, p.x_pitch / 8));
  }

  DEVICE_ONLY void chunk(int tile, int c, const half8 (*x)[BLOCKS], const char* weights,
                         const f32* bias) {
    i64 at[2];
    half8 residual[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
      int n = c * 4 + (lane & 3), pieces = p.filters / 8;
      at[r] = piece_of(tile, r, n, pieces, p.y_pitch / 8);
      if (p.residual) residual[r] = read_piece(p.residual, piece_of(tile, r, n, pieces, pieces));
    }
    f32 sums[1][4][4];
    begin_chunk<1>(sums, bias);
#pragma unroll
    for (int s = 0; s < 2 * BLOCKS; s++) {
      u32 a[1][4];
#pragma unroll
      for (int i = 0; i < 4; i++) a[0][i] = x[i & 1][s >> 1].two[(s & 1) * 2 + (i >> 1)];
      multiply_chunk<T, 1>(sums, a, weights + s * CHUNK_STEP);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      if (p.residual)
#pragma unroll
        for (int e = 0; e < 8; e++) sums[0][e >> 1][2 * r + (e & 1)] += half8_at<T>(residual[r], e);
      half8 y = finish_chunk<T>(sums[0], r, p.activation, p.low, p.high);
      if (at[r] >= 0) ((half8*)p.y)[at[r]] = y;
    }
  }

  DEVICE_ONLY void run() {
    extern __shared__ char memory[];
    int chunks = (p.filters + 31) / 32, bytes = chunks * 2 * BLOCKS * CHUNK_STEP;
    lane = threadIdx.x & 31;
    for (int i = threadIdx.x * 16; i < bytes; i += THREADS * 16)
      cp_async16(shared_address(memory + i), (const char*)p.w + i, 16);
    cp_async_commit();
    wait_for_previous();
    int tiles = (p.rows + 15) / 16, tile = blockIdx.x * WARPS + (threadIdx.x >> 5);
    half8 x[2][BLOCKS], next[2][BLOCKS];
    read(tile, x);
    f32* bias = (f32*)(memory + bytes);
    keep_bias<T>(bias, p.bias, p.filters, chunks * 32);
    cp_async_wait<0>();
    __syncthreads();
    for (; tile < tiles; tile += gridDim.x * WARPS) {
      read(tile + gridDim.x * WARPS, next);
      for (int c = 0; c < chunks; c++)
        chunk(tile, c, x, memory + c * 2 * BLOCKS * CHUNK_STEP, bias + c * 32 + (lane & 3) * 8);
#pragma unroll
      for (int i = 0; i < 2 * BLOCKS; i++) x[i & 1][i >> 1] = next[i & 1][i >> 1];
    }
  }
};

#endif
