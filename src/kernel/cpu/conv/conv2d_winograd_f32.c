// F(2x2,3x3) by blocks of tiles: transformed pixels, 16 GEMMs, and the results' transform, all in
// L2.
#include "kernel/cpu/conv/conv2d_winograd_f32.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"
#include "kernel/cpu/gemm/pack_f32.h"

enum {
  kPoints = CARNOT_WINOGRAD_POINTS,
  kColumns = CARNOT_WINOGRAD_COLUMNS,
  kDepth = CARNOT_WINOGRAD_DEPTH
};

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

CARNOT_INLINE void transform_pixels(const float* const* pixels, int64_t c, int64_t left, bool whole,
                                    float* to, int64_t apart) {
  vf32 d[4][4], t[4][4];
  CARNOT_UNROLL
  for (int i = 0; i < kPoints; ++i)
    d[i / 4][i % 4] = whole ? v_load(pixels[i] + c) : v_load_n(pixels[i] + c, left);
  CARNOT_UNROLL
  for (int j = 0; j < 4; ++j) {
    t[0][j] = v_sub(d[0][j], d[2][j]);
    t[1][j] = v_add(d[1][j], d[2][j]);
    t[2][j] = v_sub(d[2][j], d[1][j]);
    t[3][j] = v_sub(d[1][j], d[3][j]);
  }
  CARNOT_UNROLL
  for (int i = 0; i < 4; ++i) {
    const vf32 row[4] = {v_sub(t[i][0], t[i][2]), v_add(t[i][1], t[i][2]), v_sub(t[i][2], t[i][1]),
                         v_sub(t[i][1], t[i][3])};
    CARNOT_UNROLL
    for (int j = 0; j < 4; ++j) {
      float* at = to + (4 * i + j) * apart + c;
      if (whole)
        v_store(at, row[j]);
      else
        v_store_n(at, row[j], left);
    }
  }
}

// The first pixel of tile |tile| of all rows of tiles.
typedef struct tile_at {
  int64_t n, p, q;
} tile_at;

static tile_at position(const block* b, int64_t tile) {
  const int64_t row = tile / b->row_tiles, rows = (b->conv->p + 1) / 2;
  return (tile_at){row / rows, row % rows * 2, tile % b->row_tiles * 2};
}

static void load_tile(const block* b, int64_t tile, float* to) {
  const carnot_conv2d_f32* c = b->conv;
  const tile_at at = position(b, tile);
  const float* pixels[kPoints];
  for (int i = 0; i < kPoints; ++i) {
    const int64_t h = at.p + i / 4 - c->pad_h, w = at.q + i % 4 - c->pad_w;
    const bool inside = h >= 0 && h < c->h && w >= 0 && w < c->w;
    pixels[i] = inside ? c->src + at.n * c->src_n + h * c->src_h + w * c->src_w : c->zeros;
  }
  const int64_t apart = b->in_apart;
  int64_t k = 0;
  for (; k + V_LANES <= c->c; k += V_LANES) transform_pixels(pixels, k, V_LANES, true, to, apart);
  if (k < c->c) transform_pixels(pixels, k, c->c - k, false, to, apart);
}

// ---- results: A^T m A and the epilogue ----

CARNOT_INLINE void sums_of(const float* from, int64_t apart, vf32 y[4]) {
  vf32 s[2][4];
  CARNOT_UNROLL
  for (int j = 0; j < 4; ++j) {
    const vf32 m1 = v_load(from + (4 + j) * apart), m2 = v_load(from + (8 + j) * apart);
    s[0][j] = v_add(v_load(from + j * apart), v_add(m1, m2));
    s[1][j] = v_sub(v_sub(m1, m2), v_load(from + (12 + j) * apart));
  }
  CARNOT_UNROLL
  for (int i = 0; i < 2; ++i) {
    y[2 * i] = v_add(s[i][0], v_add(s[i][1], s[i][2]));
    y[2 * i + 1] = v_sub(v_sub(s[i][1], s[i][2]), s[i][3]);
  }
}

