// F(2x2,3x3) and F(4x4,3x3) by blocks of tiles: transformed pixels, GEMMs of the points, and the
// results' transform, all in L2. Functions take the side of a tile of results as a constant.
#include "kernel/cpu/conv/conv2d_winograd_f32.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"
#include "kernel/cpu/gemm/pack_f32.h"

enum {
  kColumns = CARNOT_WINOGRAD_COLUMNS,
  kDepth = CARNOT_WINOGRAD_DEPTH,
  kMostSide = 4,
  kMostPoints = kMostSide + 2  // of a row
};
// The points of F(4x4,3x3) are 0, +-a, +-b and infinity.
static const float kA = 0.625f, kB = 1.5f;

// A block of tiles of some channels, and the results' bounds where the activation is a clip.
typedef struct block {
  const carnot_conv2d_f32* conv;
  float *in, *out;              // [tiles, C] and [tiles, kColumns] of each point
  int64_t in_apart, out_apart;  // from a point to the next
  int64_t row_tiles;            // tiles of a row
  vf32 lo, hi;
  bool clip;
} block;

// ---- pixels: B^T d B ----

// B^T d: the values of a row or column of pixels at the points.
CARNOT_INLINE void values_at_points(int side, const vf32 d[kMostPoints], vf32 t[kMostPoints]) {
  if (side == 2) {
    t[0] = v_sub(d[0], d[2]);
    t[1] = v_add(d[1], d[2]);
    t[2] = v_sub(d[2], d[1]);
    t[3] = v_sub(d[1], d[3]);
    return;
  }
  const vf32 a2 = v_set(kA * kA), b2 = v_set(kB * kB), sum = v_set(kA * kA + kB * kB);
  const vf32 product = v_set(kA * kA * kB * kB), a = v_set(kA), b = v_set(kB);
  const vf32 even_a = v_fnma(b2, d[2], d[4]), odd_a = v_fnma(b2, d[1], d[3]);
  const vf32 even_b = v_fnma(a2, d[2], d[4]), odd_b = v_fnma(a2, d[1], d[3]);
  t[0] = v_fma(product, d[0], v_fnma(sum, d[2], d[4]));
  t[1] = v_fma(a, odd_a, even_a);
  t[2] = v_fnma(a, odd_a, even_a);
  t[3] = v_fma(b, odd_b, even_b);
  t[4] = v_fnma(b, odd_b, even_b);
  t[5] = v_fma(product, d[1], v_fnma(sum, d[3], d[5]));
}

CARNOT_INLINE void transform_pixels(int side, const float* const* pixels, int64_t c, int64_t left,
                                    bool whole, float* to, int64_t apart) {
  const int points = side + 2;
  vf32 t[kMostPoints][kMostPoints];
  CARNOT_UNROLL
  for (int j = 0; j < points; ++j) {
    vf32 d[kMostPoints], column[kMostPoints];
    CARNOT_UNROLL
    for (int i = 0; i < points; ++i) {
      const float* at = pixels[points * i + j] + c;
      d[i] = whole ? v_load(at) : v_load_n(at, left);
    }
    values_at_points(side, d, column);
    CARNOT_UNROLL
    for (int i = 0; i < points; ++i) t[i][j] = column[i];
  }
  CARNOT_UNROLL
  for (int i = 0; i < points; ++i) {
    vf32 row[kMostPoints];
    values_at_points(side, t[i], row);
    CARNOT_UNROLL
    for (int j = 0; j < points; ++j) {
      float* at = to + (points * i + j) * apart + c;
      if (whole)
        v_store(at, row[j]);
      else
        v_store_n(at, row[j], left);
    }
  }
}

// The first result of tile |tile| of all rows of tiles, and how many rows and columns of results
// exist.
typedef struct tile_at {
  int64_t n, p, q, rows, columns;
} tile_at;

// The first result of tile |i| along an axis: with a dilation of d the tiles of d neighbouring
// results lie side by side.
CARNOT_INLINE int64_t first_result(int side, int64_t i, int64_t dilation) {
  return i / dilation * side * dilation + i % dilation;
}

// Of results |from|, |from| + dilation, .. of |size|, how many of |side| exist.
CARNOT_INLINE int64_t results_within(int side, int64_t from, int64_t dilation, int64_t size) {
  return from < size ? min_i64(side, (size - from + dilation - 1) / dilation) : 0;
}

