// The body of every micro-kernel and the table of them; included by one source for each type of
// weights, which defines TILE_TABLE, TILE_FORMAT (the table's first members) and before it
//   tile_accumulate(row_count, width, tile, part, acc)
// which adds the products of a part of K to |row_count| * |width| sums and returns where the
// weights of the next part begin. Without TILE_TABLE: only the end of a sum.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_BODY_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_UKERNEL_BODY_H_

#include "kernel/cpu/common/simd.h"
#include "kernel/cpu/gemm/gemm_ukernel_f32.h"

#define VECTORS (TILE_PANEL / V_LANES)  // vectors in a panel's row

// A vector of columns, of which |left| exist where the tile is not |whole|.
CARNOT_INLINE vf32 load_columns(bool whole, const float* p, int64_t left) {
  return whole ? v_load(p) : v_load_n(p, left);
}

// The loops over sums are single and unrolled early, or the compiler keeps the sums in memory.
CARNOT_INLINE void tile_finish_as(bool whole, int row_count, int width, const gemm_ukernel_f32* t,
                                  vf32* acc) {
  int64_t left[TILE_PANEL * 4 / V_LANES];
  CARNOT_UNROLL
  for (int j = 0; j < width; ++j) left[j] = max_i64(0, min_i64(V_LANES, t->columns - j * V_LANES));
  if (t->carry) {
    CARNOT_UNROLL
    for (int x = 0; x < row_count * width; ++x) {
      const int i = x / width, j = x % width;
      acc[x] = v_add(load_columns(whole, t->c + i * t->ldc + j * V_LANES, left[j]), acc[x]);
    }
  }
  if (t->bias) {
    CARNOT_UNROLL
    for (int x = 0; x < row_count * width; ++x) {
      const int j = x % width;
      acc[x] = v_add(acc[x], load_columns(whole, t->bias + j * V_LANES, left[j]));
    }
  }
  if (t->residual) {
    CARNOT_UNROLL
    for (int x = 0; x < row_count * width; ++x) {
      const int i = x / width, j = x % width;
      const float* residual = t->residual + i * t->residual_ld + j * V_LANES;
      acc[x] = v_add(acc[x], load_columns(whole, residual, left[j]));
    }
  }
  if (t->clip) {
    const vf32 lo = v_set(t->lo), hi = v_set(t->hi);
    CARNOT_UNROLL
    for (int x = 0; x < row_count * width; ++x) acc[x] = v_min_to(hi, v_max_to(lo, acc[x]));
  }
  CARNOT_UNROLL
  for (int x = 0; x < row_count * width; ++x) {
    const int i = x / width, j = x % width;
    float* c = t->c + i * t->ldc + j * V_LANES;
    if (whole)
      v_store(c, acc[x]);
    else
      v_store_n(c, acc[x], left[j]);
  }
}

// Few tiles end beyond the last column.
CARNOT_INLINE void tile_finish(int row_count, int width, const gemm_ukernel_f32* t, vf32* acc) {
  if (t->columns >= width * V_LANES)
    tile_finish_as(true, row_count, width, t, acc);
  else
    tile_finish_as(false, row_count, width, t, acc);
}

#ifdef TILE_TABLE

// Taps t0 .. t1 - 1 of elements k0 .. k1 - 1, their weights from |b| on.
typedef struct tile_part {
  int64_t t0, t1, k0, k1;
  const void* b;
} tile_part;

CARNOT_INLINE const void* tile_accumulate(int row_count, int width, const gemm_ukernel_f32* t,
                                          const tile_part* part, vf32* acc);

#ifndef TILE_IN_ONE_PART
// Moves to the next part; false after the last.
CARNOT_INLINE bool tile_part_next(const gemm_ukernel_f32* t, tile_part* part) {
  if (part->k1 < t->depth) {
    part->k0 = part->k1;
    part->k1 = min_i64(part->k0 + t->part_depth, t->depth);
    return true;
  }
  if (part->t1 >= t->taps) return false;
  part->t0 = part->t1, part->t1 = min_i64(part->t0 + t->part_taps, t->taps);
  part->k0 = 0, part->k1 = min_i64(t->part_depth, t->depth);
  return true;
}
#endif

