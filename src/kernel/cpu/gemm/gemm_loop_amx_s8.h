// The INT8 loops by AMX: 32 rows by 32 columns in four accumulators of 16x16, K by 64. A panel
// k4n16 is a row of B tiles without rearrangement. Included by gemm_u8s8.c only.
//
// Rows of A are read where they are when one tap has them at equal distances and K fills its tiles;
// otherwise a chunk of them is packed, by steps of K, and signed ones are flipped on the way.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_AMX_S8_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_AMX_S8_H_

#include "kernel/cpu/gemm/amx_tiles.h"
#include "kernel/cpu/gemm/loop_u8s8.h"

enum {
  kRows = 2 * kAmxRows,
  kDepth = kAmxRowBytes,        // bytes of K of a step
  kStepBytes = kRows * kDepth,  // of a row of tiles, packed
  kPackedSteps = 160,           // of all rows of tiles together: 320 KB
  kMostTiles = 4,               // rows of tiles of a chunk
  kAmxBlockBytes = 1 << 20,     // weights that stay in L2 for all rows
  kPackColumns = 128,           // from here on packing costs less than rows that collide in L1
  kTileBytes = kAmxRows * kAmxRowBytes,
};

// A chunk of rows.
typedef struct rows_amx {
  const loop_u8s8* loop;
  // Of the row of tiles that is packed last.
  const uint8_t* rows[CARNOT_INT8_MAX_TAPS * kRows + kRowsAtOnce];
  int64_t steps;              // of K
  int64_t last_steps;         // quads of k in the last one
  int64_t tiles, tile_steps;  // rows of tiles; steps that each has packed
  const uint8_t* a;           // direct: the first row
  int64_t a_rows;
  int64_t packed_from[kMostTiles];  // the first step that is packed; -1: none
  uint8_t packed[kPackedSteps * kStepBytes] __attribute__((aligned(64)));
} rows_amx;

// Bytes [begin, end) of row |i| of |count| of the K that all taps make together, each tap in whole
// quads. What lies behind a tap meets zero weights.
static void pack_row(const rows_amx* r, int i, int count, int64_t begin, int64_t end, uint8_t* to) {
  const loop_u8s8* p = r->loop;
  const int64_t quads = (p->depth + 3) / 4 * 4;
  const uint8_t flip = p->a_signed ? 0x80 : 0;
  int64_t tap = begin / quads, at = begin % quads;
  for (int64_t k = begin; k < end;) {
    const int64_t left = kDepth - (k - begin) % kDepth;
    const int64_t n = min_i64(min_i64(quads - at, end - k), left);
    const int64_t there = max_i64(0, min_i64(n, p->depth - at));
    const uint8_t* from = r->rows[tap * count + i] + at;
    uint8_t* out = to + (k - begin) / kDepth * kStepBytes + (k - begin) % kDepth;
#if defined(__AVX512BW__)
    const __mmask64 mask = there ? ~UINT64_C(0) >> (64 - there) : 0;
    const __m512i x = _mm512_maskz_loadu_epi8(mask, from);
    _mm512_mask_storeu_epi8(out, ~UINT64_C(0) >> (64 - n),
                            _mm512_xor_si512(x, _mm512_set1_epi8((char)flip)));
#else
    for (int64_t j = 0; j < n; ++j) out[j] = (uint8_t)((j < there ? from[j] : 0) ^ flip);
#endif
    k += n;
    at += n;
    if (at == quads) at = 0, ++tap;
  }
}

// Packs the steps from |first| on of the |count| rows from m on as row of tiles |tile|.
CARNOT_INLINE void pack_steps(rows_amx* r, int64_t tile, int64_t m, int count, int64_t first) {
  const loop_u8s8* p = r->loop;
  const int64_t all = p->taps * ((p->depth + 3) / 4 * 4), begin = first * kDepth;
  const int64_t end = min_i64(all, begin + r->tile_steps * kDepth);
  uint8_t* to = r->packed + tile * r->tile_steps * kStepBytes;
  p->rows(p->problem, m, count, r->rows);
  for (int i = 0; i < count; ++i) {
    if (end % kDepth) {  // the next panel's weights meet zeros
      memset(to + (end - begin) / kDepth * kStepBytes + i * kDepth, 0, kDepth);
    }
    pack_row(r, i, count, begin, end, to + i * kDepth);
  }
  r->packed_from[tile] = first;
}

// Whether a row of tiles can be read where it is.
static void find_direct(rows_amx* r, int64_t m, int count) {
  const loop_u8s8* p = r->loop;
  p->rows(p->problem, m, count, r->rows);
  r->a = r->rows[0];
  r->a_rows = r->rows[1] - r->rows[0];
  for (int i = 2; i < count; ++i)
    if (r->rows[i] - r->rows[i - 1] != r->a_rows) r->a = NULL;
}

// One step of K. Accumulators 0 to 3, rows of A in 4 and 5, columns of B in 6 and 7.
CARNOT_INLINE void step_amx(int groups, int panels, const uint8_t* a, int64_t a_rows,
                            const int8_t* b0, const int8_t* b1) {
  AMX_LOAD(6, b0, kAmxRowBytes);
  if (panels > 1) AMX_LOAD(7, b1, kAmxRowBytes);
  AMX_LOAD(4, a, a_rows);
  AMX_DOT_U8S8(0, 4, 6);
  if (panels > 1) AMX_DOT_U8S8(1, 4, 7);
  if (groups == 1) return;
  AMX_LOAD(5, a + kAmxRows * a_rows, a_rows);
  AMX_DOT_U8S8(2, 5, 6);
  if (panels > 1) AMX_DOT_U8S8(3, 5, 7);
}