CARNOT_INLINE tile_at position(int side, const block* b, int64_t tile) {
  const carnot_conv2d_f32* c = b->conv;
  const int64_t row = tile / b->row_tiles,
                rows = carnot_winograd_tiles_of(side, c->p, c->dilation_h),
                p = first_result(side, row % rows, c->dilation_h),
                q = first_result(side, tile % b->row_tiles, c->dilation_w);
  return (tile_at){row / rows, p, q, results_within(side, p, c->dilation_h, c->p),
                   results_within(side, q, c->dilation_w, c->q)};
}

CARNOT_INLINE void load_tile(int side, const block* b, int64_t tile, float* to) {
  const carnot_conv2d_f32* c = b->conv;
  const tile_at at = position(side, b, tile);
  const int points = side + 2;
  const float* pixels[kMostPoints * kMostPoints];
  for (int i = 0; i < points * points; ++i) {
    const int64_t h = at.p + i / points * c->dilation_h - c->pad_h,
                  w = at.q + i % points * c->dilation_w - c->pad_w;
    const bool inside = h >= 0 && h < c->h && w >= 0 && w < c->w;
    pixels[i] = inside ? c->src + at.n * c->src_n + h * c->src_h + w * c->src_w : c->zeros;
  }
  const int64_t apart = b->in_apart;
  int64_t k = 0;
  for (; k + V_LANES <= c->c; k += V_LANES)
    transform_pixels(side, pixels, k, V_LANES, true, to, apart);
  if (k < c->c) transform_pixels(side, pixels, k, c->c - k, false, to, apart);
}

// ---- results: A^T m A and the epilogue ----

// A^T m: a row or column of results of the products at the points.
CARNOT_INLINE void results_of(int side, const vf32 m[kMostPoints], vf32 y[kMostSide]) {
  const vf32 sum_a = v_add(m[1], m[2]), difference_a = v_sub(m[1], m[2]);
  if (side == 2) {
    y[0] = v_add(m[0], sum_a);
    y[1] = v_sub(difference_a, m[3]);
    return;
  }
  const vf32 sum_b = v_add(m[3], m[4]), difference_b = v_sub(m[3], m[4]);
  y[0] = v_add(m[0], v_add(sum_a, sum_b));
  y[1] = v_fma(v_set(kA), difference_a, v_mul(v_set(kB), difference_b));
  y[2] = v_fma(v_set(kA * kA), sum_a, v_mul(v_set(kB * kB), sum_b));
  y[3] = v_fma(v_set(kA * kA * kA), difference_a, v_fma(v_set(kB * kB * kB), difference_b, m[5]));
}

CARNOT_INLINE void results_of_tile(int side, const float* from, int64_t apart,
                                   vf32 y[kMostSide][kMostSide]) {
  const int points = side + 2;
  vf32 s[kMostSide][kMostPoints];
  CARNOT_UNROLL
  for (int j = 0; j < points; ++j) {
    vf32 m[kMostPoints], column[kMostSide];
    CARNOT_UNROLL
    for (int i = 0; i < points; ++i) m[i] = v_load(from + (points * i + j) * apart);
    results_of(side, m, column);
    CARNOT_UNROLL
    for (int i = 0; i < side; ++i) s[i][j] = column[i];
  }
  CARNOT_UNROLL
  for (int i = 0; i < side; ++i) results_of(side, s[i], y[i]);
}

