// Depthwise convolution of NHWC 16-bit floats: eight channels per thread, or two where channels are
// no eights.
#pragma once

#include "kernel/cuda/common/activation.cuh"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/half2.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/conv/depthwise_params.h"

template <class T>
DEVICE void depthwise(const carnot_cuda_depthwise_params& p) {
  i64 i = THREAD;
  if (i >= p.count) return;
  u32 pieces = (u32)p.channels / 8, rest = (u32)i;
  u32 c = rest % pieces;
  rest /= pieces;
  int column = rest % p.columns;
  rest /= p.columns;
  int row = rest % p.rows;
  i64 image = rest / p.rows;
  f32 sum[8];
  if (p.bias)
    unpack<T>(p.bias, c, sum);
  else
    for (int e = 0; e < 8; e++) sum[e] = 0;
  for (int r = 0; r < p.kernel[0]; r++) {
    int y = row * p.step[0] + r * p.dilation[0] - p.begin[0];
    if (y < 0 || y >= p.in_rows) continue;
    for (int s = 0; s < p.kernel[1]; s++) {
      int x = column * p.step[1] + s * p.dilation[1] - p.begin[1];
      if (x < 0 || x >= p.in_columns) continue;
      f32 a[8], w[8];
      unpack<T>(p.x, ((image * p.in_rows + y) * p.in_columns + x) * (p.x_pitch / 8) + c, a);
      unpack<T>(p.w, (i64)(r * p.kernel[1] + s) * pieces + c, w);
      for (int e = 0; e < 8; e++) sum[e] = fmaf(a[e], w[e], sum[e]);
    }
  }
  for (int e = 0; e < 8; e++) sum[e] = activate(p.activation, p.low, p.high, sum[e]);
  pack<T>(p.y, i / pieces * (p.y_pitch / 8) + c, sum);
}

// Two channels of SPAN adjacent results per thread, any window.
template <class T>
DEVICE void depthwise_pairs(const carnot_cuda_depthwise_params& p) {
  enum { SPAN = CARNOT_CUDA_DEPTHWISE_SPAN };
  u32 pairs = (u32)p.channels / 2, rest = (u32)THREAD, spans = (u32)(p.columns + SPAN - 1) / SPAN,
      pitch = (u32)p.x_pitch / 2;
  u32 c = rest % pairs;
  rest /= pairs;
  int column = rest % spans * SPAN;
  rest /= spans;
  int row = rest % p.rows;
  u32 image = rest / p.rows;
  if (image >= p.images) return;
  int x0 = column * p.step[1] - p.begin[1], y0 = row * p.step[0] - p.begin[0];
  const u32* x = (const u32*)p.x + (i64)image * p.in_rows * p.in_columns * pitch + c;
  const u32* w = (const u32*)p.w + c;
  const u32 bias = p.bias ? ((const u32*)p.bias)[c] : 0;
  f32 sum[2 * SPAN];
  for (int i = 0; i < 2 * SPAN; i++) sum[i] = p.bias ? half2_at(bias, i % 2, (T*)0) : 0.f;
  for (int r = 0; r < p.kernel[0]; r++) {
    int y = y0 + r * p.dilation[0];
    if ((u32)y >= (u32)p.in_rows) continue;
    for (int s = 0; s < p.kernel[1]; s++) {
      const u32 weight = w[(r * p.kernel[1] + s) * pairs];
      u32 in[SPAN];
#pragma unroll
      for (int k = 0; k < SPAN; k++) {
        int at = x0 + k * p.step[1] + s * p.dilation[1];
        in[k] = (u32)at < (u32)p.in_columns ? x[(y * p.in_columns + at) * pitch] : 0;
      }
#pragma unroll
      for (int i = 0; i < 2 * SPAN; i++)
        sum[i] = fmaf(half2_at(in[i / 2], i % 2, (T*)0), half2_at(weight, i % 2, (T*)0), sum[i]);
    }
  }
  activate8(p.activation, p.low, p.high, sum);
  const i64 apart = p.y_pitch / 2;
  u32* to = (u32*)p.y + (((i64)image * p.rows + row) * p.columns + column) * apart + c;
#pragma unroll
  for (int k = 0; k < SPAN; k++)
    if (column + k < p.columns) to[k * apart] = pack_two(sum[2 * k], sum[2 * k + 1], (T*)0);
}

