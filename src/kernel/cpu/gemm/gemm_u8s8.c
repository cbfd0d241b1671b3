// INT8 GEMM and convolution: macro-kernel.
#include "kernel/cpu/gemm/gemm_u8s8.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/loop_u8s8.h"

#if defined(__AMX_INT8__) || defined(CARNOT_AMX_EMULATED)
#include "kernel/cpu/gemm/gemm_loop_amx_s8.h"
#elif defined(__AVX2__) && !defined(__AVX512VNNI__)
#include "kernel/cpu/gemm/gemm_loop_maddubs_u8s8.h"
#else
#include "kernel/cpu/gemm/gemm_ukernel_u8s8.h"

typedef void (*tile_fn)(const gemm_ukernel_u8s8* t);

// Tiles of unsigned rows and of signed ones, which are flipped.
#define TILE(rows, panels)                                              \
  static void tile_##rows##x##panels##_u8(const gemm_ukernel_u8s8* t) { \
    tile_body(rows, panels, false, t);                                  \
  }                                                                     \
  static void tile_##rows##x##panels##_s8(const gemm_ukernel_u8s8* t) { \
    tile_body(rows, panels, true, t);                                   \
  }

// clang-format off
#if TILE_ROWS == 14
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1) TILE(7, 1)
TILE(8, 1) TILE(9, 1) TILE(10, 1) TILE(11, 1) TILE(12, 1) TILE(13, 1) TILE(14, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2) TILE(7, 2)
TILE(8, 2) TILE(9, 2) TILE(10, 2) TILE(11, 2) TILE(12, 2) TILE(13, 2) TILE(14, 2)
#define TILES(panels, type) \
  {tile_1x##panels##_##type,  tile_2x##panels##_##type,  tile_3x##panels##_##type,  \
   tile_4x##panels##_##type,  tile_5x##panels##_##type,  tile_6x##panels##_##type,  \
   tile_7x##panels##_##type,  tile_8x##panels##_##type,  tile_9x##panels##_##type,  \
   tile_10x##panels##_##type, tile_11x##panels##_##type, tile_12x##panels##_##type, \
   tile_13x##panels##_##type, tile_14x##panels##_##type}
static const tile_fn kTiles[2][TILE_PANELS][TILE_ROWS] = {{TILES(1, u8), TILES(2, u8)},
                                                          {TILES(1, s8), TILES(2, s8)}};
#else
TILE(1, 1) TILE(2, 1)
static const tile_fn kTiles[2][TILE_PANELS][TILE_ROWS] = {{{tile_1x1_u8, tile_2x1_u8}},
                                                          {{tile_1x1_s8, tile_2x1_s8}}};
#endif
// clang-format on

// A row of tiles in a block of columns, and what it fetches for later ones.
typedef struct block_row {
  int64_t n0, n1;
  int64_t weights;  // bytes from those of a tile to its share of those of a later tile
  int64_t weights_step, pixels_step;  // 0: none
} block_row;

// The bias of |columns| columns from n on; |room| for one that is not there or ends before its
// tile.
static const int32_t* bias_of_tile(const loop_u8s8* p, int64_t n, int64_t columns, int32_t* room) {
  const int32_t* bias = p->epilogue->bias;
  if (bias && columns == kSumLd) return bias + n;
  memset(room, 0, kSumLd * sizeof *room);
  if (bias) memcpy(room, bias + n, (size_t)columns * sizeof *room);
  return room;
}

static int64_t steps_of(const loop_u8s8* p) { return p->taps * ((p->depth + 3) / 4); }

static void row_of_tiles(const loop_u8s8* p, int64_t m, int count, const block_row* block) {
  const uint8_t* rows[CARNOT_INT8_MAX_TAPS * TILE_ROWS + kRowsAtOnce];
  int32_t sums[TILE_ROWS * kSumLd] __attribute__((aligned(64))), room[kSumLd];
  p->rows(p->problem, m, count, rows);
  gemm_ukernel_u8s8 tile = {
      .rows = rows, .taps = p->taps, .depth = p->depth, .b_panel = steps_of(p) * 64, .sums = sums};
  const bool fetches_pixels = block->pixels_step && count > 1;
  tile.pixels = fetches_pixels
                    ? (fetch_stream){rows[0] + (rows[1] - rows[0]) * count, block->pixels_step}
                    : (fetch_stream){rows[0], 0};
  for (int64_t n = block->n0; n < block->n1;) {
    const int wide = block->n1 - n > 16 && TILE_PANELS > 1 ? 2 : 1;
    const int64_t columns = min_i64(16 * wide, block->n1 - n);
    tile.b = p->weights + n / 16 * tile.b_panel;
    tile.bias = bias_of_tile(p, n, columns, room);
    tile.weights = (fetch_stream){(const uint8_t*)tile.b + block->weights, block->weights_step};
    kTiles[p->a_signed][wide - 1][count - 1](&tile);
    store_rows(p->epilogue, /*bias=*/NULL, p->dst, p->ld, m, count, n, columns, sums, kSumLd);
    tile.pixels.step = 0;
    n += 16 * wide;
  }
}

enum {
  kBlockBytes = 256 * 1024,  // weights of a block stay in L2 for all rows
  kLeastFetching = 3         // rows of tiles; fewer read weights as fast as they come
};

// All rows of the columns [n0,n1). Each row of tiles fetches its share of the block behind them
// and, where the pixels are read for the first time, those of the next row: they may be in another
// core's cache.
static void run_block(const loop_u8s8* p, int64_t m0, int64_t m1, int64_t n0, int64_t n1,
                      bool is_first) {
  const int64_t parts = (m1 - m0 + TILE_ROWS - 1) / TILE_ROWS, steps = steps_of(p);
  const int64_t share = (TILE_PANELS * 64 + parts - 1) / parts, width = n1 - n0;
  const bool is_last = n1 + width > p->columns || parts < kLeastFetching;
  block_row row = {.n0 = n0, .n1 = n1, .weights_step = is_last ? 0 : share};
  if (is_first && p->taps == 1) row.pixels_step = (p->depth * TILE_ROWS + steps - 1) / steps;
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t m = m0 + (m1 - m0) * i / parts, next = m0 + (m1 - m0) * (i + 1) / parts;
    if (!is_last) row.weights = (width / 16 * 64 + i * share) * steps;
    row_of_tiles(p, m, (int)(next - m), &row);
  }
}

