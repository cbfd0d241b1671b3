// INT8 GEMM and convolution: macro-kernel.
#include "kernel/cpu/gemm/gemm_u8s8.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/loop_u8s8.h"

#if defined(__AMX_INT8__) || defined(CARNOT_AMX_EMULATED)
#include "kernel/cpu/gemm/gemm_loop_amx_s8.h"
#else
#include "kernel/cpu/gemm/gemm_ukernel_u8s8.h"

typedef void (*tile_fn)(const gemm_ukernel_u8s8* t);

#define TILE(rows, panels) \
  static void tile_##rows##x##panels(const gemm_ukernel_u8s8* t) { tile_body(rows, panels, t); }

// clang-format off
#if TILE_ROWS == 14
TILE(1, 1)
TILE(2, 1)
TILE(3, 1)
TILE(4, 1)
TILE(5, 1)
TILE(6, 1)
TILE(7, 1)
TILE(8, 1)
TILE(9, 1)
TILE(10, 1)
TILE(11, 1)
TILE(12, 1)
TILE(13, 1)
TILE(14, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2) TILE(7, 2) TILE(8, 2) TILE(9, 2)
    TILE(10, 2) TILE(11, 2) TILE(12, 2) TILE(13, 2)
        TILE(14, 2) static const tile_fn kTiles[TILE_PANELS][TILE_ROWS] = {
            {tile_1x1, tile_2x1, tile_3x1, tile_4x1, tile_5x1, tile_6x1, tile_7x1, tile_8x1,
             tile_9x1, tile_10x1, tile_11x1, tile_12x1, tile_13x1, tile_14x1},
            {tile_1x2, tile_2x2, tile_3x2, tile_4x2, tile_5x2, tile_6x2, tile_7x2, tile_8x2,
             tile_9x2, tile_10x2, tile_11x2, tile_12x2, tile_13x2, tile_14x2}};
#elif TILE_ROWS == 3
TILE(1, 1)
TILE(2, 1)
TILE(3, 1) static const tile_fn kTiles[TILE_PANELS][TILE_ROWS] = {{tile_1x1, tile_2x1, tile_3x1}};
#else
TILE(1, 1) TILE(2, 1) static const tile_fn kTiles[TILE_PANELS][TILE_ROWS] = {{tile_1x1, tile_2x1}};
#endif
// clang-format on

// Which rows of a block of columns, and the weights that come next: row r of |row_count| fetches
// its share of those of each tile.
typedef struct block_row {
  int64_t n0, n1;
  int64_t row, row_count;
  int64_t next;  // columns from a tile to the one whose weights it fetches; 0: none
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

static void row_of_tiles(const loop_u8s8* p, int64_t m, int count, const block_row* block) {
  const uint8_t* rows[CARNOT_INT8_MAX_TAPS * TILE_ROWS + kRowsAtOnce];
  int32_t sums[TILE_ROWS * kSumLd], room[kSumLd];
  carnot_int8_epilogue after_bias = *p->epilogue;
  after_bias.bias = NULL;
  const int64_t steps = p->taps * ((p->depth + 3) / 4), panel = steps * 64;
  const int64_t fetch_step = (TILE_PANELS * 64 + block->row_count - 1) / block->row_count;
  p->rows(p->problem, m, count, rows);
  for (int64_t n = block->n0; n < block->n1;) {
    const int wide = block->n1 - n > 16 && TILE_PANELS > 1 ? 2 : 1;
    const int8_t *weights = p->weights + n / 16 * panel,
                 *next = weights + block->next / 16 * panel + block->row * steps * fetch_step;
    const int64_t columns = min_i64(16 * wide, block->n1 - n);
    const bool fetches = block->next && n + block->next < p->columns;
    const gemm_ukernel_u8s8 tile = {rows,
                                    p->taps,
                                    p->depth,
                                    p->a_signed ? 0x80808080u : 0,
                                    weights,
                                    panel,
                                    bias_of_tile(p, n, columns, room),
                                    sums,
                                    fetches ? next : weights,
                                    fetches ? fetch_step : 0};
    kTiles[wide - 1][count - 1](&tile);
    store_rows(&after_bias, p->dst, p->ld, m, count, n, columns, sums, kSumLd);
    n += 16 * wide;
  }
}

enum { kBlockBytes = 256 * 1024 };  // weights of a block stay in L2 for all rows

static void run_loop(const loop_u8s8* p, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const int64_t panel = max_i64(1, p->taps * ((p->depth + 3) / 4) * 64);
  const int64_t block = max_i64(2, kBlockBytes / panel & ~INT64_C(1)) * 16;
  const int64_t parts = (m1 - m0 + TILE_ROWS - 1) / TILE_ROWS;
  for (int64_t n = n0; n < n1; n += block) {
    block_row row = {.n0 = n, .n1 = min_i64(n + block, n1), .row_count = parts};
    row.next = row.n1 - n;
    for (; row.row < parts; ++row.row) {
      const int64_t begin = m0 + (m1 - m0) * row.row / parts,
                    end = m0 + (m1 - m0) * (row.row + 1) / parts;
      row_of_tiles(p, begin, (int)(end - begin), &row);
    }
  }
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

void CARNOT_KERNEL(conv2d_u8s8)(const carnot_conv2d_u8s8* p, int64_t m0, int64_t m1, int64_t n0,
                                int64_t n1) {
#if defined(__AMX_INT8__)
  const bool is_direct = p->r * p->s == 1 && p->stride_w == 1 && !p->src_signed && p->c % 64 == 0;
  if (!tiles_pay(p->r * p->s, p->c, is_direct, m1 - m0, n1 - n0)) {
    carnot_conv2d_u8s8_avx512vnni(p, m0, m1, n0, n1);
    return;
  }
#endif
  const loop_u8s8 loop = {pixels_under_taps, p,    p->r * p->s, p->c,  p->src_signed,
                          p->weights,        p->k, p->dst,      p->ld, &p->epilogue};
  run_loop(&loop, m0, m1, n0, n1);
}
