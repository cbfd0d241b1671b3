// Resizing of images, channels last, separable, by tables that hold what the coordinate mode says.
//   dst[n,p,q,c] = sum_{r < taps_h} sum_{s < taps_w} h_weight[p,r] * w_weight[q,s]
//                                                    * src[n, h_index[p,r], w_index[q,s], c]
// One tap is nearest (its weight is not read), two are linear, four are cubic.
// |src| [N,H,W,C] float32 or BF16: element (n,h,w,c) at n*src_n + h*src_h + w*src_w + c
// |dst| [N*P*Q, C] of the same type, pixels |ld| elements apart, not overlapping src
// |h_index|, |h_weight| [P,taps_h]; |w_index|, |w_weight| [Q,taps_w]; indices inside the image
// A call computes output rows [row0,row1) of N*P. Any thread. Source: ONNX Resize-19.
#ifndef CARNOT_KERNEL_CPU_RESAMPLE_RESIZE_F32_H_
#define CARNOT_KERNEL_CPU_RESAMPLE_RESIZE_F32_H_

#include <stdbool.h>
#include <stdint.h>

typedef struct carnot_resize_f32 {
  int64_t c, p, q;
  bool is_bf16;
  const void* src;
  int64_t src_n, src_h, src_w;
  void* dst;
  int64_t ld;
  int32_t taps_h, taps_w;
  const int32_t *h_index, *w_index;
  const float *h_weight, *w_weight;
} carnot_resize_f32;

typedef void carnot_resize_f32_fn(const carnot_resize_f32* resize, int64_t row0, int64_t row1);

#endif
