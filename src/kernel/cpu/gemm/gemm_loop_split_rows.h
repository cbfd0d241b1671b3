// The loop of GEMM that multiplies bfloat16 parts, over weights that stay in L2. Included by
// gemm_split_f32.c only.
//
// A tile of rows is multiplied by all columns while the next one is split into the other of two
// buffers: where columns are few, splitting takes as long as multiplying.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_SPLIT_ROWS_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_SPLIT_ROWS_H_

#if defined(__AMX_BF16__)

#include "kernel/cpu/gemm/gemm_loop_split.h"

enum {
  kMostParts = (kMostChannels / kStepDepth + kPartSteps - 1) / kPartSteps,
  kMostSlices = kMostChannels / kStepDepth,
  kRowsBytes = kMostSlices * kRows * 3 * kAmxRowBytes,  // of a tile of rows
  kL2WeightBytes = 768 << 10,
};

// Of a call: the steps of each part of K, from the first slice of a tile of rows and of a panel.
typedef struct split_matrix_steps {
  int64_t parts;
  split_steps of_part[kMostParts];
} split_matrix_steps;

static void set_matrix_steps(int64_t slices, int64_t slice_bytes, int64_t slice_weights,
                             split_matrix_steps* to) {
  to->parts = (slices + kPartSteps - 1) / kPartSteps;
  for (int64_t i = 0; i < to->parts; ++i) {
    split_steps* steps = &to->of_part[i];
    const int64_t s0 = i * slices / to->parts, s1 = (i + 1) * slices / to->parts;
    steps->count = s1 - s0;
    for (int64_t s = s0; s < s1; ++s)
      steps->a[s - s0] = s * slice_bytes, steps->b[s - s0] = s * slice_weights;
  }
}

// From now on |count| rows from |src| on are split into |to|, evenly over |turns| multiplications.
static void split_rows_next(split_rows_ahead* ahead, const float* src, int64_t count, char* to,
                            int64_t turns) {
  const int64_t slices = (ahead->depth + kStepDepth - 1) / kStepDepth;
  ahead->src = src, ahead->rows = count, ahead->k = 0;
  ahead->row = ahead->to = to;
  ahead->step = count * slices, ahead->due = 0, ahead->turns = turns;
  ahead->range = split_range_none(ahead->range.floor);
}

CARNOT_INLINE void split_rest(int parts, split_rows_ahead* ahead) {
  ahead->turns = 1;
  split_ahead(parts, ahead);
}

// A tile of rows from |m| on by all columns.
CARNOT_INLINE void split_row_tile(int parts, bool fetches, const split_block_call* call,
                                  const split_matrix_steps* steps, const char* rows, int64_t m,
                                  int64_t n0, int64_t n1, float* tiles, split_overlap* side) {
  const carnot_conv2d_f32* c = call->image->conv;
  const int64_t pitch = call->image->pitch;
  const split_pixels a = {{rows, rows + kAmxRows * pitch}, pitch};
  const int groups = call->count - m > kAmxRows ? 2 : 1;
  side->lines = 0;
  for (int64_t n = n0; n < n1; n += kColumns) {
    const int panels = n1 - n > TILE_PANEL ? 2 : 1;
    const char* b = (const char*)c->weights + n / TILE_PANEL * call->panel_bytes;
    for (int64_t i = 0; i < steps->parts; ++i) {
      const split_target to = {
          .m = m, .n = n, .sums = call->sums, .first = i == 0, .last = i + 1 == steps->parts};
      float* tile = tiles + (side->last.at == tiles ? kRows * kColumns : 0);
      const int64_t count = steps->of_part[i].count;
      const char* ahead = !to.last            ? b + steps->of_part[i + 1].b[0]
                          : n + kColumns < n1 ? b + 2 * call->panel_bytes
                                              : NULL;
      if (fetches) fetch_weights(call, panels, ahead, count, parts * (parts + 1) / 2 * count, side);
      split_tile_of(parts, /*streams=*/true, groups, panels, call, &a, b, &steps->of_part[i], &to,
                    tile, side);
    }
  }
}

