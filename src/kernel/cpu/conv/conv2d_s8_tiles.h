// Integer convolution and GEMM by the tiles of AMX, exact.
//   sum[m,k] = sum_{r,s,c} src[n, p*stride_h + r*dilation_h - pad_h,
//                              q*stride_w + s*dilation_w - pad_w, c] * weights[r,s,c,k]
//   dst[m,k] = epilogue(sum[m,k])                                (common/epilogue_int8.h)
// Operands are those of carnot_conv2d_u8s8, but signed activations are multiplied as they are:
// bias[n] = bias_q[n] - z * sum_k b[k,n]. A GEMM [M,K] by [K,N] is a 1x1 convolution over one row
// of M pixels, and the only one whose pixels may overlap (src_w < c). |weights| packed as k4n16d64
// s8: the panels of k4n16 s8 with the depth of a tap filled up with zeros to a multiple of 64, so
// that every tap begins with a tile (gemm_u8s8.h). |scratch| carnot_conv2d_s8_tiles_scratch bytes
// at a multiple of 64, for this call alone. A call computes pixels [m0,m1) of N*P*Q and channels
// [n0,n1), n0 a multiple of 16; disjoint calls may run at once. dst may not overlap src. Any
// thread.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_S8_TILES_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_S8_TILES_H_

#include <stdbool.h>

#include "kernel/cpu/gemm/gemm_u8s8.h"

typedef struct carnot_conv2d_s8_tiles {
  carnot_conv2d_u8s8 conv;
  bool readable;  // no window leaves the input, and 64 bytes behind it may be read
  void* scratch;
} carnot_conv2d_s8_tiles;

typedef void carnot_conv2d_s8_tiles_fn(const carnot_conv2d_s8_tiles* p, int64_t m0, int64_t m1,
                                       int64_t n0, int64_t n1);

enum { CARNOT_S8_TILES_MAX_TAPS = 256 };

// Whether the kernel takes these sizes: no more than CARNOT_S8_TILES_MAX_TAPS taps, and the pixels
// under a few results fit in its copy.
bool carnot_conv2d_s8_tiles_fits(const carnot_conv2d_s8_tiles* p);
// Bytes of scratch of a call with these sizes, at most 512 KB where pixels are copied.
int64_t carnot_conv2d_s8_tiles_scratch(const carnot_conv2d_s8_tiles* p);

#endif
