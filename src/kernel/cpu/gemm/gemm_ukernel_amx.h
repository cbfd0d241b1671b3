// AMX micro-kernel: 32 rows by 32 columns, or 16 by 64, in four accumulators of 16x16, K by 32. A
// panel k2n16 is a row of B tiles without rearrangement. Included by gemm_bf16.c only.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_AMX_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_AMX_H_

#include "kernel/cpu/gemm/amx_tiles.h"
#include "kernel/cpu/gemm/gemm_ukernel_body.h"

enum { kAmxDepth = 32, kMostPanels = 4 };

CARNOT_INLINE gemm_ukernel_f32 amx_row(const gemm_ukernel_f32* t, int i) {
  gemm_ukernel_f32 row = *t;
  row.c += i * t->ldc;
  if (row.residual) row.residual += i * t->residual_ld;
  return row;
}

CARNOT_INLINE void amx_finish(int panels, const gemm_ukernel_f32* t, const float* sums) {
  for (int i = 0; i < t->row_count; ++i) {
    const gemm_ukernel_f32 row = amx_row(t, i);
    vf32 acc[kMostPanels];
    for (int j = 0; j < panels; ++j) acc[j] = v_load(sums + (i * panels + j) * V_LANES);
    tile_finish(1, panels, &row, acc);
  }
}

// One step of K by four panels, |panel| bytes apart. Accumulators 0 to 3, rows of A in 4, columns
// of B in 5 to 7. No other rows meet these weights: they are loaded past L1.
CARNOT_INLINE void amx_step_of_4(const uint16_t* a, const char* b, int64_t panel) {
  _tile_stream_loadd(6, b, 64);
  _tile_stream_loadd(7, b + panel, 64);
  _tile_loadd(4, a, TILE_PANEL_DEPTH * 2);
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_stream_loadd(5, b + 2 * panel, 64);
  _tile_stream_loadd(6, b + 3 * panel, 64);
  _tile_dpbf16ps(2, 4, 5);
  _tile_dpbf16ps(3, 4, 6);
}

// One step of K. Accumulators 0 to 3, rows of A in 4 and 5, columns of B in 6 and 7.
CARNOT_INLINE void amx_step(int groups, int panels, const uint16_t* a, const char* b,
                            int64_t panel) {
  if (panels == 4) {
    amx_step_of_4(a, b, panel);
    return;
  }
  _tile_loadd(6, b, 64);
  if (panels > 1) _tile_loadd(7, b + panel, 64);
  _tile_loadd(4, a, TILE_PANEL_DEPTH * 2);
  _tile_dpbf16ps(0, 4, 6);
  if (panels > 1) _tile_dpbf16ps(1, 4, 7);
  if (groups == 1) return;
  _tile_loadd(5, a + kAmxRows * TILE_PANEL_DEPTH, TILE_PANEL_DEPTH * 2);
  _tile_dpbf16ps(2, 5, 6);
  if (panels > 1) _tile_dpbf16ps(3, 5, 7);
}

// What is left of K: a step over weights with zeros behind them.
CARNOT_INLINE void amx_rest(int groups, int panels, const gemm_ukernel_f32* t, const uint16_t* a,
                            const char* b, int64_t depth) {
  uint16_t rest[kMostPanels][kAmxDepth * TILE_PANEL] __attribute__((aligned(64)));
  memset(rest, 0, sizeof rest);
  for (int j = 0; j < panels; ++j) {
    memcpy(rest[j], b + j * t->b_panel, (size_t)depth * TILE_PANEL * sizeof **rest);
  }
  AMX_BARRIER();
  amx_step(groups, panels, a, (const char*)rest, sizeof *rest);
}

CARNOT_INLINE void amx_body(int groups, int panels, const gemm_ukernel_f32* t) {
  float sums[2 * kAmxRows * 2 * TILE_PANEL] __attribute__((aligned(64)));
  const int64_t row = panels * TILE_PANEL, ld = row * (int64_t)sizeof *sums;
  AMX_BARRIER();
  _tile_zero(0);
  if (panels > 1) _tile_zero(1);
  if (groups > 1 || panels == 4) _tile_zero(2);
  if ((groups > 1 && panels > 1) || panels == 4) _tile_zero(3);
  const uint16_t* a = t->rows[0];
  const char* b = t->b;
  int64_t k = 0;
  for (; k + kAmxDepth <= t->depth; k += kAmxDepth, b += kAmxDepth * TILE_PANEL * 2) {
    amx_step(groups, panels, a + k, b, t->b_panel);
  }
  if (k < t->depth) amx_rest(groups, panels, t, a + k, b, t->depth - k);
  _tile_stored(0, sums, ld);
  if (panels > 1) _tile_stored(1, sums + TILE_PANEL, ld);
  if (panels == 4) {
    _tile_stored(2, sums + 2 * TILE_PANEL, ld);
    _tile_stored(3, sums + 3 * TILE_PANEL, ld);
  }
  if (groups > 1) _tile_stored(2, sums + kAmxRows * row, ld);
  if (groups > 1 && panels > 1) _tile_stored(3, sums + kAmxRows * row + TILE_PANEL, ld);
  AMX_BARRIER();
  amx_finish(panels, t, sums);
}

#define AMX_TILE(name, groups, panels)          \
  static void name(const gemm_ukernel_f32* t) { \
    gemm_ukernel_f32 own = *t;                  \
    do amx_body(groups, panels, &own);          \
    while (gemm_ukernel_next(&own, panels));    \
  }
AMX_TILE(amx_16x16, 1, 1)
AMX_TILE(amx_16x32, 1, 2)
AMX_TILE(amx_16x64, 1, 4)
AMX_TILE(amx_32x16, 2, 1)
AMX_TILE(amx_32x32, 2, 2)

#define FOUR(f)    f, f, f, f
#define SIXTEEN(f) FOUR(f), FOUR(f), FOUR(f), FOUR(f)
const gemm_ukernels_f32 CARNOT_KERNEL(gemm_ukernels_bf16) = {
    .weight_bytes = 2,
    .depth_unit = 2,
    .convert_a = convert_a_bf16,
    .begin = amx_begin_rows,
    .end = amx_end,
    .max_rows = {32, 32, 16},
    .tiles = {{SIXTEEN(amx_16x16), SIXTEEN(amx_32x16)},
              {SIXTEEN(amx_16x32), SIXTEEN(amx_32x32)},
              {SIXTEEN(amx_16x64)}}};

#endif
