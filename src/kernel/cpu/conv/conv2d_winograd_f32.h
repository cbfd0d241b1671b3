// Convolution by 3x3 filters of stride 1 as F(2x2,3x3): 16 products a channel for four results,
// instead of 36; or as F(4x4,3x3): 36 products for 16 results, instead of 144.
//   dst[n,p,q,k] = epilogue(sum_{r,s,c} src[n, p + r*dilation_h - pad_h, q + s*dilation_w - pad_w,
//   c]
//                                       * w[r,s,c,k])
//   side^2 results = A^T [sum_c (G w G^T) * (B^T d B)] A over tiles d of (side + 2)^2 pixels
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, section 4.1. The
// polynomials of F(4x4,3x3) are evaluated at 0, +-5/8, +-3/2 and infinity, which have half the
// error of 0, +-1, +-2 (Barabasz et al., Error Analysis and Improving the Accuracy of Winograd
// Convolution, 2020, section 4: points near one another in size, exact in few bits).
// The pixels and results of a tile are a dilation apart.
// |conv| as for carnot_conv2d_f32 with R = S = 3, strides of 1, no depth; the residual may be dst.
// |side| 2 or 4. |weights| the transformed filters, packed by carnot_pack_winograd_f32
// |workspace| carnot_conv2d_winograd_f32_workspace(side, C) floats, for this call alone
// Sums are float32. An error is relative to the largest products of its tile, so that an infinity
// may reach results whose own window does not hold it. A call computes rows [row0,row1) of N *
// carnot_winograd_tiles_of(side, P, dilation_h) rows of tiles and channels [n0,n1), n0 a multiple
// of 16; disjoint calls may run at once, with the same bits however the work is cut. dst may not
// overlap src. Any thread.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_WINOGRAD_F32_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_WINOGRAD_F32_H_

#include "kernel/cpu/conv/conv2d_f32.h"

enum {
  CARNOT_WINOGRAD_COLUMNS = 64,  // output channels that are transformed together
  CARNOT_WINOGRAD_DEPTH = 64,    // input channels that one accumulator sums
  CARNOT_WINOGRAD_LEAST_TILES = 16,
  CARNOT_WINOGRAD_MOST_TILES = 96,
  CARNOT_WINOGRAD_FLOATS = 192 * 1024  // of a block of tiles before and after the products: L2
};

typedef struct carnot_conv2d_winograd_f32 {
  carnot_conv2d_f32 conv;
  int64_t side;  // of a tile of results
  float* workspace;
} carnot_conv2d_winograd_f32;

typedef void carnot_conv2d_winograd_f32_fn(const carnot_conv2d_winograd_f32* p, int64_t row0,
                                           int64_t row1, int64_t n0, int64_t n1);

// Of a transformed tile.
static inline int64_t carnot_winograd_points(int64_t side) { return (side + 2) * (side + 2); }
// Tiles along an axis of |size| results; neighbouring |dilation| tiles hold neighbouring results.
static inline int64_t carnot_winograd_tiles_of(int64_t side, int64_t size, int64_t dilation) {
  const int64_t step = side * dilation;
  return (size + step - 1) / step * dilation;
}
// Tiles that are computed together.
static inline int64_t carnot_winograd_tiles(int64_t side, int64_t c) {
  const int64_t tiles =
      CARNOT_WINOGRAD_FLOATS / (carnot_winograd_points(side) * (c + CARNOT_WINOGRAD_COLUMNS));
  return tiles < CARNOT_WINOGRAD_LEAST_TILES  ? CARNOT_WINOGRAD_LEAST_TILES
         : tiles > CARNOT_WINOGRAD_MOST_TILES ? CARNOT_WINOGRAD_MOST_TILES
                                              : tiles;
}
// Floats from a point's matrix to the next: a line of the cache more than its size, lest all points
// fall on the same sets.
static inline int64_t carnot_winograd_apart(int64_t tiles, int64_t columns) {
  return tiles * columns + 16;
}
static inline int64_t carnot_conv2d_winograd_f32_workspace(int64_t side, int64_t c) {
  const int64_t tiles = carnot_winograd_tiles(side, c);
  return carnot_winograd_points(side) *
         (carnot_winograd_apart(tiles, c) + carnot_winograd_apart(tiles, CARNOT_WINOGRAD_COLUMNS));
}

// Floats of the transformed filters: for each point matrices of up to CARNOT_WINOGRAD_DEPTH
// channels by K in k1n16 f32 (pack_f32.h).
int64_t carnot_packed_winograd_count(int64_t side, int64_t c, int64_t k);
// From |weights| [K,C,3,3], the panels of 16 filters [panel0, panel1). Portable C.
void carnot_pack_winograd_f32(int64_t side, int64_t k, int64_t c, const float* weights,
                              int64_t panel0, int64_t panel1, float* packed);

#endif