// The last step of the last panels: what lies behind them is not read.
CARNOT_INLINE void last_step_amx(int groups, int panels, const uint8_t* a, int64_t a_rows,
                                 const int8_t* b, int64_t panel, int64_t quads) {
  int8_t rest[2][kTileBytes] __attribute__((aligned(64)));
  memset(rest, 0, sizeof rest);
  for (int j = 0; j < panels; ++j) memcpy(rest[j], b + j * panel, (size_t)quads * 64);
  AMX_BARRIER();
  step_amx(groups, panels, a, a_rows, rest[0], rest[1]);
}

// A row of tiles of the output and |panels| panels from |b| on.
typedef struct tile_amx {
  int64_t tile, m;
  int count;
  const int8_t* b;
  int64_t panel;
  bool whole;  // the weights go on behind these panels
} tile_amx;

CARNOT_INLINE void sums_amx(int groups, int panels, rows_amx* r, const tile_amx* t, int32_t* sums) {
  const int64_t ld = kSumLd * (int64_t)sizeof *sums;
  const int8_t* b = t->b;
  AMX_ZERO(0);
  if (panels > 1) AMX_ZERO(1);
  if (groups > 1) AMX_ZERO(2);
  if (groups > 1 && panels > 1) AMX_ZERO(3);
  for (int64_t first = 0; first < r->steps; first += r->tile_steps) {
    const uint8_t* a = r->a;
    int64_t a_rows = r->a_rows, a_step = kDepth;
    if (!a) {
      if (r->packed_from[t->tile] != first) pack_steps(r, t->tile, t->m, t->count, first);
      AMX_BARRIER();
      a = r->packed + t->tile * r->tile_steps * kStepBytes;
      a_rows = kDepth;
      a_step = kStepBytes;
    }
    int64_t end = min_i64(r->steps, first + r->tile_steps);
    const bool guarded = end == r->steps && !t->whole;
    for (int64_t k = first; k < end - guarded; ++k, b += kTileBytes, a += a_step) {
      step_amx(groups, panels, a, a_rows, b, b + t->panel);
      if (k % kAmxStoreInterval == kAmxStoreInterval - 1) AMX_KEEP_STORES_AWAKE(6);
    }
    if (guarded) last_step_amx(groups, panels, a, a_rows, b, t->panel, r->last_steps);
  }
  AMX_STORE(0, sums, ld);
  if (panels > 1) AMX_STORE(1, sums + 16, ld);
  if (groups > 1) AMX_STORE(2, sums + kAmxRows * kSumLd, ld);
  if (groups > 1 && panels > 1) AMX_STORE(3, sums + kAmxRows * kSumLd + 16, ld);
  AMX_BARRIER();
}

// Rows [m0,m1), at most a chunk, of columns [n0,n1).
static void run_chunk(rows_amx* r, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  int32_t sums[kRows * kSumLd] __attribute__((aligned(64)));
  const loop_u8s8* p = r->loop;
  const int64_t panel = p->taps * ((p->depth + 3) / 4) * 64;
  const bool may_be_direct =
      p->taps == 1 && !p->a_signed && p->depth % kDepth == 0 && n1 - n0 <= kPackColumns;
  for (int64_t i = 0; i < kMostTiles; ++i) r->packed_from[i] = -1;
  for (int64_t n = n0; n < n1; n += 32) {
    const int panels = n1 - n > 16 ? 2 : 1;
    const int64_t behind = ((p->columns + 15) / 16 - n / 16 - panels) * panel;
    tile_amx t = {.b = p->weights + n / 16 * panel,
                  .panel = panel,
                  .whole = behind >= (kAmxRows - r->last_steps) * kAmxRowBytes};
    for (t.tile = 0, t.m = m0; t.m < m1; ++t.tile, t.m += kRows) {
      t.count = (int)min_i64(kRows, m1 - t.m);
      r->a = NULL;
      if (may_be_direct && t.count == kRows) find_direct(r, t.m, t.count);
      if (t.count > kAmxRows && panels > 1)
        sums_amx(2, 2, r, &t, sums);
      else if (t.count > kAmxRows)
        sums_amx(2, 1, r, &t, sums);
      else if (panels > 1)
        sums_amx(1, 2, r, &t, sums);
      else
        sums_amx(1, 1, r, &t, sums);
      store_rows(p->epilogue, p->epilogue->bias, p->dst, p->ld, t.m, t.count, n,
                 min_i64(16 * panels, n1 - n), sums, kSumLd);
    }
  }
}

CARNOT_INLINE void run_loop(const loop_u8s8* p, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  rows_amx r;
  const int64_t quads = p->taps * ((p->depth + 3) / 4);
  r.loop = p;
  r.steps = (quads + kAmxRows - 1) / kAmxRows;
  r.last_steps = quads - (r.steps - 1) * kAmxRows;
  r.tiles = max_i64(1, min_i64(kMostTiles, kPackedSteps / max_i64(1, r.steps)));
  r.tile_steps = max_i64(1, min_i64(r.steps, kPackedSteps / r.tiles));
  const int64_t chunk = r.tiles * kRows;
  // Weights are read once where a chunk holds all rows, and stay in L2 for all chunks otherwise.
  const int64_t panels = max_i64(2, kAmxBlockBytes / max_i64(1, quads * 64) & ~INT64_C(1));
  const int64_t block = m1 - m0 <= chunk ? n1 - n0 : panels * 16;
  amx_begin();
  for (int64_t n = n0; n < n1; n += block) {
    for (int64_t m = m0; m < m1; m += chunk) {
      run_chunk(&r, m, min_i64(m + chunk, m1), n, min_i64(n + block, n1));
    }
  }
  amx_end();
}

#endif  // CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_AMX_S8_H_