// Rows [m0, m1) of a matrix, kMostOutputs at most.
CARNOT_INLINE void split_matrix_rows(int parts, const split_image* image, int64_t m0, int64_t m1,
                                     int64_t n0, int64_t n1) {
  char pixels[2][kRowsBytes] __attribute__((aligned(64)));
  float sums[kRows * kColumns] __attribute__((aligned(64)));
  float tiles[2 * kRows * kColumns] __attribute__((aligned(64)));
  int64_t outputs[kMostOutputs];
  const carnot_conv2d_f32* c = image->conv;
  const int64_t slices = (c->c + kStepDepth - 1) / kStepDepth, slice_bytes = kRows * image->pitch,
                columns = (n1 - n0 + kColumns - 1) / kColumns;
  split_block_call call = {.image = image, .n_end = n1, .outputs = outputs, .count = m1 - m0};
  set_bounds(&call);
  call.sums = sums, call.sums_ld = kColumns;
  call.slice_weights = CARNOT_SPLIT_SLICE_BYTES, call.panel_bytes = slices * call.slice_weights;
  for (int64_t m = m0; m < m1; ++m) outputs[m - m0] = m;
  const carnot_split_range weights = carnot_packed_split_range(1, c->c, c->k, c->weights);
  split_matrix_steps steps;
  set_matrix_steps(slices, slice_bytes, call.slice_weights, &steps);
  const int64_t turns = columns * (parts * (parts + 1) / 2 * slices - steps.parts);
  split_overlap side = {.rows = {.ld = c->src_h,
                                 .depth = c->c,
                                 .slice = slice_bytes,
                                 .range.floor = split_floor(&weights, c->c)}};
  split_rows_next(&side.rows, c->src + m0 * c->src_h, min_i64(kRows, m1 - m0), pixels[0], 1);
  int64_t begin = m0;  // of the rows that are not activated yet
  for (int64_t m = m0, at = 0; m < m1; m += kRows, at ^= 1) {
    const int64_t end = min_i64(m + kRows, m1);
    split_rest(parts, &side.rows);
    const bool exact = split_is_exact(&side.rows.range, &weights, c->c);
    split_rows_next(&side.rows, c->src + end * c->src_h, min_i64(kRows, m1 - end), pixels[at ^ 1],
                    turns);
    if (!exact) {
      finish_all(&call, &side);
      activate(c, begin, m, n0, n1);
      multiply_add(c, m, end, n0, n1);
      begin = end;
    } else {
      split_row_tile(parts, m == m0, &call, &steps, pixels[at], m - m0, n0, n1, tiles, &side);
    }
  }
  finish_all(&call, &side);
  activate(c, begin, m1, n0, n1);
}

static void split6_matrix_rows(const split_image* image, int64_t m0, int64_t m1, int64_t n0,
                               int64_t n1) {
  split_matrix_rows(3, image, m0, m1, n0, n1);
}

static void split3_matrix_rows(const split_image* image, int64_t m0, int64_t m1, int64_t n0,
                               int64_t n1) {
  split_matrix_rows(2, image, m0, m1, n0, n1);
}

// False where the weights of the columns do not stay in L2.
static bool split_matrix(const carnot_conv2d_f32* c, int parts, int64_t m0, int64_t m1, int64_t n0,
                         int64_t n1) {
  const int64_t slices = (c->c + kStepDepth - 1) / kStepDepth,
                weights =
                    (n1 - n0 + TILE_PANEL - 1) / TILE_PANEL * slices * CARNOT_SPLIT_SLICE_BYTES;
  if (slices < 1 || slices > kMostSlices || weights > kL2WeightBytes || n0 >= n1) return false;
  const split_image image = {.conv = c, .parts = parts, .pitch = parts * kAmxRowBytes, .chunks = 1};
  amx_begin();
  for (int64_t m = m0; m < m1; m += kMostOutputs) {
    const int64_t end = min_i64(m + kMostOutputs, m1);
    (parts == 3 ? split6_matrix_rows : split3_matrix_rows)(&image, m, end, n0, n1);
  }
  amx_end();
  return true;
}

#endif
#endif
