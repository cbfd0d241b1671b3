#include "kernel/cpu/gemm_loop_f32.h"

#include <math.h>

enum {
  kBlockDepth = 768,          // k of a block: 14 rows of A stay in L1
  kBlockFloats = 128 * 1024,  // weights of a block: half of a 1 MB L2
  kBlockTaps = CARNOT_RESIDUAL_IN_PLACE_TAPS,
};

// A stretch of K: either whole taps t0 .. t1 - 1, or k0 .. k1 - 1 of the one tap t0.
typedef struct k_block {
  int64_t t0, t1, k0, k1;
} k_block;

// Sums carried through dst would overwrite a residual that lies there: then K stays in one piece.
static k_block k_block_next(const gemm_loop_f32* p, int64_t t0, int64_t k0) {
  if (p->epilogue->residual == p->dst && p->taps <= kBlockTaps) {
    return (k_block){0, p->taps, 0, p->depth};
  }
  if (p->depth > kBlockDepth) {
    const int64_t parts = (p->depth + kBlockDepth - 1) / kBlockDepth;
    const int64_t size = (p->depth + parts - 1) / parts;
    return (k_block){t0, t0 + 1, k0, min_i64(k0 + size, p->depth)};
  }
  const int64_t fit = min_i64(kBlockTaps, max_i64(1, kBlockDepth / max_i64(1, p->depth)));
  const int64_t parts = (p->taps + fit - 1) / fit;
  const int64_t size = (p->taps + parts - 1) / parts;
  return (k_block){t0, min_i64(t0 + size, p->taps), 0, p->depth};
}

// Rows relu and clip are bounded in registers, the others pass once more over the tile in L1.
static bool in_registers(carnot_activation activation) {
  return activation == CARNOT_ACTIVATION_RELU || activation == CARNOT_ACTIVATION_CLIP;
}

static void set_clip(const carnot_epilogue_f32* e, gemm_tile_f32* tile) {
  tile->clip = in_registers(e->activation);
  tile->lo = e->activation == CARNOT_ACTIVATION_CLIP ? e->a : 0;
  tile->hi = e->activation == CARNOT_ACTIVATION_CLIP ? e->b : INFINITY;
}

// One row of tiles: |count| rows, columns [n0, n1), one stretch of K.
static void row_of_tiles(const gemm_loop_f32* p, const k_block* k, gemm_tile_f32 tile, int64_t m,
                         int count, int64_t n0, int64_t n1) {
  const gemm_tiles_f32* tiles = &CARNOT_KERNEL(gemm_tiles_f32);
  const int64_t k_all = p->taps * p->depth;
  const float* pointers[kBlockTaps * TILE_MAX_ROWS];
  p->rows(p->problem, m, count, k->t0, k->t1, pointers);
  if (k->k0 > 0) {
    for (int i = 0; i < count; ++i) pointers[i] += k->k0;
  }
  tile.rows = pointers;
  const carnot_epilogue_f32* e = p->epilogue;
  const bool last = k->t1 == p->taps && k->k1 == p->depth;
  if (last) set_clip(e, &tile);
  for (int64_t n = n0; n < n1;) {
    const int64_t panels = (n1 - n + TILE_PANEL - 1) / TILE_PANEL;
    int wide = 2;
    while (wide > 0 && (panels < 1 << wide || count > tiles->max_rows[wide])) --wide;
    tile.columns = min_i64(n1 - n, TILE_PANEL << wide);
    tile.b = p->weights + n * k_all + (k->t0 * p->depth + k->k0) * TILE_PANEL;
    tile.c = p->dst + m * p->ld + n;
    tile.bias = e->bias ? e->bias + n : NULL;
    tile.residual = last && e->residual ? e->residual + m * e->residual_ld + n : NULL;
    tiles->tiles[wide][count - 1](&tile);
    n += TILE_PANEL << wide;
  }
  if (last && e->activation != CARNOT_ACTIVATION_NONE && !in_registers(e->activation)) {
    CARNOT_KERNEL(activate_f32)
    (e->activation, e->a, e->b, p->dst + m * p->ld + n0, p->ld, count, n1 - n0);
  }
}

static void block(const gemm_loop_f32* p, const k_block* k, int64_t m0, int64_t m1, int64_t n0,
                  int64_t n1) {
  const gemm_tiles_f32* tiles = &CARNOT_KERNEL(gemm_tiles_f32);
  const int64_t wide = tiles->max_rows[1] >= 4 ? 1 : 0;
  const int64_t most = tiles->max_rows[wide], parts = (m1 - m0 + most - 1) / most;
  const gemm_tile_f32 tile = {
      .taps = k->t1 - k->t0,
      .depth = k->k1 - k->k0,
      .b_panel = p->taps * p->depth * TILE_PANEL,
      .ldc = p->ld,
      .residual_ld = p->epilogue->residual_ld,
      .carry = k->t0 > 0 || k->k0 > 0,
  };
  for (int64_t i = 0; i < parts; ++i) {  // tiles of even height: 49 rows are 13 + 12 + 12 + 12
    const int64_t begin = m0 + (m1 - m0) * i / parts, end = m0 + (m1 - m0) * (i + 1) / parts;
    row_of_tiles(p, k, tile, begin, (int)(end - begin), n0, n1);
  }
}

void CARNOT_KERNEL(gemm_loop_f32)(const gemm_loop_f32* p, int64_t m0, int64_t m1, int64_t n0,
                                  int64_t n1) {
  k_block k = {0, 0, 0, 0};
  do {
    k = k_block_next(p, k.t1 == 0 ? 0 : k.k1 < p->depth ? k.t0 : k.t1, k.k1 < p->depth ? k.k1 : 0);
    const int64_t depth = max_i64(1, (k.t1 - k.t0) * (k.k1 - k.k0));
    const int64_t panels = max_i64(2, kBlockFloats / depth / TILE_PANEL) & ~INT64_C(1);
    for (int64_t n = n0; n < n1; n += panels * TILE_PANEL) {
      block(p, &k, m0, m1, n, min_i64(n + panels * TILE_PANEL, n1));
    }
  } while (k.t1 < p->taps || k.k1 < p->depth);
}