// Channels [n, n + count) of a tile, whose sums are at |from|.
static void store_tile(const block* b, int64_t tile, int64_t n, int64_t count, const float* from) {
  const carnot_conv2d_f32* c = b->conv;
  const carnot_epilogue_f32* e = &c->epilogue;
  const tile_at at = position(b, tile);
  const int64_t first = (at.n * c->p + at.p) * c->q + at.q, apart = b->out_apart;
  const int64_t rows = min_i64(2, c->p - at.p), columns = min_i64(2, c->q - at.q);
  for (int64_t k = 0; k < count; k += V_LANES) {
    const int64_t left = min_i64(V_LANES, count - k);
    const vf32 bias = e->bias ? v_load_upto(e->bias + n + k, left) : v_zero();
    vf32 y[4];
    sums_of(from + k, apart, y);
    CARNOT_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (i / 2 >= rows || i % 2 >= columns) continue;
      const int64_t m = first + i / 2 * c->q + i % 2;
      vf32 x = v_add(y[i], bias);
      if (e->residual) x = v_add(x, v_load_upto(e->residual + m * e->residual_ld + n + k, left));
      if (b->clip) x = v_min_to(b->hi, v_max_to(b->lo, x));
      v_store_upto(c->dst + m * c->ld + n + k, x, left);
    }
  }
  if (b->clip || e->activation == CARNOT_KERNEL_ACTIVATION_NONE) return;
  for (int64_t i = 0; i < rows; ++i) CARNOT_KERNEL(activate_f32)
  (e->activation, e->a, e->b, c->dst + (first + i * c->q) * c->ld + n, c->ld, columns, count);
}

// ---- blocks ----

// The products of all points, summed over kDepth channels at a time: an accumulator's error grows
// with what it sums.
static void multiply(const block* b, int64_t count, int64_t n, int64_t n1) {
  const carnot_conv2d_f32* c = b->conv;
  carnot_gemm_f32 gemm = {.m = count, .n = c->k, .lda = c->c, .ldc = kColumns};
  const float* weights = c->weights;
  for (int64_t i = 0; i < kPoints; ++i) {
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

void CARNOT_KERNEL(conv2d_winograd_f32)(const carnot_conv2d_winograd_f32* p, int64_t row0,
                                        int64_t row1, int64_t n0, int64_t n1) {
  const carnot_conv2d_f32* c = &p->conv;
  const carnot_epilogue_f32* e = &c->epilogue;
  const bool clips = e->activation == CARNOT_KERNEL_ACTIVATION_CLIP;
  const int64_t tiles = carnot_winograd_tiles(c->c);
  const block b = {.conv = c,
                   .in = p->workspace,
                   .out = p->workspace + kPoints * carnot_winograd_apart(tiles, c->c),
                   .in_apart = carnot_winograd_apart(tiles, c->c),
                   .out_apart = carnot_winograd_apart(tiles, kColumns),
                   .row_tiles = (c->q + 1) / 2,
                   .lo = v_set(clips ? e->a : 0),
                   .hi = v_set(clips ? e->b : INFINITY),
                   .clip = clips || e->activation == CARNOT_KERNEL_ACTIVATION_RELU};
  const int64_t end = row1 * b.row_tiles;
  for (int64_t t = row0 * b.row_tiles; t < end; t += tiles) {
    const int64_t count = min_i64(tiles, end - t);
    for (int64_t i = 0; i < count; ++i) load_tile(&b, t + i, b.in + i * c->c);
    for (int64_t n = n0; n < n1; n += kColumns) {
      const int64_t stop = min_i64(n1, n + kColumns);
      multiply(&b, count, n, stop);
      for (int64_t i = 0; i < count; ++i) store_tile(&b, t + i, n, stop - n, b.out + i * kColumns);
    }
  }
}