static void run_loop(const loop_u8s8* p, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const int64_t panel = max_i64(1, steps_of(p) * 64);
  const int64_t block = max_i64(2, kBlockBytes / panel & ~INT64_C(1)) * 16;
  for (int64_t n = n0; n < n1; n += block) run_block(p, m0, m1, n, min_i64(n + block, n1), n == n0);
}

#endif

static void rows_of_a(const void* problem, int64_t m, int count, const uint8_t** out_rows) {
  const carnot_gemm_u8s8* p = problem;
  for (int i = 0; i < count; ++i) out_rows[i] = (const uint8_t*)p->a + (m + i) * p->lda;
}

#if defined(__AMX_INT8__)
extern carnot_gemm_u8s8_fn carnot_gemm_u8s8_avx512vnni;
extern carnot_conv2d_u8s8_fn carnot_conv2d_u8s8_avx512vnni;

// Whether tiles beat the dot products of vectors, by cycles of a tile of 32x32 as measured on a
// Xeon with AMX: they lose where most of their rows are empty, and where rows are packed by small
// pieces for few columns.
static bool tiles_pay(int64_t taps, int64_t depth, bool is_direct, int64_t rows, int64_t columns) {
  enum { kFewRows = 12, kStepCycles = 125, kPieceCycles = 320, kVectorCyclesPerK = 7 };
  const int64_t k = taps * depth, steps = (k + 63) / 64, pieces = taps * ((depth + 63) / 64);
  const int64_t packing = is_direct ? 0 : pieces * kPieceCycles / max_i64(1, (columns + 31) / 32);
  return rows > kFewRows && steps * kStepCycles + packing < k * kVectorCyclesPerK;
}
#endif

