// Depthwise convolution of NHWC bytes: eight channels per thread, with the whole epilogue.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/conv/depthwise_int8_params.h"
#include "kernel/cuda/quantize/int8_epilogue.cuh"

template <class X>
DEVICE void multiply_bytes(i32* sums, const byte8& x, const byte8& w) {
#pragma unroll
  for (int e = 0; e < 8; e++)
    sums[e] += (i32)(X)(x.four[e / 4] >> e % 4 * 8) * (i32)(i8)(w.four[e / 4] >> e % 4 * 8);
}

// KERNEL: of a square window without dilation; 0: any.
template <class X, int KERNEL>
DEVICE void depthwise_int8(const carnot_cuda_depthwise_int8_params& p) {
  i64 i = THREAD;
  if (i >= p.count) return;
  u32 pieces = (u32)p.channels / 8, rest = (u32)i;
  u32 c = rest % pieces;
  rest /= pieces;
  i64 pixel = rest;
  int column = rest % p.columns;
  rest /= p.columns;
  int row = rest % p.rows;
  i64 image = rest / p.rows;
  int y0 = row * p.step[0] - p.begin[0], x0 = column * p.step[1] - p.begin[1];
  const byte8* x = (const byte8*)p.x + image * p.in_rows * p.in_columns * pieces + c;
  const byte8* w = (const byte8*)p.w + c;
  u32 zeros = (u32)(p.x_zero & 255) * 0x01010101u;
  byte8 outside = {{zeros, zeros}};
  i32 sums[8] = {};
  int8_epilogue out;
  out.keep(p.epilogue, p.y, p.count / pieces, p.channels);
  out.read_channels(p.epilogue, (int)c);
  byte8 residual = out.residual_at(pixel, (int)c);
  if constexpr (KERNEL != 0) {
    byte8 in[KERNEL][KERNEL];  // no branch: all loads are issued at once
#pragma unroll
    for (int r = 0; r < KERNEL; r++)
#pragma unroll
      for (int s = 0; s < KERNEL; s++)
        in[r][s] = (u32)(y0 + r) < (u32)p.in_rows && (u32)(x0 + s) < (u32)p.in_columns
                       ? x[((i64)(y0 + r) * p.in_columns + x0 + s) * pieces]
                       : outside;
#pragma unroll
    for (int r = 0; r < KERNEL; r++)
#pragma unroll
      for (int s = 0; s < KERNEL; s++)
        multiply_bytes<X>(sums, in[r][s], w[(r * KERNEL + s) * pieces]);
  } else {
    for (int r = 0; r < p.kernel[0]; r++)
      for (int s = 0; s < p.kernel[1]; s++) {
        int yy = y0 + r * p.dilation[0], xx = x0 + s * p.dilation[1];
        bool inside = (u32)yy < (u32)p.in_rows && (u32)xx < (u32)p.in_columns;
        multiply_bytes<X>(sums, inside ? x[((i64)yy * p.in_columns + xx) * pieces] : outside,
                          w[(i64)(r * p.kernel[1] + s) * pieces]);
      }
  }
  out.put(sums, residual, pixel, (int)c);
}
