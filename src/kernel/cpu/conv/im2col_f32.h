// im2col of an image of few channels: the matrix whose rows are the pixels under each output.
//   dst[m, (r,s,c)] = held[p * stride_h + r * dilation_h, q * stride_w + s * dilation_w, c],
//                     m = p * Q + q
// |held| input rows with their padding, channels innermost: row h counts from the first one of the
// padding and lies in slot h % held_rows, slots carnot_im2col_held_row floats apart; each has
// carnot_im2col_held_width pixels and, behind them, readable floats of any value  |dst| [m1 - m0,
// R*S*C] dense, and CARNOT_IM2COL_SLACK floats more, of any value. A call makes rows [m0,m1).
// Exact; amxbf16 only. Any thread. Source: ONNX Conv-11.
#ifndef CARNOT_KERNEL_CPU_CONV_IM2COL_F32_H_
#define CARNOT_KERNEL_CPU_CONV_IM2COL_F32_H_

#include <stdint.h>

enum {
  CARNOT_IM2COL_SLACK = 16,    // floats that are read and written beyond what is held and made
  CARNOT_IM2COL_MAX_RUNS = 64  // of a filter: its rows, or, where columns are dilated, its taps
};

typedef struct carnot_im2col_f32 {
  int64_t c, q, r, s;  // channels, output width, filter height and width
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  const float* held;
  int64_t held_rows;
} carnot_im2col_f32;

// Pixels that a held row has.
static inline int64_t carnot_im2col_held_width(const carnot_im2col_f32* c) {
  return (c->q - 1) * c->stride_w + (c->s - 1) * c->dilation_w + 1;
}

// Floats from one held row to the next.
static inline int64_t carnot_im2col_held_row(const carnot_im2col_f32* c) {
  return (carnot_im2col_held_width(c) * c->c + CARNOT_IM2COL_SLACK + 15) / 16 * 16;
}

typedef void carnot_im2col_f32_fn(const carnot_im2col_f32* c, int64_t m0, int64_t m1, float* dst);

#endif