// WIDE pixels from column |x0| of row |y|, zeros outside of the image. The address is always
// inside, so that no load is predicated and all rows' loads are issued at once.
template <int WIDE>
DEVICE void read_line(const carnot_cuda_depthwise_params& p, const half8* x, u32 pitch, int y,
                      int x0, half8* line) {
  const bool inside = (u32)y < (u32)p.in_rows;
  const int row = (inside ? y : 0) * p.in_columns;
#pragma unroll
  for (int i = 0; i < WIDE; i++) {
    const bool has = inside && (u32)(x0 + i) < (u32)p.in_columns;
    half8 v = x[(row + (has ? x0 + i : 0)) * pitch], none = {};
    line[i] = has ? v : none;
  }
}

// Square kernels and strides known at compile time, SPAN adjacent results per thread: shared
// inputs and the weights of a row are loaded once. Weights do not depend on the previous kernel:
// those of a single result, else of the first row, are loaded before the kernel waits for it.
template <class T, int KERNEL, int STEP, int SPAN>
DEVICE void depthwise_span(const carnot_cuda_depthwise_params& p) {
  enum {
    WIDE = (SPAN - 1) * STEP + KERNEL,
    ROWS = SPAN == 1 ? KERNEL : 1  // whose loads are issued at once
  };
  u32 pieces = (u32)p.channels / 8, rest = (u32)THREAD, spans = (u32)(p.columns + SPAN - 1) / SPAN,
      pitch = (u32)p.x_pitch / 8;
  u32 c = rest % pieces;
  const half8* w = (const half8*)p.w + c;
  half8 taps[ROWS][KERNEL], lines[ROWS][WIDE], bias = {};
#pragma unroll
  for (int s = 0; s < ROWS * KERNEL; s++) taps[s / KERNEL][s % KERNEL] = w[s * pieces];
  rest /= pieces;
  int column = rest % spans * SPAN;
  rest /= spans;
  int row = rest % p.rows;
  u32 image = rest / p.rows;
  const bool idle = image >= p.images;
  if (idle) image = 0;
  int x0 = column * STEP - p.begin[1], y0 = row * STEP - p.begin[0];
  const half8* x = (const half8*)p.x + (i64)image * p.in_rows * p.in_columns * pitch + c;
  wait_for_previous();
  if (p.bias) bias = ((const half8*)p.bias)[c];
  if (ROWS > 1) {
    u32 any = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      read_line<WIDE>(p, x, pitch, y0 + r, x0, lines[r]);
#pragma unroll
      for (int i = 0; i < WIDE; i++) any |= lines[r][i].two[0];
    }
    // Sums begin with a number that all loads decide, to no effect (gridDim.y is 1): the compiler
    // would move loads behind arithmetic to save registers.
    for (int i = 0; i < 4; i++) bias.two[i] ^= any & (gridDim.y - 1);
  }
  f32 sum[SPAN][8];
#pragma unroll
  for (int k = 0; k < SPAN; k++)
    for (int e = 0; e < 8; e++) sum[k][e] = half8_at<T>(bias, e);
#pragma unroll
  for (int r = 0; r < KERNEL; r++) {
    half8(&line)[WIDE] = lines[r % ROWS];
    half8(&tap)[KERNEL] = taps[r % ROWS];
    if (ROWS == 1) read_line<WIDE>(p, x, pitch, y0 + r, x0, line);
    if (r >= ROWS)
#pragma unroll
      for (int s = 0; s < KERNEL; s++) tap[s] = w[(r * KERNEL + s) * pieces];
#pragma unroll
    for (int e = 0; e < 8; e++) {
      f32 in[WIDE], weight[KERNEL];
#pragma unroll
      for (int i = 0; i < WIDE; i++) in[i] = half8_at<T>(line[i], e);
#pragma unroll
      for (int s = 0; s < KERNEL; s++) weight[s] = half8_at<T>(tap[s], e);
#pragma unroll
      for (int k = 0; k < SPAN; k++)
#pragma unroll
        for (int s = 0; s < KERNEL; s++) sum[k][e] = fmaf(in[k * STEP + s], weight[s], sum[k][e]);
    }
  }
#pragma unroll
  for (int k = 0; k < SPAN; k++) {
    if (idle || column + k >= p.columns) continue;
    activate8(p.activation, p.low, p.high, sum[k]);
    pack<T>(p.y, (((i64)image * p.rows + row) * p.columns + column + k) * (p.y_pitch / 8) + c,
            sum[k]);
  }
}