void CARNOT_KERNEL(gemm_u8s8)(const carnot_gemm_u8s8* p, int64_t m0, int64_t m1, int64_t n0,
                              int64_t n1) {
#if defined(__AMX_INT8__)
  const bool is_direct = !p->a_signed && p->k % 64 == 0;
  if (!tiles_pay(1, p->k, is_direct, m1 - m0, n1 - n0)) {
    carnot_gemm_u8s8_avx512vnni(p, m0, m1, n0, n1);
    return;
  }
#endif
  const loop_u8s8 loop = {rows_of_a, p,    1,      p->k,  p->a_signed,
                          p->b,      p->n, p->dst, p->ld, &p->epilogue};
  run_loop(&loop, m0, m1, n0, n1);
}

// Where the windows of a row of tiles begin.
typedef struct windows {
  int64_t h[kMostTileRows], w[kMostTileRows];
  uintptr_t at[kMostTileRows];  // of the pixel there, which may lie in the padding
} windows;

static void find_windows(const carnot_conv2d_u8s8* c, int64_t m, int count, windows* out) {
  int64_t q = m % c->q, p = m / c->q % c->p, n = m / (c->q * c->p);
  for (int i = 0; i < count; ++i) {
    out->h[i] = p * c->stride_h - c->pad_h;
    out->w[i] = q * c->stride_w - c->pad_w;
    out->at[i] =
        (uintptr_t)c->src + (uintptr_t)(n * c->src_n + out->h[i] * c->src_h + out->w[i] * c->src_w);
    if (++q < c->q) continue;
    q = 0;
    if (++p == c->p) p = 0, ++n;
  }
}

static void pixels_under_taps(const void* problem, int64_t m, int count, const uint8_t** out_rows) {
  const carnot_conv2d_u8s8* c = problem;
  windows at;
  find_windows(c, m, count, &at);
  const uint64_t height = (uint64_t)c->h, width = (uint64_t)c->w;
  const uint8_t* const border = c->border;
  for (int64_t r = 0; r < c->r; ++r) {
    const int64_t h = r * c->dilation_h;
    for (int64_t s = 0; s < c->s; ++s, out_rows += count) {
      const int64_t w = s * c->dilation_w;
      const uintptr_t tap = (uintptr_t)(h * c->src_h + w * c->src_w);
      for (int i = 0; i < count; i += kRowsAtOnce) {
        for (int j = i; j < i + kRowsAtOnce; ++j) {  // without branches, for vectors
          const bool inside =
              ((uint64_t)(at.h[j] + h) < height) & ((uint64_t)(at.w[j] + w) < width);
          out_rows[j] = inside ? (const uint8_t*)(at.at[j] + tap) : border;
        }
      }
    }
  }
}

// Whether output pixels read the input pixels of the same index alone.
static bool is_matrix(const carnot_conv2d_u8s8* c) {
  return c->r * c->s == 1 && c->p == c->h && c->q == c->w && !c->pad_h && !c->pad_w &&
         c->src_h == c->w * c->src_w && (c->n == 1 || c->src_n == c->h * c->src_h);
}

void CARNOT_KERNEL(conv2d_u8s8)(const carnot_conv2d_u8s8* p, int64_t m0, int64_t m1, int64_t n0,
                                int64_t n1) {
#if defined(__AMX_INT8__)
  const bool is_direct = p->r * p->s == 1 && p->stride_w == 1 && !p->src_signed && p->c % 64 == 0;
  if (!tiles_pay(p->r * p->s, p->c, is_direct, m1 - m0, n1 - n0)) {
    carnot_conv2d_u8s8_avx512vnni(p, m0, m1, n0, n1);
    return;
  }
#endif
  const carnot_gemm_u8s8 matrix = {.a = p->src, .lda = p->src_w};
  const bool is_plain = is_matrix(p);
  const loop_u8s8 loop = {is_plain ? rows_of_a : pixels_under_taps,
                          is_plain ? (const void*)&matrix : p,
                          p->r * p->s,
                          p->c,
                          p->src_signed,
                          p->weights,
                          p->k,
                          p->dst,
                          p->ld,
                          &p->epilogue};
  run_loop(&loop, m0, m1, n0, n1);
}
