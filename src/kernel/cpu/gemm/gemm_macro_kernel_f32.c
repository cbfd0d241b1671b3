// The GEMM macro-kernel: loops over K blocks, rows and panels around the micro-kernel.
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

#include <math.h>

enum {
  kDepthUnit = 32,                               // blocks are cut where no tile has a rest
  kBlockDepth = CARNOT_RESIDUAL_IN_PLACE_DEPTH,  // k of a block: 14 rows of A stay in L1
  kPartDepth = 128,                              // k of a part, which is summed from zero
  kBlockBytes = 512 * 1024,                      // weights of a block: half of a 1 MB L2
  kBlockTaps = CARNOT_RESIDUAL_IN_PLACE_TAPS,
};

// A block of K: either whole taps t0 .. t1 - 1, or k0 .. k1 - 1 of the one tap t0.
typedef struct k_block {
  int64_t t0, t1, k0, k1;
} k_block;

_Static_assert(kBlockDepth + kBlockTaps <= TILE_PANEL_DEPTH, "taps of odd depth grow by one");

static int64_t packed_depth(const gemm_macro_kernel_f32* p) {
  return (p->depth + p->tiles->depth_unit - 1) / p->tiles->depth_unit * p->tiles->depth_unit;
}

static bool residual_in_place(const gemm_macro_kernel_f32* p) {
  return p->epilogue->residual == p->dst;
}

// Elements of a column from its first weight to that of k0 under tap t0.
static int64_t weight_offset(const gemm_macro_kernel_f32* p, const k_block* k) {
  return p->tiles->taps_inside ? k->k0 * p->taps + k->t0 * p->tiles->depth_unit
                               : k->t0 * packed_depth(p) + k->k0;
}

// Sums carried through dst would overwrite a residual that lies there: then K stays in one piece,
// unless rows are converted to BF16: then the blocks are added to the residual.
static k_block k_block_next(const gemm_macro_kernel_f32* p, int64_t t0, int64_t k0) {
  if (residual_in_place(p) && !p->tiles->convert_a && p->taps <= kBlockTaps) {
    return (k_block){0, p->taps, 0, p->depth};
  }
  if (p->depth > kBlockDepth) {
    const int64_t parts = (p->depth + kBlockDepth - 1) / kBlockDepth;
    const int64_t size = (p->depth + parts * kDepthUnit - 1) / (parts * kDepthUnit) * kDepthUnit;
    return (k_block){t0, t0 + 1, k0, min_i64(k0 + size, p->depth)};
  }
  const int64_t fit = min_i64(kBlockTaps, max_i64(1, kBlockDepth / max_i64(1, p->depth)));
  const int64_t parts = (p->taps + fit - 1) / fit;
  const int64_t size = (p->taps + parts - 1) / parts;
  return (k_block){t0, min_i64(t0 + size, p->taps), 0, p->depth};
}

// Rows relu and clip are bounded in registers, the others pass once more over the tile in L1.
static bool in_registers(carnot_kernel_activation activation) {
  return activation == CARNOT_KERNEL_ACTIVATION_RELU || activation == CARNOT_KERNEL_ACTIVATION_CLIP;
}

static void set_clip(const carnot_epilogue_f32* e, gemm_ukernel_f32* tile) {
  tile->clip = in_registers(e->activation);
  tile->lo = e->activation == CARNOT_KERNEL_ACTIVATION_CLIP ? e->a : 0;
  tile->hi = e->activation == CARNOT_KERNEL_ACTIVATION_CLIP ? e->b : INFINITY;
}

// Parts of K of about kPartDepth, as even as they come: whole taps, or a share of one.
static void set_parts(gemm_ukernel_f32* tile) {
  const int64_t depth = max_i64(1, tile->depth);
  if (depth > kPartDepth) {
    const int64_t parts = (depth + kPartDepth - 1) / kPartDepth;
    tile->part_taps = 1;
    tile->part_depth = (depth + parts * kDepthUnit - 1) / (parts * kDepthUnit) * kDepthUnit;
    return;
  }
  const int64_t fit = kPartDepth / depth, parts = (tile->taps + fit - 1) / fit;
  tile->part_taps = (tile->taps + parts - 1) / parts;
  tile->part_depth = depth;
}

// Whether the sums of |count| rows over a block of K are zero: their taps all lie in the padding,
// as those of a filter with a large dilation do.
static bool is_zero(const gemm_macro_kernel_f32* p, const k_block* k, int count,
                    const void* const* pointers) {
  if (!p->zeros) return false;
  for (int64_t i = 0; i < (k->t1 - k->t0) * count; ++i)
    if (pointers[i] != p->zeros) return false;
  return true;
}

