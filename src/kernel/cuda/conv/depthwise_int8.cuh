// Depthwise convolution of NHWC bytes: eight channels per thread, with the whole epilogue. Bytes of
// four columns are transposed, so that one dp4a adds four taps of a filter row.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/transpose_bytes.cuh"
#include "kernel/cuda/conv/depthwise_int8_params.h"
#include "kernel/cuda/quantize/int8_epilogue.cuh"

// sum + the dot product of four bytes of X with four of int8.
template <class X>
DEVICE i32 dot4(u32 x, u32 w, i32 sum) {
#if __CUDA_ARCH__ >= 610
  if constexpr ((X)-1 < 0)
    asm("dp4a.s32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(w));
  else
    asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(sum) : "r"(x), "r"(w));
#else
  for (int e = 0; e < 4; e++) sum += (i32)(X)(x >> e * 8) * (i32)(i8)(w >> e * 8);
#endif
  return sum;
}

// What both kernels know of their thread.
template <class P>
struct depthwise_int8_at {
  u32 pieces, c;
  int column, row;
  i64 image;
  const byte8* x;
  const half8* w;
  u32 outside;  // x's zero point in each byte

  // |spans|: threads of a line.
  DEVICE_ONLY void find(const P& p, u32 rest, u32 spans, u32 span) {
    pieces = (u32)p.channels / 8, c = rest % pieces, rest /= pieces;
    column = rest % spans * span, rest /= spans;
    row = rest % p.rows, image = rest / p.rows;
    x = (const byte8*)p.x + image * p.in_rows * p.in_columns * pieces + c;
    w = (const half8*)p.w + c * 2;
    outside = (u32)(p.x_zero & 255) * 0x01010101u;
  }
  // Weights of group |g| of four taps: a word a channel.
  DEVICE_ONLY void read_weights(int g, u32* to) {
    for (int i = 0; i < 2; i++) {
      half8 four = w[(i64)g * pieces * 2 + i];
      for (int e = 0; e < 4; e++) to[i * 4 + e] = four.two[e];
    }
  }
};

// Any window.
template <class X>
DEVICE void depthwise_int8(const carnot_cuda_depthwise_int8_params& p) {
  depthwise_int8_at<carnot_cuda_depthwise_int8_params> at;
  i64 i = THREAD;
  if (i >= p.count) return;
  at.find(p, (u32)i, (u32)p.columns, 1);
  int y0 = at.row * p.step[0] - p.begin[0], x0 = at.column * p.step[1] - p.begin[1];
  i32 sums[8] = {};
  for (int r = 0; r < p.kernel[0]; r++)
    for (int s = 0; s < p.kernel[1]; s++) {
      int y = y0 + r * p.dilation[0], x = x0 + s * p.dilation[1];
      bool inside = (u32)y < (u32)p.in_rows && (u32)x < (u32)p.in_columns;
      byte8 none = {{at.outside, at.outside}},
            v = inside ? at.x[((i64)y * p.in_columns + x) * at.pieces] : none;
      u32 weights[8];
      at.read_weights(r * ((p.kernel[1] + 3) / 4) + s / 4, weights);
      for (int e = 0; e < 8; e++)
        sums[e] += (i32)(X)(v.four[e / 4] >> e % 4 * 8) * (i32)(i8)(weights[e] >> s % 4 * 8);
    }
  int8_epilogue out;
  out.keep(p.epilogue, p.y, p.count / at.pieces, p.channels);
  out.read_channels(p.epilogue, (int)at.c);
  i64 pixel = (at.image * p.rows + at.row) * p.columns + at.column;
  out.put<CARNOT_CUDA_INT8_GENERAL>(sums, out.residual_at(pixel, (int)at.c), pixel, (int)at.c);
}

