// One output row of a convolution of few filters whose input rows are stored channel by channel:
// vectors hold pixels, so that no lane is lost to filters that are not there.
//   dst[k,q] = activation(bias[k] + sum_{r < R, c < C, s < S} rows[r][c, q + s * dilation] *
//                         weights[r,c,s,k])
// |rows| [R] pointers to [C, ld] floats, NULL for rows of zeros; each channel has
// carnot_conv2d_planes_ld readable floats or more  |dst| [K,Q], channels |dst_ld| floats apart, not
// overlapping rows  |bias| [K] or NULL. Sums of 256 numbers or less are added up, so that
// the error does not grow with all of R * C * S. Any thread.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_PLANES_F32_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_PLANES_F32_H_

#include <stdint.h>

#include "kernel/cpu/common/epilogue_f32.h"

enum {
  CARNOT_CONV2D_PLANES_FILTERS = 8,
  CARNOT_CONV2D_PLANES_AHEAD = 64  // floats that the last tile of a row reads beyond it
};

typedef struct carnot_conv2d_planes_f32 {
  int64_t q, k, r, c, s, dilation;  // k: 1 to CARNOT_CONV2D_PLANES_FILTERS
  const float* const* rows;
  int64_t ld;
  const float* weights;
  float* dst;
  int64_t dst_ld;
  carnot_epilogue_f32 epilogue;  // bias and activation
} carnot_conv2d_planes_f32;

// Floats that a channel of |q| outputs has: the pixels under them, and those beyond, of any value.
static inline int64_t carnot_conv2d_planes_ld(int64_t q, int64_t s, int64_t dilation) {
  return q + CARNOT_CONV2D_PLANES_AHEAD + (s - 1) * dilation;
}

typedef void carnot_conv2d_planes_f32_fn(const carnot_conv2d_planes_f32* p);

#endif
