// Convolution by 3x3 filters of stride 1 as F(2x2,3x3): 16 products a channel for four results,
// instead of 36.
//   dst[n,p,q,k] = epilogue(sum_{r,s,c} src[n, p + r - pad_h, q + s - pad_w, c] * w[r,s,c,k])
//   four results = A^T [sum_c (G w G^T) * (B^T d B)] A over tiles d of 4x4 pixels
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, section 4.1.
// |conv| as for carnot_conv2d_f32 with R = S = 3, strides and dilations of 1, no depth; no residual
// in place. |weights| the transformed filters, packed by carnot_pack_winograd_f32
// |workspace| carnot_conv2d_winograd_f32_workspace(C) floats, for this call alone
// Sums are float32. An error is relative to the largest products of its tile, so that an infinity
// may reach results whose own window does not hold it. A call computes rows [row0,row1) of N *
// ceil(P / 2) rows of tiles and channels [n0,n1), n0 a multiple of 16; disjoint calls may run at
// once, with the same bits however the work is cut. dst may not overlap src. Any thread.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_WINOGRAD_F32_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_WINOGRAD_F32_H_

#include "kernel/cpu/conv/conv2d_f32.h"

enum {
  CARNOT_WINOGRAD_POINTS = 16,   // of a transformed tile
  CARNOT_WINOGRAD_COLUMNS = 64,  // output channels that are transformed together
  CARNOT_WINOGRAD_DEPTH = 64,    // input channels that one accumulator sums
  CARNOT_WINOGRAD_LEAST_TILES = 16,
  CARNOT_WINOGRAD_MOST_TILES = 96,
  CARNOT_WINOGRAD_FLOATS = 192 * 1024  // of a block of tiles before and after the products: L2
};

typedef struct carnot_conv2d_winograd_f32 {
  carnot_conv2d_f32 conv;
  float* workspace;
} carnot_conv2d_winograd_f32;

typedef void carnot_conv2d_winograd_f32_fn(const carnot_conv2d_winograd_f32* p, int64_t row0,
                                           int64_t row1, int64_t n0, int64_t n1);

// Tiles that are computed together.
static inline int64_t carnot_winograd_tiles(int64_t c) {
  const int64_t tiles =
      CARNOT_WINOGRAD_FLOATS / (CARNOT_WINOGRAD_POINTS * (c + CARNOT_WINOGRAD_COLUMNS));
  return tiles < CARNOT_WINOGRAD_LEAST_TILES  ? CARNOT_WINOGRAD_LEAST_TILES
         : tiles > CARNOT_WINOGRAD_MOST_TILES ? CARNOT_WINOGRAD_MOST_TILES
                                              : tiles;
}
// Floats from a point's matrix to the next: a line of the cache more than its size, lest all points
// fall on the same sets.
static inline int64_t carnot_winograd_apart(int64_t tiles, int64_t columns) {
  return tiles * columns + 16;
}
static inline int64_t carnot_conv2d_winograd_f32_workspace(int64_t c) {
  const int64_t tiles = carnot_winograd_tiles(c);
  return CARNOT_WINOGRAD_POINTS *
         (carnot_winograd_apart(tiles, c) + carnot_winograd_apart(tiles, CARNOT_WINOGRAD_COLUMNS));
}

// Floats of the transformed filters: for each point matrices of up to CARNOT_WINOGRAD_DEPTH
// channels by K in k1n16 f32 (pack_f32.h).
int64_t carnot_packed_winograd_count(int64_t c, int64_t k);
// From |weights| [K,C,3,3]. |scratch| has C * K floats. Portable C.
void carnot_pack_winograd_f32(int64_t k, int64_t c, const float* weights, float* scratch,
                              float* packed);

#endif
