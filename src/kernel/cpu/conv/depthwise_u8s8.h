// Depthwise integer convolution, channels last: one filter a channel, bytes by s8, sums exact.
//   sum[n,p,q,c] = sum_{r,s} (src[n, p*stride_h + r*dilation_h - pad_h,
//                                 q*stride_w + s*dilation_w - pad_w, c] + shift) * weights[r,s,c]
//   dst[n,p,q,c] = epilogue(sum[n,p,q,c])                        (common/epilogue_int8.h)
// shift = 128 for signed src (s8), 0 for unsigned (u8). The zero point z of src is part of the
// bias: bias[c] = bias_q[c] - (z + shift) * sum_{r,s} weights[r,s,c]; a tap in the padding reads
// |border| (C bytes holding z). |src| [N,H,W,C]: element (n,h,w,c) at n*src_n + h*src_h + w*src_w +
// c |weights| packed t4n32 s8: for each panel of 32 channels and four taps (r,s) in order, 128
// bytes; channel i of the panel and tap t at (i % 16 / 4) * 32 + i / 16 * 16 + i % 4 * 4 + t; zero
// beyond the last tap and C (carnot_pack_t4n32_s8). |dst| [N*P*Q, C], pixels |ld| elements apart. A
// call computes output rows [row0,row1) of N*P; disjoint calls may run at once. At most 128 taps.
// Any thread. Source: ONNX QLinearConv-10 with group = C.
#ifndef CARNOT_KERNEL_CPU_CONV_DEPTHWISE_U8S8_H_
#define CARNOT_KERNEL_CPU_CONV_DEPTHWISE_U8S8_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/common/epilogue_int8.h"

enum { CARNOT_DEPTHWISE_INT8_MAX_TAPS = 128 };

typedef struct carnot_depthwise_u8s8 {
  int64_t n, h, w, c;  // input
  int64_t p, q;        // output height, width
  int64_t r, s;        // filter height, width
  int64_t stride_h, stride_w, dilation_h, dilation_w;
  int64_t pad_h, pad_w;  // above and to the left
  const void* src;
  int64_t src_n, src_h, src_w;
  bool src_signed;
  const int8_t* weights;
  const void* border;
  void* dst;
  int64_t ld;
  carnot_int8_epilogue epilogue;
} carnot_depthwise_u8s8;

typedef void carnot_depthwise_u8s8_fn(const carnot_depthwise_u8s8* conv, int64_t row0,
                                      int64_t row1);

// Bytes of packed weights, and packing in portable C: weight (tap, c) is
// weights[tap * stride_tap + c * stride_c].
static inline int64_t carnot_packed_t4n32_bytes(int64_t taps, int64_t c) {
  return (c + 31) / 32 * ((taps + 3) / 4) * 128;
}
void carnot_pack_t4n32_s8(int64_t taps, int64_t c, const int8_t* weights, int64_t stride_tap,
                          int64_t stride_c, int8_t* packed);

#endif
