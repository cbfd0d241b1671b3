// Stem convolutions of bytes by implicit GEMM: up to four channels in planes (NCHW) to NHWC bytes,
// kernels of up to 8 x 8. As conv_stem.cuh, but a step is a whole filter row: eight columns of four
// channels, the K of one integer mma. Weights are zero beyond the window.
#pragma once

#include "kernel/cuda/conv/conv_small_channels.cuh"
#include "kernel/cuda/quantize/int8_epilogue.cuh"

#if __CUDA_ARCH__ >= 800

// The byte at |from|, |otherwise| where nothing is; no branch.
DEVICE u32 byte_if(const void* from, bool there, u32 otherwise) {
  u32 v = otherwise;
  asm volatile("{.reg .pred p;\nsetp.ne.s32 p, %2, 0;\n@p ld.global.u8 %0, [%1];}"
               : "+r"(v)
               : "l"(from), "r"((int)there));
  return v;
}

template <class X, int CHUNKS>
struct conv_stem_int8 {
  enum {
    TILES = 2,
    THREADS = CARNOT_CUDA_CONV_STEM_THREADS,
    MOST = CARNOT_CUDA_CONV_STEM_PATCH / THREADS
  };
  const carnot_cuda_conv_stem_int8_params& all;
  const carnot_cuda_conv_stem_params& p;
  char* weights;
  u32* patch;  // a pixel's four channels
  int lane, warp;
  u32 position[MOST];  // of this thread's pixels in the patch: row, column
  u32 pixel[MOST][4];  // of the next tile
  int from[TILES][2];  // of the rows' windows in the patch
  u32 to[TILES][2];    // of the rows in the tile: row, column
  int8_epilogue out;
  bool is_narrow;

  DEVICE_ONLY conv_stem_int8(const carnot_cuda_conv_stem_int8_params& params)
      : all(params), p(params.stem) {}

  DEVICE_ONLY void start() {
    extern __shared__ char memory[];
    int bytes = CHUNKS * p.kernel[0] * CHUNK_STEP;
    lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    weights = memory, patch = (u32*)(memory + bytes);
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
            (inside ? (int)row * p.step[0] * p.patch_columns + (int)column * p.step[1] : 0) +
            (lane & 3);
      }
    out.keep(all.epilogue, p.y, 0, p.filters);
    is_narrow = int8_epilogue::is_narrow(all.epilogue, p.filters);
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
    u32 zero = (u32)all.x_zero & 255;
#pragma unroll
    for (int i = 0; i < MOST; i++) {
      int row = y0 + (int)(position[i] >> 16), column = x0 + (int)(position[i] & 0xffff);
      bool inside = (u32)row < (u32)p.in_rows && (u32)column < (u32)p.in_columns &&
                    position[i] >> 16 < (u32)p.patch_rows;
      const X* first = x + (row * p.x_row + column * p.x_column);
#pragma unroll
      for (int c = 0; c < 4; c++)
        pixel[i][c] = byte_if(first + c * p.x_c, inside && c < p.channels, zero);
    }
  }
  DEVICE_ONLY void keep_patch() {
#pragma unroll
    for (int i = 0; i < MOST; i++)
      if (position[i] >> 16 < (u32)p.patch_rows)
        patch[threadIdx.x + i * THREADS] =
            pixel[i][0] | pixel[i][1] << 8 | pixel[i][2] << 16 | pixel[i][3] << 24;
  }

  DEVICE_ONLY void multiply(i32 (*sums)[TILES][4][4]) {
#pragma unroll 1
    for (int r = 0; r < p.kernel[0]; r++) {
      u32 a[TILES][4];
#pragma unroll
      for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const u32* v = patch + from[m][h] + r * p.patch_columns;
          a[m][h] = v[0], a[m][h + 2] = v[4];
        }
#pragma unroll
      for (int c = 0; c < CHUNKS; c++)
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
          half8 b =
              *(const half8*)(weights + (c * p.kernel[0] + r) * CHUNK_STEP + j * 256 + lane * 16);
#pragma unroll
          for (int m = 0; m < TILES; m++) {
            mma<X>::multiply(sums[c][m][j], a[m], b.two[0], b.two[1]);
            mma<X>::multiply(sums[c][m][j + 1], a[m], b.two[2], b.two[3]);
          }
        }
    }
  }

  template <bool BOUNDED, bool NARROW>
  DEVICE_ONLY void finish(int tile, i32 (*sums)[TILES][4][4]) {
    tile_at at = find(tile);
    byte8* y = (byte8*)p.y;
    int pieces = p.filters / 8, first = blockIdx.y * CHUNKS * 4 + (lane & 3);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
      int n = first + c * 4;
      if (n >= pieces) continue;
      out.read_channels<NARROW>(all.epilogue, n);
#pragma unroll
      for (int m = 0; m < TILES; m++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
          int row = at.row + (int)(to[m][r] >> 16), column = at.column + (int)(to[m][r] & 0xffff);
          i64 pixel = ((i64)at.image * p.out_rows + row) * p.out_columns + column;
          i32 v[8];
#pragma unroll
          for (int e = 0; e < 8; e++) v[e] = sums[c][m][e >> 1][2 * r + (e & 1)];
          byte8 bytes = out.template bytes_of<CARNOT_CUDA_INT8_REQUANTIZE, BOUNDED, NARROW>(v, {});
          if (row < p.out_rows && column < p.out_columns) y[pixel * pieces + n] = bytes;
        }
    }
  }

  DEVICE_ONLY void run() {
    start();
    wait_for_previous();
    int tile = blockIdx.x;
    read_patch(tile);
    for (int next; tile < p.tiles; tile = next) {
      next = tile + gridDim.x;
      __syncthreads();
      keep_patch();
      cp_async_wait<0>();
      __syncthreads();
      if (next < p.tiles) read_patch(next);
      i32 sums[CHUNKS][TILES][4][4] = {};
      multiply(sums);
      if (!is_narrow)
        finish<true, false>(tile, sums);
      else if (all.epilogue.is_bounded)
        finish<true, true>(tile, sums);
      else
        finish<false, true>(tile, sums);
    }
  }
};

#endif
