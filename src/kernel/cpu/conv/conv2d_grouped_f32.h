// Grouped 2-D convolution of few channels a group, channels last: sums stay in registers over the
// whole filter, and a vector of outputs may belong to several groups. Operands and results in
// memory are float32 or BF16, which is rounded once when it is stored; sums are float32.
//   dst[n,p,q,g*k+m] = epilogue(sum_{r,s,i} src[n, p*stride_h + r*dilation_h - pad_h,
//                                              q*stride_w + s*dilation_w - pad_w, g*c+i] *
//                                          weights[g*k+m,i,r,s])
// |src| [N,H,W,groups*C]: element (n,h,w,ch) at n*src_n + h*src_h + w*src_w + ch
// |weights| panels of 16 outputs packed k1n16 f32 with K = (r,i,s); a panel holds the outputs of
// 16 / k groups, or of one group where k is 16 or more  |bias| [groups*K]
// |dst| [N*P*Q, groups*K], pixels |ld| floats apart; the residual likewise
// k divides 16 and c is at most k, or k is 16 or more, or there is one group; a panel reads up to
// CARNOT_CONV2D_GROUPED_CHANNELS channels. A call computes panels [panel0,panel1) of output rows
// [row0,row1) of N*P; disjoint calls may run at once, with the same bits however the work is cut.
// Taps above and below the image are left out. dst may not overlap src; the residual may be dst
// itself. A BF16 result takes the activations NONE, RELU and CLIP. Any thread. Source: ONNX
// Conv-11.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_GROUPED_F32_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_GROUPED_F32_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/common/epilogue_f32.h"

enum {
  CARNOT_CONV2D_GROUPED_PIXELS = 14,  // of a row that any level computes together, at most
  CARNOT_CONV2D_GROUPED_ROWS = 4,     // a multiple of the rows that any level computes together
  CARNOT_CONV2D_GROUPED_COLUMNS = 96,
  CARNOT_CONV2D_GROUPED_CHANNELS = 32,
};

typedef struct carnot_conv2d_grouped_f32 {
  int64_t n, h, w;       // input
  int64_t groups, c, k;  // channels and outputs of a group
  int64_t p, q;          // output height, width
  int64_t r, s;          // filter height, width
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  int64_t pad_h, pad_w;  // above and to the left
  const void* src;
  int64_t src_n, src_h, src_w;  // in elements
  const float* weights;
  void* dst;
  int64_t ld;
  carnot_epilogue_f32 epilogue;  // whose residual has the type of dst
  bool src_is_bf16, dst_is_bf16;
} carnot_conv2d_grouped_f32;

typedef void carnot_conv2d_grouped_f32_fn(const carnot_conv2d_grouped_f32* conv, int64_t panel0,
                                          int64_t panel1, int64_t row0, int64_t row1);

// Input columns under |pixels| neighbouring outputs.
static inline int64_t carnot_conv2d_grouped_columns(const carnot_conv2d_grouped_f32* c,
                                                    int64_t pixels) {
  return (pixels - 1) * c->stride_w + (c->s - 1) * c->dilation_w + 1;
}

// The panels of a group of 16 outputs or more; of all groups.
static inline int64_t carnot_conv2d_grouped_panels_each(int64_t k) { return (k + 15) / 16; }
static inline int64_t carnot_conv2d_grouped_panels(int64_t groups, int64_t k) {
  return k < 16 ? (groups * k + 15) / 16 : groups * carnot_conv2d_grouped_panels_each(k);
}

// The first output of a panel, and how many it holds.
static inline int64_t carnot_conv2d_grouped_first(int64_t k, int64_t panel) {
  if (k < 16) return panel * 16;
  const int64_t each = carnot_conv2d_grouped_panels_each(k);
  return panel / each * k + panel % each * 16;
}
static inline int64_t carnot_conv2d_grouped_count(int64_t groups, int64_t k, int64_t panel) {
  const int64_t end = k < 16 ? groups * k : (panel / carnot_conv2d_grouped_panels_each(k) + 1) * k;
  const int64_t left = end - carnot_conv2d_grouped_first(k, panel);
  return left < 16 ? left : 16;
}

// Packs weights [groups*K, C, R, S] into |packed|, panels * 16 * C * R * S floats.
void carnot_pack_conv2d_grouped_f32(int64_t groups, int64_t k, int64_t c, int64_t r, int64_t s,
                                    const float* weights, float* packed);

#endif