// A square window and strides known at compile time, without dilation; SPAN adjacent results per
// thread.
template <class X, int KERNEL, int STEP, int SPAN>
struct depthwise_int8_span {
  enum {
    WIDE = (SPAN - 1) * STEP + KERNEL,
    GROUPS = (KERNEL + 3) / 4,                                       // of four taps of a filter row
    WORDS = SPAN == 1 ? GROUPS : (SPAN - 1) * STEP / 4 + GROUPS + 1  // of four columns each
  };
  const carnot_cuda_depthwise_int8_params& p;
  depthwise_int8_at<carnot_cuda_depthwise_int8_params> at;
  i32 sums[SPAN][8];

  // Line |y| of x, filter row |r|.
  DEVICE_ONLY void add_line(int y, int x0, int r) {
    bool inside = (u32)y < (u32)p.in_rows;
    byte8 line[WORDS * 4];
#pragma unroll
    for (int i = 0; i < WORDS * 4; i++) {
      byte8 none = {{at.outside, at.outside}};
      line[i] = none;
      if (i < WIDE && inside && (u32)(x0 + i) < (u32)p.in_columns)
        line[i] = at.x[(y * p.in_columns + x0 + i) * at.pieces];
    }
#pragma unroll
    for (int half = 0; half < 2; half++) {
      u32 columns[WORDS][4];  // bytes of four columns of a channel
#pragma unroll
      for (int q = 0; q < WORDS; q++) {
        u32 four[4];
        for (int i = 0; i < 4; i++) four[i] = line[q * 4 + i].four[half];
        transpose4(four, columns[q]);
      }
#pragma unroll
      for (int g = 0; g < GROUPS; g++) {
        half8 weights = at.w[(i64)(r * GROUPS + g) * at.pieces * 2 + half];
#pragma unroll
        for (int k = 0; k < SPAN; k++) {
          int first = k * STEP + g * 4, word = first / 4, shift = first % 4;
#pragma unroll
          for (int e = 0; e < 4; e++) {
            u32 x =
                shift ? __byte_perm(columns[word][e], columns[word + 1][e], 0x3210 + 0x1111 * shift)
                      : columns[word][e];
            sums[k][half * 4 + e] = dot4<X>(x, weights.two[e], sums[k][half * 4 + e]);
          }
        }
      }
    }
  }
  template <int FORM, bool BOUNDED, bool NARROW>
  DEVICE_ONLY void finish(int8_epilogue& out) {
    out.read_channels<NARROW>(p.epilogue, (int)at.c);
    i64 pixel = (at.image * p.rows + at.row) * p.columns + at.column;
#pragma unroll
    for (int k = 0; k < SPAN; k++)
      if (at.column + k < p.columns)
        out.put<FORM, BOUNDED, NARROW>(sums[k], out.residual_at(pixel + k, (int)at.c), pixel + k,
                                       (int)at.c);
  }
  DEVICE_ONLY void run() {
    u32 spans = (u32)(p.columns + SPAN - 1) / SPAN;
    at.find(p, (u32)THREAD, spans, SPAN);
    if (at.image >= p.images) return;
    int y0 = at.row * STEP - p.begin[0], x0 = at.column * STEP - p.begin[1];
    for (int k = 0; k < SPAN; k++)
      for (int e = 0; e < 8; e++) sums[k][e] = 0;
#pragma unroll
    for (int r = 0; r < KERNEL; r++) add_line(y0 + r, x0, r);
    int8_epilogue out;
    out.keep(p.epilogue, p.y, (i64)p.images * p.rows * p.columns, p.channels);
    if (out.form != CARNOT_CUDA_INT8_REQUANTIZE)
      finish<CARNOT_CUDA_INT8_GENERAL, true, false>(out);
    else if (!int8_epilogue::is_narrow(p.epilogue, p.channels))
      finish<CARNOT_CUDA_INT8_REQUANTIZE, true, false>(out);
    else if (p.epilogue.is_bounded)
      finish<CARNOT_CUDA_INT8_REQUANTIZE, true, true>(out);
    else
      finish<CARNOT_CUDA_INT8_REQUANTIZE, false, true>(out);
  }
};
