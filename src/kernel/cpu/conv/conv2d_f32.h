// 2-D and 3-D convolution, channels last, as an implicit GEMM: no im2col copy.
//   dst[n,p,q,k] = epilogue(sum_{r,s,c} src[n, p*stride_h + r*dilation_h - pad_h,
//                                           q*stride_w + s*dilation_w - pad_w, c] *
//                                           weights[r,s,c,k])
// |src| [N,H,W,C]: element (n,h,w,c) at n*src_n + h*src_h + w*src_w + c
// |weights| packed over K = (r,s,c), in the packing of each type, see gemm_f32.h  |bias| [K]
// |dst| [N*P*Q, K], pixels |ld| floats apart; the residual likewise
// |zeros| at least C floats of zero, read where a tap falls into the padding
// A call handles one group: channels of the group, pointers at its first channel.
// It computes pixels [m0,m1) of N*P*Q and channels [n0,n1), n0 a multiple of 16; disjoint calls may
// run at once, with the same bits however the work is cut. dst may not overlap src. Any thread.
// A 1-D convolution has H = R = 1. With |depth| there is one more dimension before rows: src
// [N,D,H,W,C], dst [N*O*P*Q, K], weights over K = (z,r,s,c), pixels of N*O*P*Q. Source: ONNX
// Conv-11.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_F32_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_F32_H_

#include <stdint.h>

#include "kernel/cpu/common/epilogue_f32.h"

typedef struct carnot_conv_depth {
  int64_t taps;  // 0: there is no such dimension
  int64_t in, out, stride, dilation, pad, src;
} carnot_conv_depth;

typedef struct carnot_conv2d_f32 {
  int64_t n, h, w, c;  // input
  int64_t p, q, k;     // output height, width, channels
  int64_t r, s;        // filter height, width
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  int64_t pad_h, pad_w;  // above and to the left; those below and right follow from p and q
  carnot_conv_depth depth;
  const float* src;
  int64_t src_n, src_h, src_w;
  const void* weights;
  const float* zeros;
  float* dst;
  int64_t ld;
  carnot_epilogue_f32 epilogue;
} carnot_conv2d_f32;

typedef void carnot_conv2d_f32_fn(const carnot_conv2d_f32* conv, int64_t m0, int64_t m1, int64_t n0,
                                  int64_t n1);
typedef carnot_conv2d_f32_fn carnot_conv2d_f16_fn, carnot_conv2d_bf16_fn;
// As the GEMMs of these names (gemm_f32.h).
typedef carnot_conv2d_f32_fn carnot_conv2d_split6_f32_fn, carnot_conv2d_split3_f32_fn;

#endif
