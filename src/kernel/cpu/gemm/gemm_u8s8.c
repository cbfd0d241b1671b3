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

static void row_of_tiles(const loop_u8s8* p, int64_t m, int count, int64_t n0, int64_t n1) {
  const uint8_t* rows[CARNOT_INT8_MAX_TAPS * TILE_ROWS];
  int32_t sums[TILE_ROWS * kSumLd];
  const int64_t panel = p->taps * ((p->depth + 3) / 4) * 64;
  p->rows(p->problem, m, count, rows);
  for (int64_t n = n0; n < n1;) {
    const int wide = n1 - n > 16 && TILE_PANELS > 1 ? 2 : 1;
    const gemm_ukernel_u8s8 tile = {
        rows,  p->taps, p->depth, p->a_signed ? 0x80808080u : 0, p->weights + n / 16 * panel,
        panel, sums};
    kTiles[wide - 1][count - 1](&tile);
    const int64_t columns = min_i64(16 * wide, n1 - n);
    store_tile(p, m, count, n, columns, sums);
    n += 16 * wide;
  }
}

enum { kBlockBytes = 256 * 1024 };  // weights of a block stay in L2 for all rows

static void run_loop(const loop_u8s8* p, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const int64_t panel = max_i64(1, p->taps * ((p->depth + 3) / 4) * 64);
  const int64_t block = max_i64(2, kBlockBytes / panel & ~INT64_C(1)) * 16;
  const int64_t parts = (m1 - m0 + TILE_ROWS - 1) / TILE_ROWS;
  for (int64_t n = n0; n < n1; n += block) {
    for (int64_t i = 0; i < parts; ++i) {
      const int64_t begin = m0 + (m1 - m0) * i / parts, end = m0 + (m1 - m0) * (i + 1) / parts;
      row_of_tiles(p, begin, (int)(end - begin), n, min_i64(n + block, n1));
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

static void pixels_under_taps(const void* problem, int64_t m, int count, const uint8_t** out_rows) {
  const carnot_conv2d_u8s8* c = problem;
  int64_t q = m % c->q, p = m / c->q % c->p, n = m / (c->q * c->p);
  for (int i = 0; i < count; ++i) {
    const uint8_t** out = out_rows + i;
    const uint8_t* image = (const uint8_t*)c->src + n * c->src_n;
    for (int64_t r = 0; r < c->r; ++r) {
      const int64_t h = p * c->stride_h + r * c->dilation_h - c->pad_h;
      int64_t w = q * c->stride_w - c->pad_w;
      for (int64_t s = 0; s < c->s; ++s, w += c->dilation_w, out += count) {
        const bool inside = (uint64_t)h < (uint64_t)c->h && (uint64_t)w < (uint64_t)c->w;
        *out = inside ? image + h * c->src_h + w * c->src_w : (const uint8_t*)c->border;
      }
    }
    if (++q < c->q) continue;
    q = 0;
    if (++p == c->p) p = 0, ++n;
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