// One row of tiles: |count| rows, columns [n0, n1), one block of K.
static void row_of_tiles(const gemm_macro_kernel_f32* p, const k_block* k, gemm_ukernel_f32 tile,
                         int64_t m, int count, int64_t n0, int64_t n1) {
  const gemm_ukernels_f32* tiles = p->tiles;
  const char* weights = tile.b;
  const void* pointers[kBlockTaps * TILE_MAX_ROWS];
  uint16_t panel[TILE_MAX_ROWS * TILE_PANEL_DEPTH] __attribute__((aligned(64)));
  p->rows(p->problem, m, count, k->t0, k->t1, pointers);
  const bool last = k->t1 == p->taps && k->k1 == p->depth;
  if (is_zero(p, k, count, pointers)) {
    if (tile.carry && !last) return;
    if (!tiles->convert_a) tile.depth = 0;
  }
  if (k->k0 > 0) {
    for (int i = 0; i < count; ++i) pointers[i] = (const float*)pointers[i] + k->k0;
  }
  if (tiles->convert_a) {
    tiles->convert_a(pointers, count, tile.taps, tile.depth, panel);
    for (int i = 0; i < count; ++i) pointers[i] = panel + i * TILE_PANEL_DEPTH;
    tile.depth = tile.taps * ((tile.depth + 1) & ~INT64_C(1));
    tile.taps = 1;
  }
  tile.rows = pointers;
  tile.row_count = count;
  const carnot_epilogue_f32* e = p->epilogue;
  if (last) set_clip(e, &tile);
  for (int64_t n = n0; n < n1;) {
    const int64_t panels = (n1 - n + TILE_PANEL - 1) / TILE_PANEL;
    int wide = 2;
    while (wide > 0 && (panels < 1 << wide || count > tiles->max_rows[wide])) --wide;
    int64_t columns = min_i64(n1 - n, (panels >> wide << wide) * TILE_PANEL);
    gemm_ukernel_fn compute = tiles->tiles[wide][count - 1];
    const int64_t rest = columns % TILE_PANEL;
    if (wide == 0 && rest && rest <= TILE_PANEL / 2 && tiles->half_tiles[count - 1]) {
      if (columns > rest)
        columns -= rest;
      else
        compute = tiles->half_tiles[count - 1];
    }
    tile.columns = columns;
    tile.b = weights + n / TILE_PANEL * tile.b_panel;
    tile.c = p->dst + m * p->ld + n;
    tile.bias = last && e->bias ? e->bias + n : NULL;
    tile.residual = last && e->residual ? e->residual + m * e->residual_ld + n : NULL;
    // Where rows are converted to BF16, K is not in one piece: every block is added to a residual
    // in dst.
    if (tiles->convert_a && residual_in_place(p)) tile.carry = true, tile.residual = NULL;
    compute(&tile);
    n += columns;
  }
  if (last && e->activation != CARNOT_KERNEL_ACTIVATION_NONE && !in_registers(e->activation)) {
    CARNOT_KERNEL(activate_f32)
    (e->activation, e->a, e->b, p->dst + m * p->ld + n0, p->ld, count, n1 - n0);
  }
}

// Tiles of even height: 49 rows are 13 + 12 + 12 + 12.
static void rows_of_tiles(const gemm_macro_kernel_f32* p, const k_block* k, gemm_ukernel_f32 tile,
                          int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const int64_t wide = p->tiles->max_rows[1] >= 4 ? 1 : 0;
  const int64_t most = p->tiles->max_rows[wide], parts = (m1 - m0 + most - 1) / most;
  if (parts == 0) return;
  const int64_t least = (m1 - m0) / parts, higher = (m1 - m0) % parts;
  for (int64_t i = 0, m = m0; i < parts; ++i) {
    const int64_t count = least + (i < higher);
    row_of_tiles(p, k, tile, m, (int)count, n0, n1);
    m += count;
  }
}

static void block(const gemm_macro_kernel_f32* p, const k_block* k, int64_t m0, int64_t m1,
                  int64_t n0, int64_t n1) {
  const gemm_ukernels_f32* tiles = p->tiles;
  const int64_t weight_bytes = TILE_PANEL * tiles->weight_bytes;
  gemm_ukernel_f32 tile = {
      .taps = k->t1 - k->t0,
      .depth = k->k1 - k->k0,
      .b = (const char*)p->weights + weight_offset(p, k) * weight_bytes,
      .b_panel = p->taps * packed_depth(p) * weight_bytes,
      .b_taps = p->taps,
      .ldc = p->ld,
      .residual_ld = p->epilogue->residual_ld,
      .carry = k->t0 > 0 || k->k0 > 0,
  };
  set_parts(&tile);
  for (int64_t m = m0, end; m < m1; m = end) {
    end = p->run ? min_i64(m1, m + p->run(p->problem, m)) : m1;
    rows_of_tiles(p, k, tile, m, end, n0, n1);
  }
}

void CARNOT_KERNEL(gemm_macro_kernel_f32)(const gemm_macro_kernel_f32* p, int64_t m0, int64_t m1,
                                          int64_t n0, int64_t n1) {
  k_block k = {0, 0, 0, 0};
  if (p->tiles->begin) p->tiles->begin(m1 - m0);
  do {
    k = k_block_next(p, k.t1 == 0 ? 0 : k.k1 < p->depth ? k.t0 : k.t1, k.k1 < p->depth ? k.k1 : 0);
    const int64_t depth = max_i64(1, (k.t1 - k.t0) * (k.k1 - k.k0));
    const int64_t panels =
        max_i64(2, kBlockBytes / (depth * TILE_PANEL * p->tiles->weight_bytes)) & ~INT64_C(1);
    for (int64_t n = n0; n < n1; n += panels * TILE_PANEL) {
      block(p, &k, m0, m1, n, min_i64(n + panels * TILE_PANEL, n1));
    }
  } while (k.t1 < p->taps || k.k1 < p->depth);
  if (p->tiles->end) p->tiles->end();
}