// Channels [n, n + count) of a tile, whose sums are at |from|.
CARNOT_INLINE void store_tile(int side, const block* b, int64_t tile, int64_t n, int64_t count,
                              const float* from) {
  const carnot_conv2d_f32* c = b->conv;
  const carnot_epilogue_f32* e = &c->epilogue;
  const tile_at at = position(side, b, tile);
  const int64_t first = (at.n * c->p + at.p) * c->q + at.q, apart = b->out_apart,
                row = c->dilation_h * c->q;
  if (!at.rows || !at.columns) return;
  for (int64_t k = 0; k < count; k += V_LANES) {
    const int64_t left = min_i64(V_LANES, count - k);
    const vf32 bias = e->bias ? v_load_upto(e->bias + n + k, left) : v_zero();
    vf32 y[kMostSide][kMostSide];
    results_of_tile(side, from + k, apart, y);
    CARNOT_UNROLL
    for (int i = 0; i < side * side; ++i) {
      if (i / side >= at.rows || i % side >= at.columns) continue;
      const int64_t m = first + i / side * row + i % side * c->dilation_w;
      vf32 x = v_add(y[i / side][i % side], bias);
      if (e->residual) x = v_add(x, v_load_upto(e->residual + m * e->residual_ld + n + k, left));
      if (b->clip) x = v_min_to(b->hi, v_max_to(b->lo, x));
      v_store_upto(c->dst + m * c->ld + n + k, x, left);
    }
  }
  if (b->clip || e->activation == CARNOT_KERNEL_ACTIVATION_NONE) return;
  for (int64_t i = 0; i < at.rows; ++i) CARNOT_KERNEL(activate_f32)
  (e->activation, e->a, e->b, c->dst + (first + i * row) * c->ld + n, c->dilation_w * c->ld,
   at.columns, count);
}

// ---- blocks ----

// The products of all points, summed over kDepth channels at a time: an accumulator's error grows
// with what it sums.
static void multiply(int64_t points, const block* b, int64_t count, int64_t n, int64_t n1) {
  const carnot_conv2d_f32* c = b->conv;
  carnot_gemm_f32 gemm = {.m = count, .n = c->k, .lda = c->c, .ldc = kColumns};
  const float* weights = c->weights;
  for (int64_t i = 0; i < points; ++i) {
    gemm.c = b->out + i * b->out_apart - n;
    gemm.epilogue = (carnot_epilogue_f32){.residual_ld = kColumns};
    for (int64_t c0 = 0; c0 < c->c; c0 += kDepth) {
      gemm.k = min_i64(kDepth, c->c - c0);
      gemm.a = b->in + i * b->in_apart + c0;
      gemm.b = weights;
      CARNOT_KERNEL(gemm_f32)(&gemm, 0, count, n, n1);
      gemm.epilogue.residual = gemm.c;
      weights += carnot_packed_k1n16_count(gemm.k, c->k);
    }
  }
}

CARNOT_INLINE void convolve(int side, const carnot_conv2d_winograd_f32* p, int64_t row0,
                            int64_t row1, int64_t n0, int64_t n1) {
  const carnot_conv2d_f32* c = &p->conv;
  const carnot_epilogue_f32* e = &c->epilogue;
  const bool clips = e->activation == CARNOT_KERNEL_ACTIVATION_CLIP;
  const int64_t tiles = carnot_winograd_tiles(side, c->c), points = carnot_winograd_points(side);
  const block b = {.conv = c,
                   .in = p->workspace,
                   .out = p->workspace + points * carnot_winograd_apart(tiles, c->c),
                   .in_apart = carnot_winograd_apart(tiles, c->c),
                   .out_apart = carnot_winograd_apart(tiles, kColumns),
                   .row_tiles = carnot_winograd_tiles_of(side, c->q, c->dilation_w),
                   .lo = v_set(clips ? e->a : 0),
                   .hi = v_set(clips ? e->b : INFINITY),
                   .clip = clips || e->activation == CARNOT_KERNEL_ACTIVATION_RELU};
  const int64_t end = row1 * b.row_tiles;
  for (int64_t t = row0 * b.row_tiles; t < end; t += tiles) {
    const int64_t count = min_i64(tiles, end - t);
    for (int64_t i = 0; i < count; ++i) load_tile(side, &b, t + i, b.in + i * c->c);
    for (int64_t n = n0; n < n1; n += kColumns) {
      const int64_t stop = min_i64(n1, n + kColumns);
      multiply(points, &b, count, n, stop);
      for (int64_t i = 0; i < count; ++i)
        store_tile(side, &b, t + i, n, stop - n, b.out + i * kColumns);
    }
  }
}

void CARNOT_KERNEL(conv2d_winograd_f32)(const carnot_conv2d_winograd_f32* p, int64_t row0,
                                        int64_t row1, int64_t n0, int64_t n1) {
  if (p->side == 2)
    convolve(2, p, row0, row1, n0, n1);
  else
    convolve(4, p, row0, row1, n0, n1);
}
