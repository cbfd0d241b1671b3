// Depthwise integer convolution, channels last: one filter a channel, bytes by s8, sums exact.
//   sum[n,p,q,c] = sum_{r,s} src[n, p*stride_h + r*dilation_h - pad_h,
//                                q*stride_w + s*dilation_w - pad_w, c] * weights[r,s,c]
//   dst[n,p,q,c] = epilogue(sum[n,p,q,c])                        (common/epilogue_int8.h)
// The zero point z of src is part of the bias: bias[c] = bias_q[c] - z * sum_{r,s} weights[r,s,c];
// a tap in the padding reads |border| (C bytes holding z).
// |src| [N,H,W,C]: element (n,h,w,c) at n*src_n + h*src_h + w*src_w + c
// |weights| packed t2n16 s16: for each panel of 16 channels and pair of taps (r,s) in order, 16
// channels by 2 taps as int16; zero beyond the last tap and C (carnot_pack_t2n16_s16).
// |dst| [N*P*Q, C], pixels |ld| elements apart. A call computes output rows [row0,row1) of N*P;
// disjoint calls may run at once. At most 64 taps. Any thread. Source: ONNX QLinearConv-10 with
// group = C.
#ifndef CARNOT_KERNEL_CPU_CONV_DEPTHWISE_U8S8_H_
#define CARNOT_KERNEL_CPU_CONV_DEPTHWISE_U8S8_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/common/epilogue_int8.h"

enum { CARNOT_DEPTHWISE_INT8_MAX_TAPS = 64 };

typedef struct carnot_depthwise_u8s8 {
  int64_t n, h, w, c;  // input
  int64_t p, q;        // output height, width
  int64_t r, s;        // filter height, width
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  int64_t pad_h, pad_w;  // above and to the left
  const void* src;
  int64_t src_n, src_h, src_w;
  bool src_signed;
  const int16_t* weights;
  const void* border;
  void* dst;
  int64_t ld;
  carnot_int8_epilogue epilogue;
} carnot_depthwise_u8s8;

typedef void carnot_depthwise_u8s8_fn(const carnot_depthwise_u8s8* conv, int64_t row0,
                                      int64_t row1);

// Elements of packed weights, and packing in portable C: weight (tap, c) is
// weights[tap * stride_tap + c * stride_c].
static inline int64_t carnot_packed_t2n16_count(int64_t taps, int64_t c) {
  return (c + 15) / 16 * ((taps + 1) / 2) * 32;
}
void carnot_pack_t2n16_s16(int64_t taps, int64_t c, const int8_t* weights, int64_t stride_tap,
                           int64_t stride_c, int16_t* packed);

#endif