// The sums of a part stay in registers, those of the parts before it in L1: a tile of one part, as
// those of a small K are, pays nothing for it.
CARNOT_INLINE void tile_body(int row_count, int width, const gemm_ukernel_f32* t) {
  vf32 acc[TILE_PANEL * 4];
#ifdef TILE_IN_ONE_PART
  CARNOT_UNROLL
  for (int x = 0; x < row_count * width; ++x) acc[x] = v_zero();
  const tile_part part = {0, t->taps, 0, t->depth, t->b};
  tile_accumulate(row_count, width, t, &part, acc);
#else
  float buffer[TILE_F32_ROWS * 2 * TILE_PANEL] __attribute__((aligned(64)));
  float* total = buffer;
  CARNOT_OPAQUE(total);  // or the compiler takes registers for it
  tile_part part = {0, min_i64(t->part_taps, t->taps), 0, min_i64(t->part_depth, t->depth), t->b};
  for (bool first = true;; first = false) {
    CARNOT_UNROLL
    for (int x = 0; x < row_count * width; ++x) acc[x] = v_zero();
    part.b = tile_accumulate(row_count, width, t, &part, acc);
    if (!first) {
      CARNOT_UNROLL
      for (int x = 0; x < row_count * width; ++x) {
        acc[x] = v_add(v_load(total + x * V_LANES), acc[x]);
      }
    }
    if (!tile_part_next(t, &part)) break;
    CARNOT_UNROLL
    for (int x = 0; x < row_count * width; ++x) v_store(total + x * V_LANES, acc[x]);
  }
#endif
  tile_finish(row_count, width, t, acc);
}

// The tiles of a row of tiles. Stores to c cannot change the copy.
CARNOT_INLINE void tiles_body(int row_count, int panels, const gemm_ukernel_f32* t) {
  gemm_ukernel_f32 own = *t;
  do tile_body(row_count, panels * VECTORS, &own);
  while (gemm_ukernel_next(&own, panels));
}

#define TILE(rows, panels) \
  static void tile_##rows##x##panels(const gemm_ukernel_f32* t) { tiles_body(rows, panels, t); }

// clang-format off
#if V_LANES == 16  // 32 registers of 16: 14x32 keeps 28 sums; few rows take 64 columns at once
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1) TILE(7, 1)
TILE(8, 1) TILE(9, 1) TILE(10, 1) TILE(11, 1) TILE(12, 1) TILE(13, 1) TILE(14, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2) TILE(7, 2)
TILE(8, 2) TILE(9, 2) TILE(10, 2) TILE(11, 2) TILE(12, 2) TILE(13, 2) TILE(14, 2)
TILE(1, 4) TILE(2, 4) TILE(3, 4) TILE(4, 4) TILE(5, 4) TILE(6, 4)
const gemm_ukernels_f32 CARNOT_KERNEL(TILE_TABLE) = {
    TILE_FORMAT,
    .max_rows = {14, 14, 6},
    .tiles = {{tile_1x1, tile_2x1, tile_3x1, tile_4x1, tile_5x1, tile_6x1, tile_7x1,
               tile_8x1, tile_9x1, tile_10x1, tile_11x1, tile_12x1, tile_13x1, tile_14x1},
              {tile_1x2, tile_2x2, tile_3x2, tile_4x2, tile_5x2, tile_6x2, tile_7x2,
               tile_8x2, tile_9x2, tile_10x2, tile_11x2, tile_12x2, tile_13x2, tile_14x2},
              {tile_1x4, tile_2x4, tile_3x4, tile_4x4, tile_5x4, tile_6x4}}};
#elif V_LANES == 8  // 16 registers of 8: 6x16 keeps 12 sums
#define HALF_TILE(rows) static void half_tile_##rows(const gemm_ukernel_f32* t) { tile_body(rows, 1, t); }
HALF_TILE(1) HALF_TILE(2) HALF_TILE(3) HALF_TILE(4) HALF_TILE(5) HALF_TILE(6)
TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
TILE(1, 2) TILE(2, 2) TILE(3, 2)
TILE(1, 4)
const gemm_ukernels_f32 CARNOT_KERNEL(TILE_TABLE) = {
    TILE_FORMAT,
    .max_rows = {6, 3, 1},
    .tiles = {{tile_1x1, tile_2x1, tile_3x1, tile_4x1, tile_5x1, tile_6x1},
              {tile_1x2, tile_2x2, tile_3x2},
              {tile_1x4}},
    .half_tiles = {half_tile_1, half_tile_2, half_tile_3, half_tile_4, half_tile_5, half_tile_6}};
#else  // 16 registers of 4: 2x16 keeps 8 sums
TILE(1, 1) TILE(2, 1)
const gemm_ukernels_f32 CARNOT_KERNEL(TILE_TABLE) = {
    TILE_FORMAT, .max_rows = {2}, .tiles = {{tile_1x1, tile_2x1}}};
#endif
// clang-format on

#endif  // TILE_TABLE

#endif
