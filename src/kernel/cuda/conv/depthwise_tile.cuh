// Depthwise convolution of NHWC 16-bit floats by tiles: a block stages 64 channels of its pixels,
// with their halo, and the weights in shared memory. A warp computes SPAN adjacent results of a
// row, two channels a lane.
#pragma once

#include "kernel/cuda/common/activation.cuh"
#include "kernel/cuda/common/async_copy.cuh"
#include "kernel/cuda/common/half2.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/conv/depthwise_params.h"

template <class T, int COLUMNS, int STEP>
struct depthwise_tile {
  enum {
    SPAN = CARNOT_CUDA_DEPTHWISE_SPAN,
    WIDE = (SPAN - 1) * STEP + COLUMNS,
    PIECES = CARNOT_CUDA_DEPTHWISE_CHANNELS / 8,  // 16-byte vectors of a pixel
    PAIRS = CARNOT_CUDA_DEPTHWISE_CHANNELS / 2
  };
  const carnot_cuda_depthwise_params& p;
  half8 *taps, *pixels;     // shared: [kernel rows][COLUMNS][PIECES], [lines][width][PIECES]
  int pieces, first, wide;  // vectors of a pixel; of them the block's first, and how many
  int width, lines;         // of the staged pixels
  int row, column;          // the block's first result
  i64 image;

  DEVICE_ONLY void place(char* shared) {
    int across = (p.columns + p.spans * SPAN - 1) / (p.spans * SPAN);
    pieces = p.channels / 8, first = blockIdx.y * PIECES, wide = lo((int)PIECES, pieces - first);
    width = (p.spans * SPAN - 1) * STEP + COLUMNS;
    lines = (p.tile_rows - 1) * p.step[0] + (p.kernel[0] - 1) * p.dilation[0] + 1;
    row = blockIdx.x / across * p.tile_rows, column = blockIdx.x % across * p.spans * SPAN;
    image = blockIdx.z;
    taps = (half8*)shared, pixels = taps + p.kernel[0] * COLUMNS * PIECES;
  }
  DEVICE_ONLY void stage_weights() const {
    int c = threadIdx.x % PIECES;
    if (c >= wide) return;
    for (int t = threadIdx.x / PIECES; t < p.kernel[0] * COLUMNS; t += blockDim.x / PIECES)
      copy_async(taps + t * PIECES + c, (const half8*)p.w + t * pieces + first + c);
  }
  DEVICE_ONLY void stage_pixels() const {
    int c = threadIdx.x % PIECES, y0 = row * p.step[0] - p.begin[0],
        x0 = column * STEP - p.begin[1];
    const int pitch = p.x_pitch / 8;
    const half8* x = (const half8*)p.x + image * p.in_rows * p.in_columns * pitch + first + c;
    if (c >= wide) return;
    for (int i = threadIdx.x / PIECES; i < lines * width; i += blockDim.x / PIECES) {
      int y = y0 + i / width, at = x0 + i % width;
      half8 none = {};
      if ((u32)y < (u32)p.in_rows && (u32)at < (u32)p.in_columns)
        copy_async(pixels + i * PIECES + c, x + (i64)(y * p.in_columns + at) * pitch);
      else
        pixels[i * PIECES + c] = none;
    }
  }
  // sum[2 * k + h]: result k of channel h.
  DEVICE_ONLY void add_row(const u32* line, const u32* weights, f32* sum) const {
    u32 x[WIDE], w[COLUMNS];
#pragma unroll
    for (int i = 0; i < WIDE; i++) x[i] = line[i * PAIRS];
#pragma unroll
    for (int s = 0; s < COLUMNS; s++) w[s] = weights[s * PAIRS];
#pragma unroll
    for (int h = 0; h < 2; h++) {
      f32 in[WIDE], weight[COLUMNS];
#pragma unroll
      for (int i = 0; i < WIDE; i++) in[i] = half2_at(x[i], h, (T*)0);
#pragma unroll
      for (int s = 0; s < COLUMNS; s++) weight[s] = half2_at(w[s], h, (T*)0);
#pragma unroll
      for (int s = 0; s < COLUMNS; s++)
#pragma unroll
        for (int k = 0; k < SPAN; k++)
          sum[2 * k + h] = fmaf(in[k * STEP + s], weight[s], sum[2 * k + h]);
    }
  }
  DEVICE_ONLY void compute() const {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, r = warp / p.spans,
        s = warp % p.spans * SPAN;
    if (lane >= wide * 4 || row + r >= p.rows || column + s >= p.columns) return;
    const u32* line = (const u32*)pixels + (r * p.step[0] * width + s * STEP) * PAIRS + lane;
    const u32* weights = (const u32*)taps + lane;
    f32 sum[2 * SPAN], bias[2] = {0, 0};
    i64 channel = first * 4 + lane;  // in pairs
    u32 biases = p.bias ? ((const u32*)p.bias)[channel] : 0;
    if (p.bias) bias[0] = half2_at(biases, 0, (T*)0), bias[1] = half2_at(biases, 1, (T*)0);
    for (int i = 0; i < 2 * SPAN; i++) sum[i] = bias[i % 2];
#pragma unroll 1
    for (int k = 0; k < p.kernel[0]; k++) {
      add_row(line, weights, sum);
      line += p.dilation[0] * width * PAIRS, weights += COLUMNS * PAIRS;
    }
    activate8(p.activation, p.low, p.high, sum);
    u32* y = (u32*)p.y + ((image * p.rows + row + r) * p.columns + column + s) * (p.y_pitch / 2);
#pragma unroll
    for (int k = 0; k < SPAN; k++)
      if (column + s + k < p.columns)
        y[(i64)k * (p.y_pitch / 2) + channel] = pack_two(sum[2 * k], sum[2 * k + 1], (T*)0);
  }
#ifdef __CUDACC__
  DEVICE_ONLY void run() {
    extern __shared__ __align__(16) char shared[];
    place(shared);
    stage_weights();
    wait_for_previous();
    stage_pixels();
    copy_async_wait();
    __syncthreads();
    compute();
  }
#endif
};
