// Pooling over windows of pixels, channels last.
//   max:     dst[n,p,q,c] = max over the window's pixels inside the input; NaN if one of them is
//   average: dst[n,p,q,c] = sum over the same pixels / count
// count is the number of those pixels, or with |include_padding| of the window's elements inside
// the input and its padding (pads before and after). A window without a pixel gives -inf or NaN (0
// / 0), an average over padding alone 0. |src| [N,H,W,C]: element (n,h,w,c) at n*src_n + h*src_h +
// w*src_w + c |dst| [N*P*Q, C], pixels |ld| elements apart, not overlapping src. A call computes
// output rows [row0,row1) of N*P. A maximum may have |depth|, one more dimension before rows as
// that of a convolution has, and output rows of N*out*P. Any thread. Source: ONNX MaxPool-12,
// AveragePool-19.
#ifndef CARNOT_KERNEL_CPU_POOL_POOL_F32_H_
#define CARNOT_KERNEL_CPU_POOL_POOL_F32_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/conv/conv2d_f32.h"

typedef struct carnot_pool_f32 {
  int64_t n, h, w, c;  // input
  int64_t p, q;        // output height, width
  int64_t r, s;        // window height, width
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  int64_t pad_h, pad_w;          // above and to the left
  int64_t pad_h_end, pad_w_end;  // below and to the right; only counts use them
  carnot_conv_depth depth;       // 0 taps: there is none
  bool include_padding;
  bool src_is_bf16, dst_is_bf16;  // elements of src and dst are BF16, computed with in float32
  const void* src;
  int64_t src_n, src_h, src_w;
  void* dst;
  int64_t ld;
} carnot_pool_f32;

typedef void carnot_max_pool_f32_fn(const carnot_pool_f32* pool, int64_t row0, int64_t row1);
typedef void carnot_average_pool_f32_fn(const carnot_pool_f32* pool, int64_t row0, int64_t row1);

#endif
