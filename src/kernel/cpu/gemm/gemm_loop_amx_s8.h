// The INT8 loops by AMX: 32 rows by 32 columns in four accumulators of 16x16, K by 64. A panel
// k4n16 is a row of B tiles without rearrangement. Included by gemm_u8s8.c only.
//
// Rows of A are read where they are when one tap has them at equal distances and K fills its tiles;
// otherwise they are packed, a step of K after the other, and signed ones flipped on the way.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_AMX_S8_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_AMX_S8_H_

#include "kernel/cpu/gemm/amx_tiles.h"

enum {
  kRows = 2 * kAmxRows,
  kDepth = kAmxRowBytes,        // bytes of K of a step
  kStepBytes = kRows * kDepth,  // packed
  kPackedSteps = 80,            // packed at once: K of 5,120
  kPackColumns = 128,  // from here on packing costs less than rows that collide in the cache
  kTileBytes = kAmxRows * kAmxRowBytes,
};

// What a row of tiles reads.
typedef struct rows_amx {
  const loop_u8s8* loop;
  const uint8_t* rows[CARNOT_INT8_MAX_TAPS * kRows];
  int count;
  int64_t steps;       // of K
  int64_t last_steps;  // quads of k in the last one
  const uint8_t* a;    // direct: the first row
  int64_t a_rows, a_step;
  int64_t packed_from;  // the first step that |packed| holds; -1: none
  uint8_t packed[kPackedSteps * kStepBytes] __attribute__((aligned(64)));
} rows_amx;

// Bytes [begin, end) of row |i| of the K that all taps make together, each tap in whole quads. What
// lies behind a tap meets zero weights.
static void pack_row(rows_amx* r, int i, int64_t begin, int64_t end, uint8_t* to) {
  const loop_u8s8* p = r->loop;
  const int64_t quads = (p->depth + 3) / 4 * 4;
  const uint8_t flip = p->a_signed ? 0x80 : 0;
  for (int64_t k = begin; k < end;) {
    const int64_t tap = k / quads, at = k % quads, left = kDepth - (k - begin) % kDepth;
    const int64_t n = min_i64(min_i64(quads - at, end - k), left);
    const int64_t there = max_i64(0, min_i64(n, p->depth - at));
    const uint8_t* from = r->rows[tap * r->count + i] + at;
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
  }
}

static void pack_steps(rows_amx* r, int64_t first) {
  const loop_u8s8* p = r->loop;
  const int64_t all = p->taps * ((p->depth + 3) / 4 * 4);
  const int64_t begin = first * kDepth, end = min_i64(all, begin + kPackedSteps * kDepth);
  if (r->packed_from == first) return;
  for (int i = 0; i < r->count; ++i) {
    if (end % kDepth) {  // the next panel's weights meet zeros
      memset(r->packed + (end - begin) / kDepth * kStepBytes + i * kDepth, 0, kDepth);
    }
    pack_row(r, i, begin, end, r->packed + i * kDepth);
  }
  r->packed_from = first;
}

static void find_rows(rows_amx* r, int64_t m, int count, int64_t columns) {
  const loop_u8s8* p = r->loop;
  r->count = count;
  r->packed_from = -1;
  r->a = NULL;
  p->rows(p->problem, m, count, r->rows);
  if (p->taps != 1 || p->a_signed || p->depth % kDepth || count != kRows || columns > kPackColumns)
    return;
  const int64_t distance = r->rows[1] - r->rows[0];
  for (int i = 2; i < count; ++i)
    if (r->rows[i] - r->rows[i - 1] != distance) return;
  r->a = r->rows[0];
  r->a_rows = distance;
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

// The sums of a row of tiles and |panels| panels from |b| on; |whole|: the weights go on behind
// them.
CARNOT_INLINE void sums_amx(int groups, int panels, rows_amx* r, const int8_t* b, int64_t panel,
                            bool whole, int32_t* sums) {
  const int64_t ld = kSumLd * (int64_t)sizeof *sums;
  AMX_ZERO(0);
  if (panels > 1) AMX_ZERO(1);
  if (groups > 1) AMX_ZERO(2);
  if (groups > 1 && panels > 1) AMX_ZERO(3);
  for (int64_t k = 0; k < r->steps; ++k, b += kTileBytes) {
    const uint8_t* a = r->a + k * kDepth;
    int64_t a_rows = r->a_rows;
    if (!r->a) {
      const int64_t first = k / kPackedSteps * kPackedSteps;
      if (r->packed_from != first) pack_steps(r, first);
      AMX_BARRIER();
      a = r->packed + (k - first) * kStepBytes;
      a_rows = kDepth;
    }
    if (k + 1 == r->steps && !whole) {
      last_step_amx(groups, panels, a, a_rows, b, panel, r->last_steps);
    } else {
      step_amx(groups, panels, a, a_rows, b, b + panel);
    }
  }
  AMX_STORE(0, sums, ld);
  if (panels > 1) AMX_STORE(1, sums + 16, ld);
  if (groups > 1) AMX_STORE(2, sums + kAmxRows * kSumLd, ld);
  if (groups > 1 && panels > 1) AMX_STORE(3, sums + kAmxRows * kSumLd + 16, ld);
  AMX_BARRIER();
}

static void row_of_tiles(rows_amx* r, int64_t m, int count, int64_t n0, int64_t n1) {
  int32_t sums[kRows * kSumLd] __attribute__((aligned(64)));
  const loop_u8s8* p = r->loop;
  const int64_t panel = p->taps * ((p->depth + 3) / 4) * 64;
  find_rows(r, m, count, n1 - n0);
  for (int64_t n = n0; n < n1; n += 32) {
    const int panels = n1 - n > 16 ? 2 : 1;
    const int8_t* b = p->weights + n / 16 * panel;
    const int64_t behind = ((p->columns + 15) / 16 - n / 16 - panels) * panel;
    const bool whole = behind >= (kAmxRows - r->last_steps) * kAmxRowBytes;
    if (count > kAmxRows && panels > 1)
      sums_amx(2, 2, r, b, panel, whole, sums);
    else if (count > kAmxRows)
      sums_amx(2, 1, r, b, panel, whole, sums);
    else if (panels > 1)
      sums_amx(1, 2, r, b, panel, whole, sums);
    else
      sums_amx(1, 1, r, b, panel, whole, sums);
    store_tile(p, m, count, n, min_i64(16 * panels, n1 - n), sums);
  }
}

static void run_loop(const loop_u8s8* p, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  rows_amx r;
  const int64_t quads = p->taps * ((p->depth + 3) / 4);
  const int64_t block = max_i64(2, kBlockBytes / max_i64(1, quads * 64) & ~INT64_C(1)) * 16;
  r.loop = p;
  r.steps = (quads + kAmxRows - 1) / kAmxRows;
  r.last_steps = quads - (r.steps - 1) * kAmxRows;
  amx_begin();
  for (int64_t n = n0; n < n1; n += block) {
    for (int64_t m = m0; m < m1; m += kRows) {
      row_of_tiles(&r, m, (int)min_i64(kRows, m1 - m), n, min_i64(n + block, n1));
    }
  }
  amx_end();
}

#endif  // CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_AMX_S8_H_
