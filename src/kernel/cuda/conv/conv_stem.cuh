// Stem convolutions by implicit GEMM: up to four channels of any strides and type, kernels of up to
// 12 x 12.
#pragma once

#include "kernel/cuda/conv/conv_small_channels.cuh"

#if __CUDA_ARCH__ >= 800

// A step is four columns of a filter row, four channels each. A block keeps the weights of
// CHUNKS chunks and walks over tiles of up to 128 results. The patch of x that a tile reads is
// loaded into registers during the tile before, then stored to shared memory as 16-bit floats.
template <class T, class X, int CHUNKS, int QUADS>
struct conv_stem {
  enum {
    TILES = 2,
    THREADS = CARNOT_CUDA_CONV_STEM_THREADS,
    MOST = CARNOT_CUDA_CONV_STEM_PATCH / THREADS
  };
  const carnot_cuda_conv_stem_params& p;
  char *weights, *patch;
  f32* bias;
  int lane, warp;
  u32 position[MOST];  // of this thread's pixels in the patch: row, column
  u32 pixel[MOST][4];  // of the next tile: the bits of its channels
  int from[TILES][2];  // of the rows' windows in the patch, in bytes
  u32 to[TILES][2];    // of the rows in the tile: row, column

  DEVICE_ONLY conv_stem(const carnot_cuda_conv_stem_params& params) : p(params) {}

  DEVICE_ONLY void start() {
    extern __shared__ char memory[];
    int steps = p.kernel[0] * QUADS, bytes = CHUNKS * steps * CHUNK_STEP;
    lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    weights = memory, bias = (f32*)(memory + bytes), patch = (char*)(bias + CHUNKS * 32);
    const char* w = (const char*)p.w + (i64)blockIdx.y * bytes;
    for (int i = threadIdx.x * 16; i < bytes; i += THREADS * 16)
      cp_async16(shared_address(weights + i), w + i, 16);
    cp_async_commit();
#pragma unroll
    for (int i = 0; i < MOST; i++) {
      u32 at = threadIdx.x + i * THREADS;
      position[i] = at / p.patch_columns << 16 | at % p.patch_columns;
    }
#pragma unroll
    for (int m = 0; m < TILES; m++)
      for (int r = 0; r < 2; r++) {
        u32 at = (warp * TILES + m) * 16 + r * 8 + (lane >> 2), row = at / p.tile_columns,
            column = at % p.tile_columns;
        bool inside = row < (u32)p.tile_rows;
        to[m][r] = inside ? row << 16 | column : ~0u;
        from[m][r] =
            inside
                ? ((int)row * p.step[0] * p.patch_columns + (int)column * p.step[1] + (lane & 3)) *
                      8
                : 0;
      }
  }

  // The tile's image, and its first row and column of results.
  struct tile_at {
    int image, row, column;
  };
  DEVICE_ONLY tile_at find(int tile) {
    int line = tile / p.tiles_across, image = line / p.tiles_down;
    return {image, (line - image * p.tiles_down) * p.tile_rows,
            (tile - line * p.tiles_across) * p.tile_columns};
  }

  DEVICE_ONLY void read_patch(int tile) {
    tile_at at = find(tile);
    const X* x = (const X*)p.x + at.image * p.x_n;
    int y0 = at.row * p.step[0] - p.begin[0], x0 = at.column * p.step[1] - p.begin[1];
#pragma unroll
    for (int i = 0; i < MOST; i++) {
      int row = y0 + (int)(position[i] >> 16), column = x0 + (int)(position[i] & 0xffff);
      bool inside = (u32)row < (u32)p.in_rows && (u32)column < (u32)p.in_columns &&
                    position[i] >> 16 < (u32)p.patch_rows;
      const X* from = x + (row * p.x_row + column * p.x_column);
#pragma unroll
      for (int c = 0; c < 4; c++) pixel[i][c] = bits_if(from + c * p.x_c, inside && c < p.channels);
    }
  }
  DEVICE_ONLY void keep_patch() {
#pragma unroll
    for (int i = 0; i < MOST; i++)
      if (position[i] >> 16 < (u32)p.patch_rows)
        ((half4*)patch)[threadIdx.x + i * THREADS] = {
            {pair_of<T, X>::bits(pixel[i][0], pixel[i][1]),
             pair_of<T, X>::bits(pixel[i][2], pixel[i][3])}};
  }

  DEVICE_ONLY void multiply(f32 (*sums)[TILES][4][4]) {
    // Columns beyond the window belong to other outputs and may be infinite, so they are masked
    // to zero. The mask is opaque to the compiler: with a visible condition it would diverge the
    // warp in front of the mma instructions.
    u32 within = (QUADS - 1) * 4 + (lane & 3) < p.kernel[1] ? ~0u : 0;
    asm volatile("" : "+r"(within));
    int steps = p.kernel[0] * QUADS;
    for (int r = 0; r < p.kernel[0]; r++)
#pragma unroll
      for (int q = 0; q < QUADS; q++) {
        u32 a[TILES][4];
#pragma unroll
        for (int m = 0; m < TILES; m++)
#pragma unroll
          for (int h = 0; h < 2; h++) {
            half4 v = *(const half4*)(patch + from[m][h] + (r * p.patch_columns + q * 4) * 8);
            u32 mask = q == QUADS - 1 ? within : ~0u;
            a[m][h] = v.two[0] & mask, a[m][h + 2] = v.two[1] & mask;
          }
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
          multiply_chunk<T, TILES>(sums[c], a, weights + (c * steps + r * QUADS + q) * CHUNK_STEP);
      }
  }

  DEVICE_ONLY void finish(int tile, f32 (*sums)[TILES][4][4]) {
    tile_at at = find(tile);
    half8* y = (half8*)p.y;
    int pieces = p.filters / 8, first = blockIdx.y * CHUNKS * 4 + (lane & 3);
#pragma unroll
    for (int m = 0; m < TILES; m++)
#pragma unroll
      for (int r = 0; r < 2; r++) {
        int row = at.row + (int)(to[m][r] >> 16), column = at.column + (int)(to[m][r] & 0xffff);
        if (row >= p.out_rows || column >= p.out_columns) continue;
        i64 pixel = ((i64)at.image * p.out_rows + row) * p.out_columns + column;
#pragma unroll
        for (int c = 0; c < CHUNKS; c++)
          if (first + c * 4 < pieces)
            y[pixel * pieces + first + c * 4] =
                finish_chunk<T>(sums[c][m], r, p.activation, p.low, p.high);
      }
  }

  DEVICE_ONLY void run() {
    start();
    wait_for_previous();
    int tile = blockIdx.x, filter = blockIdx.y * CHUNKS * 32;
    read_patch(tile);
    keep_bias<T>(bias, p.bias ? (const T*)p.bias + filter : nullptr, p.filters - filter,
                 CHUNKS * 32);
    for (int next; tile < p.tiles; tile = next) {
      next = tile + gridDim.x;
      __syncthreads();
      keep_patch();
      cp_async_wait<0>();
      __syncthreads();
      if (next < p.tiles) read_patch(next);
      f32 sums[CHUNKS][TILES][4][4];
#pragma unroll
      for (int c = 0; c < CHUNKS; c++) begin_chunk<TILES>(sums[c], bias + c * 32 + (lane & 3) * 8);
      multiply(sums);
      finish(tile, sums);
    }
  }
};

#endif
