// Integer GEMM and convolution: activations of one byte, weights s8, accumulated in s32, exact.
//   sum[m,n] = sum_k (a[m,k] + shift) * b[k,n],  shift = 128 for signed a (s8), 0 for unsigned (u8)
//   dst[m,n] = epilogue(sum[m,n])                                (common/epilogue_int8.h)
// The zero point z of a is part of the bias: bias[n] = bias_q[n] - (z + shift) * sum_k b[k,n].
// |a| is read through row pointers like conv2d_f32: a matrix (rows |lda| bytes apart), or the
// pixels [N,H,W,C] under a filter of R*S taps, |border| (C bytes holding z) for those in the
// padding. |b| packed k4n16 s8: for each panel of 16 columns and tap, ceil(C / 4) steps of 16
// columns by 4 consecutive k; zero beyond C and N (carnot_pack_k4n16_s8). |dst| rows |ld| elements
// apart. A call computes rows [m0,m1)
// of columns [n0,n1), n0 a multiple of 16. At most 128 taps. Any thread. Source: ONNX
// QLinearConv-10, QLinearMatMul-21, MatMulInteger-10.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_U8S8_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_U8S8_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/common/epilogue_int8.h"

enum { CARNOT_INT8_MAX_TAPS = 128 };

typedef struct carnot_gemm_u8s8 {
  int64_t m, n, k;
  const void* a;
  int64_t lda;
  bool a_signed;
  const int8_t* b;
  void* dst;
  int64_t ld;
  carnot_int8_epilogue epilogue;
} carnot_gemm_u8s8;

typedef struct carnot_conv2d_u8s8 {
  int64_t n, h, w, c;  // input, one group
  int64_t p, q, k;     // output height, width, channels
  int64_t r, s;
  int64_t stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
  const void* src;
  int64_t src_n, src_h, src_w;
  bool src_signed;
  const int8_t* weights;
  const void* border;
  void* dst;
  int64_t ld;
  carnot_int8_epilogue epilogue;
} carnot_conv2d_u8s8;

typedef void carnot_gemm_u8s8_fn(const carnot_gemm_u8s8* gemm, int64_t m0, int64_t m1, int64_t n0,
                                 int64_t n1);
typedef void carnot_conv2d_u8s8_fn(const carnot_conv2d_u8s8* conv, int64_t m0, int64_t m1,
                                   int64_t n0, int64_t n1);

// Bytes of packed weights, and packing in portable C: weight (n, tap, c) is
// weights[n * stride_n + tap * stride_tap + c * stride_c].
static inline int64_t carnot_packed_k4n16_bytes(int64_t taps, int64_t c, int64_t n) {
  return (n + 15) / 16 * taps * ((c + 3) / 4) * 64;
}

void carnot_pack_k4n16_s8(int64_t taps, int64_t c, int64_t n, const int8_t* weights,
                          int64_t stride_n, int64_t stride_tap, int64_t stride_c, int8_t* packed);
// Likewise with the depth of a tap filled up to a multiple of 64, for conv2d_s8_tiles.
static inline int64_t carnot_packed_k4n16d64_bytes(int64_t taps, int64_t c, int64_t n) {
  return carnot_packed_k4n16_bytes(taps, (c + 63) / 64 * 64, n);
}
void carnot_pack_k4n16d64_s8(int64_t taps, int64_t c, int64_t n, const int8_t* weights,
                             int64_t stride_n, int64_t stride_tap, int64_t stride_c,
                             int8_t* packed);
void carnot_unpack_k4n16_s8(int64_t taps, int64_t c, int64_t n, const int8_t* packed,
                            int64_t stride_n, int64_t stride_tap, int64_t stride_c,
                            int8_t* weights);

#endif
