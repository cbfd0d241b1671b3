// Convolution and GEMM of BF16 operands by the tiles of AMX; operands and results in memory are
// float32 or BF16.
//   dst[n,p,q,k] = epilogue(sum_{r,s,c} bf16(src[n, p*stride_h + r*dilation_h - pad_h,
//                                            q*stride_w + s*dilation_w - pad_w, c]) *
//                                       weights[r,s,c,k])
// Sizes, strides and the epilogue are those of carnot_conv2d_f32, whose pointers src, dst and
// epilogue.residual point to elements of the types below; strides count elements. A GEMM [M,K] by
// [K,N] is a 1x1 convolution over one row of M pixels.
// With few channels (a first layer) |joined| columns of the filter, or all of its R * S elements,
// are one tap of joined * C channels, see carnot_bf16_tiles_joined; columns beyond the filter have
// weights of zero. Up to CARNOT_BF16_TILES_MAX_PLANES such channels may lie |src_c| elements apart,
// with the pixels of a row side by side.
// |weights| packed as k2n16d32 bf16: the panels of k2n16 bf16 (pack_half.h) with the depth of a tap
// filled up with zeros to a multiple of 32, so that every tap begins with a tile.
// |scratch| carnot_conv2d_bf16_tiles_scratch bytes at a multiple of 64, for this call alone.
// Pixels are rounded to BF16 (nearest even, subnormal numbers to zero), sums are float32, results
// are rounded once when they are stored; GELU_ERF(x) without a residual is within 4e-5 |x| before
// it is rounded to BF16. A call computes pixels [m0,m1) of N*P*Q and channels [n0,n1), n0 a
// multiple of 16; disjoint calls may run at once, with the same bits however the work is cut. dst
// may not overlap src. Any thread. No depth dimension.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_BF16_TILES_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_BF16_TILES_H_

#include <stdbool.h>

#include "kernel/cpu/conv/conv2d_f32.h"

typedef struct carnot_conv2d_bf16_tiles {
  carnot_conv2d_f32 conv;
  bool src_is_bf16, dst_is_bf16, residual_is_bf16;  // else float32
  int64_t joined;                                   // columns of a tap; 0 and 1: one
  int64_t src_c;  // from a channel to the next; 0 and 1: side by side
  void* scratch;
} carnot_conv2d_bf16_tiles;

// A GEMM of [m,k], rows |lda| apart, by |n| columns to rows |ldc| apart: a 1x1 convolution over one
// row of pixels. Without pointers.
static inline carnot_conv2d_bf16_tiles carnot_conv2d_bf16_tiles_of_gemm(int64_t m, int64_t k,
                                                                        int64_t n, int64_t lda,
                                                                        int64_t ldc) {
  return (carnot_conv2d_bf16_tiles){.conv = {.n = 1,
                                             .h = 1,
                                             .w = m,
                                             .c = k,
                                             .p = 1,
                                             .q = m,
                                             .k = n,
                                             .r = 1,
                                             .s = 1,
                                             .stride_h = 1,
                                             .stride_w = 1,
                                             .dilation_h = 1,
                                             .dilation_w = 1,
                                             .src_n = m * lda,
                                             .src_h = m * lda,
                                             .src_w = lda,
                                             .ld = ldc}};
}

typedef void carnot_conv2d_bf16_tiles_fn(const carnot_conv2d_bf16_tiles* p, int64_t m0, int64_t m1,
                                         int64_t n0, int64_t n1);

enum { CARNOT_BF16_TILES_MAX_TAPS = 256, CARNOT_BF16_TILES_MAX_PLANES = 4 };

// The columns of a filter row that pay as one tap: pixels of half a tile's depth and less leave the
// rest of it to the pixels beside them.
static inline int64_t carnot_bf16_tiles_joined_columns(int64_t c, int64_t s, int64_t dilation_w) {
  if (c > 16 || dilation_w != 1) return 1;
  return 32 / c < s ? 32 / c : s;
}
// The elements of a filter that are one tap: all of them where they fit in a tile's row and more
// than a step's columns (32 of |k|) share the gathering, else columns of a row.
static inline int64_t carnot_bf16_tiles_joined(int64_t c, int64_t k, int64_t r, int64_t s,
                                               int64_t dilation_h, int64_t dilation_w) {
  if (r > 1 && k > 32 && r * s * c <= 32 && dilation_h == 1 && dilation_w == 1) return r * s;
  return carnot_bf16_tiles_joined_columns(c, s, dilation_w);
}
// The taps of a filter.
static inline int64_t carnot_bf16_tiles_taps(int64_t r, int64_t s, int64_t joined) {
  return joined > s ? 1 : r * ((s + joined - 1) / joined);
}

// Whether channels may lie |src_c| elements apart.
static inline bool carnot_bf16_tiles_takes_planes(int64_t c, int64_t joined) {
  return c <= CARNOT_BF16_TILES_MAX_PLANES && joined > 1;
}

// Whether the kernel takes these sizes: no more than CARNOT_BF16_TILES_MAX_TAPS taps, and the
// pixels under a few results fit in its copy.
bool carnot_conv2d_bf16_tiles_fits(const carnot_conv2d_bf16_tiles* p);
// Whether pixels are read where they lie, without a copy.
bool carnot_conv2d_bf16_tiles_in_place(const carnot_conv2d_bf16_tiles* p);
// Bytes of scratch of a call with these sizes, at most 1 MB where pixels are copied.
int64_t carnot_conv2d_bf16_tiles_scratch(const carnot_conv2d_bf16_tiles* p);

// Elements of weights packed as k2n16d32.
static inline int64_t carnot_packed_k2n16d32_count(int64_t taps, int64_t depth, int64_t n) {
  return taps * ((depth + 31) / 32 * 32) * ((n + 15) / 16 * 16);
}
// From k1n16 f32 (pack_f32.h) over K = (taps, depth). Portable C.
void carnot_pack_k2n16d32_bf16(int64_t taps, int64_t depth, int64_t n, const float* k1n16,
                               uint16_t* packed);

#endif
