// 2-D convolution that reads and writes row-major pictures: vectors run along the width.
//   dst[k,p,q] = activation(bias[k] + sum_{c,r,s} weights[c,r,s,k] *
//                           src[c, p*stride_h + r*dilation_h - pad_h, q*stride_w + s*dilation_w -
//                           pad_w])
// One image and one group: |src| [C,H,W] and |dst| [K,P,Q] of dense planes,
// |src_plane| and |dst_plane| floats apart, |bias| [K] or NULL. |weights|:
// blocks of CARNOT_CONV2D_NCHW_BLOCK filters, the last of fewer, each [C,R,S, filters of the
// block]. Taps in the padding count as zero. S is at most CARNOT_CONV2D_NCHW_TAPS. A call computes
// the output rows [row0,row1) of all filters with a scratch of carnot_conv2d_nchw_scratch floats,
// the same bits however the rows are cut. Any thread. Source: ONNX Conv-11.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_NCHW_F32_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_NCHW_F32_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/common/epilogue_f32.h"

enum { CARNOT_CONV2D_NCHW_TAPS = 64, CARNOT_CONV2D_NCHW_BLOCK = 12 };

typedef struct carnot_conv2d_nchw_f32 {
  int64_t h, w, p, q, r, s;
  int64_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
  int64_t c, k;
  const float *src, *weights, *bias;
  float* dst;
  int64_t src_plane, dst_plane;
  carnot_kernel_activation activation;
  float a, b;
} carnot_conv2d_nchw_f32;

typedef void carnot_conv2d_nchw_f32_fn(const carnot_conv2d_nchw_f32* conv, int64_t row0,
                                       int64_t row1, float* scratch);

// The input is read where it lies: no column is in the padding.
static inline bool carnot_conv2d_nchw_in_place(const carnot_conv2d_nchw_f32* c) {
  return c->stride_w == 1 && c->pad_w == 0 && c->pad_h == 0 &&
         (c->q - 1) + (c->s - 1) * c->dilation_w < c->w &&
         (c->p - 1) * c->stride_h + (c->r - 1) * c->dilation_h < c->h;
}
// Else the rows under a band of output rows are copied: columns of one phase, those at the same
// distance modulo the stride, follow one another, with zeros for the padding.
static inline int64_t carnot_conv2d_nchw_phase(const carnot_conv2d_nchw_f32* c) {
  return (c->q + 15) / 16 * 16 + ((c->s - 1) * c->dilation_w) / c->stride_w;
}
static inline int64_t carnot_conv2d_nchw_band(const carnot_conv2d_nchw_f32* c, int64_t rows) {
  return (rows - 1) * c->stride_h + (c->r - 1) * c->dilation_h + 1;
}
static inline int64_t carnot_conv2d_nchw_scratch(const carnot_conv2d_nchw_f32* c, int64_t rows) {
  if (carnot_conv2d_nchw_in_place(c)) return 0;
  return c->c * carnot_conv2d_nchw_band(c, rows) * c->stride_w * carnot_conv2d_nchw_phase(c) + 32;
}

#endif
