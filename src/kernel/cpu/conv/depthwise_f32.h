// Depthwise 2-D convolution, channels last: one filter a channel. Operands and results in memory
// are float32 or BF16, which is rounded once when it is stored; sums are float32.
//   dst[n,p,q,c] = epilogue(sum_{r,s} src[n, p*stride_h + r*dilation_h - pad_h,
//                                         q*stride_w + s*dilation_w - pad_w, c] * weights[r,s,c])
// |src| [N,H,W,C]: element (n,h,w,c) at n*src_n + h*src_h + w*src_w + c
// |weights| packed k1n16 f32 with K = (r,s), N = c  |bias| [C]
// |dst| [N*P*Q, C], pixels |ld| floats apart; the residual likewise
// A call computes output rows [row0,row1) of N*P; disjoint calls may run at once, with the same
// bits however the work is cut. A BF16 result takes the activations NONE, RELU and CLIP. Taps in
// the padding are left out. dst may not overlap src; the residual may be dst itself. Any thread.
// Source: ONNX Conv-11 with group = C.
#ifndef CARNOT_KERNEL_CPU_CONV_DEPTHWISE_F32_H_
#define CARNOT_KERNEL_CPU_CONV_DEPTHWISE_F32_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/common/epilogue_f32.h"

typedef struct carnot_depthwise_f32 {
  int64_t n, h, w, c;  // input
  int64_t p, q;        // output height, width
  int64_t r, s;        // filter height, width
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  int64_t pad_h, pad_w;  // above and to the left
  const void* src;
  int64_t src_n, src_h, src_w;  // in elements
  const float* weights;
  void* dst;
  int64_t ld;
  carnot_epilogue_f32 epilogue;  // whose residual has the type of dst
  bool src_is_bf16, dst_is_bf16;
} carnot_depthwise_f32;

typedef void carnot_depthwise_f32_fn(const carnot_depthwise_f32* conv, int64_t row0, int64_t row1);

#endif
