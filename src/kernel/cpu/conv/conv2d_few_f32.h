// 2-D convolution of few input channels, the first layer of a network, from any layout.
//   dst[n,p,q,k] = epilogue(sum_{c,r,s} src[n, c, p*stride_h + r*dilation_h - pad_h,
//                                           q*stride_w + s*dilation_w - pad_w] * weights[c,r,s,k])
// |src| element (n,c,h,w) at n*src_n + c*src_c + h*src_h + w*src_w
// |weights| packed k1n16 f32 with K = (c,r,s), N = k  |bias| [K]
// |dst| [N*P*Q, K], pixels |ld| floats apart; the residual likewise
// Results in memory are float32 or BF16, rounded once; BF16 takes the activations NONE, RELU and
// CLIP. A sum is one chain of C*R*S additions. A call computes output rows [row0,row1) of N*P;
// disjoint calls may run at once, with the same bits however the work is cut. Taps in the padding
// count as zero. dst may not overlap src; the residual may be dst itself. Any thread. Source: ONNX
// Conv-11.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_FEW_F32_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_FEW_F32_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/common/epilogue_f32.h"

typedef struct carnot_conv2d_few_f32 {
  int64_t n, h, w, c;  // input
  int64_t p, q, k;     // output height, width, channels
  int64_t r, s;        // filter height, width
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  int64_t pad_h, pad_w;  // above and to the left
  const float* src;
  int64_t src_n, src_c, src_h, src_w;
  const float* weights;
  void* dst;
  int64_t ld;                    // in elements
  carnot_epilogue_f32 epilogue;  // whose residual has the type of dst
  bool dst_is_bf16;
} carnot_conv2d_few_f32;

// The kernel takes windows under which CARNOT_CONV2D_FEW_PIXELS consecutive results have at most
// CARNOT_CONV2D_FEW_MAX_COLUMNS columns.
enum { CARNOT_CONV2D_FEW_PIXELS = 14, CARNOT_CONV2D_FEW_MAX_COLUMNS = 128 };
static inline int64_t carnot_conv2d_few_columns(const carnot_conv2d_few_f32* c, int64_t pixels) {
  return (pixels - 1) * c->stride_w + (c->s - 1) * c->dilation_w + 1;
}

typedef void carnot_conv2d_few_f32_fn(const carnot_conv2d_few_f32* conv, int64_t row0,
                                      int64_t row1);

#endif
