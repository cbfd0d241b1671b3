// The loops of GEMM and convolution by products of bfloat16 parts on AMX. Included by
// gemm_split_f32.c only.
//
// A block of output rows is multiplied by two panels of weights at a time. K is summed in parts of
// kPartSteps steps: a part stays in tile registers from zero, parts are added in float32 in order.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_SPLIT_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_LOOP_SPLIT_H_

#if defined(__AMX_BF16__)

#include "kernel/cpu/gemm/gemm_ukernel_split.h"

// Weights in parts lie slice by slice, those rounded to one part tap by tap.
static split_steps steps_of(const split_block_call* call, const k_part* part) {
  const split_image* image = call->image;
  const int64_t slice = slice_bytes(image, call->rows), s = image->conv->s,
                taps = image->conv->r * s;
  const bool inside = image->parts > 1;
  int64_t tap = inside ? part->s0 % taps : part->s0 / call->steps_of_tap,
          at = inside ? part->s0 / taps : part->s0 % call->steps_of_tap;
  split_steps steps;
  steps.count = part->s1 - part->s0;
  for (int64_t i = 0; i < steps.count; ++i) {
    const int64_t weights =
        inside ? call->slice0 * taps + part->s0 + i : tap * call->slices_of_tap + call->slice0 + at;
    const int64_t offset = taps == 1 ? 0 : tap_offset(image, call->rows, tap / s, tap % s);
    steps.a[i] = offset + at * slice;
    steps.b[i] = weights * call->slice_weights;
    if (inside && ++tap == taps) tap = 0, ++at;
    if (!inside && ++at == call->steps_of_tap) at = 0, ++tap;
  }
  return steps;
}

CARNOT_INLINE void split_tiles(int parts, bool streams, const split_block_call* call,
                               const split_steps* steps, int panels, const char* b, split_target to,
                               float* tiles, split_overlap* side) {
  const int64_t rows = call->count, pitch = call->image->pitch;
  for (; to.m < rows; to.m += kRows, to.sums += kRows * call->sums_ld) {
    float* tile = tiles + (side->last.at == tiles ? kRows * kColumns : 0);
    split_pixels a = {.pitch = pitch};
    for (int g = 0; g < 2; ++g)
      a.group[g] = call->pixels + call->groups[to.m / kAmxRows + g] * pitch;
    split_tile_of(parts, streams, rows - to.m > kAmxRows ? 2 : 1, panels, call, &a, b, steps, &to,
                  tile, side);
  }
}

// ---- blocks ----

// Sums of a chunk of channels for columns [n0, n1).
CARNOT_INLINE void split_chunk(int parts, split_block_call* call, int64_t chunk, int64_t n0,
                               int64_t n1) {
  const carnot_conv2d_f32* c = call->image->conv;
  const int64_t c0 = chunk * call->image->channels,
                channels = min_i64(call->image->channels, c->c - c0);
  call->steps_of_tap = (channels + kStepDepth - 1) / kStepDepth;
  call->steps = c->r * c->s * call->steps_of_tap;
  call->slice0 = c0 / kStepDepth;
  const int64_t first_weights = call->slice0 * (parts == 1 ? 1 : c->r * c->s) * call->slice_weights;
  const int64_t tall = (call->count + kRows - 1) / kRows;
  const int64_t most = c->r * c->s > 1 ? kTapPartSteps : kPartSteps,
                k_parts = (call->steps + most - 1) / most;
  float tiles[2 * kRows * kColumns] __attribute__((aligned(64)));
  split_overlap side = {.rows = {.turns = 1}};
  for (int64_t n = n0; n < n1; n += kColumns) {
    const int panels = n1 - n > TILE_PANEL ? 2 : 1;
    const char* b = (const char*)c->weights + n / TILE_PANEL * call->panel_bytes;
    for (int64_t i = 0; i < k_parts; ++i) {
      const k_part part = {i * call->steps / k_parts, (i + 1) * call->steps / k_parts};
      const split_steps steps = steps_of(call, &part);
      const bool more = part.s1 < call->steps;
      const char* ahead = more ? b + steps.b[steps.count - 1] + call->slice_weights
                               : b + 2 * call->panel_bytes + first_weights;
      fetch_weights(call, panels, more || n + kColumns < n1 ? ahead : NULL, steps.count,
                    parts * (parts + 1) / 2 * steps.count * tall, &side);
      const split_target to = {
          .n = n,
          .sums = call->sums + (call->image->chunks > 1 ? n - n0 : 0),
          .first = chunk == 0 && part.s0 == 0,
          .last = chunk == call->image->chunks - 1 && !more,
      };
      // Weights that do not stay in L1 are loaded past it, so that pixels do.
      if (parts == 3 && steps.count * panels * call->slice_weights > kStayingBytes)
        split_tiles(parts, /*streams=*/true, call, &steps, panels, b, to, tiles, &side);
      else
        split_tiles(parts, /*streams=*/false, call, &steps, panels, b, to, tiles, &side);
    }
  }
  finish_all(call, &side);
}

// Outputs [begin, end) of a block in groups of 16 pixels that lie one behind the other.
typedef struct split_groups {
  int64_t count;
  int64_t groups[kMostGroups], outputs[kMostGroups * kAmxRows];
} split_groups;

// Appends |count| pixels from |pixel| on, counted over |width|; output row 0 of the block is
// |first| of dst.
static void add_groups(split_groups* to, const split_image* image, int64_t first, int64_t pixel,
                       int64_t count) {
  const int64_t q = image->conv->q;
  int64_t row = pixel / image->width, column = pixel % image->width;
  for (int64_t i = 0; i < count; ++i, ++to->count) {
    if (i % kAmxRows == 0) to->groups[to->count / kAmxRows] = pixel + i;
    to->outputs[to->count] = column < q ? first + row * q + column : -1;
    if (++column == image->width) column = 0, ++row;
  }
}

// The end of the row of outputs that |m| is in.
static int64_t row_end(const carnot_conv2d_f32* c, int64_t m, int64_t end) {
  return min_i64(end, (m / c->q + 1) * c->q);
}

// Groups that begin anew with every row.
static int64_t groups_by_row(const carnot_conv2d_f32* c, int64_t begin, int64_t end) {
  int64_t groups = 0;
  for (int64_t m = begin; m < end; m = row_end(c, m, end))
    groups += (row_end(c, m, end) - m + kAmxRows - 1) / kAmxRows;
  return groups;
}

// Groups continue over the pixels between rows, or begin anew with every row where they are fewer.
static void set_groups(split_block_call* call, int64_t begin, int64_t end, split_groups* to) {
  const split_image* image = call->image;
  const carnot_conv2d_f32* c = image->conv;
  const int64_t width = image->width, first = (call->n * c->p + call->p0) * c->q, last = end - 1,
                pixel = begin / c->q * width + begin % c->q,
                pixels = last / c->q * width + last % c->q + 1 - pixel;
  const bool by_row =
      width > kAmxRows && groups_by_row(c, begin, end) < (pixels + kAmxRows - 1) / kAmxRows;
  to->count = 0;
  if (!by_row) add_groups(to, image, first, pixel, pixels);
  for (int64_t m = begin; by_row && m < end; m = row_end(c, m, end)) {
    while (to->count % kAmxRows) to->outputs[to->count++] = -1;
    add_groups(to, image, first, m / c->q * width + m % c->q, row_end(c, m, end) - m);
  }
  // A last tile of one group reads the pointer of a second.
  to->groups[(to->count + kAmxRows - 1) / kAmxRows] = 0;
  call->count = to->count, call->groups = to->groups, call->outputs = to->outputs;
}

// Unfinished sums of one chunk of channels are those of two panels; of several, as many as fit.
static int64_t columns_of_block(const split_block_call* call, int64_t columns) {
  if (call->image->chunks == 1) return columns;
  const int64_t tall = (call->count + kRows - 1) / kRows * kRows;
  const int64_t most = min_i64(kMostColumns, kMostSums / tall / kColumns * kColumns);
  const int64_t blocks = (columns + most - 1) / most;
  return ((columns + blocks - 1) / blocks + kColumns - 1) / kColumns * kColumns;
}

// Whether the bounds of results are all of an activation.
static bool in_bounds(carnot_kernel_activation activation) {
  return activation == CARNOT_KERNEL_ACTIVATION_NONE ||
         activation == CARNOT_KERNEL_ACTIVATION_RELU || activation == CARNOT_KERNEL_ACTIVATION_CLIP;
}

static void set_bounds(split_block_call* call) {
  const carnot_epilogue_f32* e = &call->image->conv->epilogue;
  const bool relu = e->activation == CARNOT_KERNEL_ACTIVATION_RELU,
             clip = e->activation == CARNOT_KERNEL_ACTIVATION_CLIP;
  call->lo = relu ? 0 : clip ? e->a : -INFINITY;
  call->hi = clip ? e->b : INFINITY;
}

// Applies what bounds leave of an activation to results [m0, m1) by [n0, n1).
static void activate(const carnot_conv2d_f32* c, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  const carnot_epilogue_f32* e = &c->epilogue;
  if (in_bounds(e->activation)) return;
  CARNOT_KERNEL(activate_f32)
  (e->activation, e->a, e->b, c->dst + m0 * c->ld + n0, c->ld, m1 - m0, n1 - n0);
}

// Output rows p0 .. p0 + rows - 1 of image n, of which outputs [m0, m1) of all are wanted.
CARNOT_INLINE void split_rows(int parts, const split_image* image, int64_t n, int64_t p0,
                              int64_t rows, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
  char pixels[kImageBytes] __attribute__((aligned(64)));
  float sums[kMostSums] __attribute__((aligned(64)));
  split_groups groups;
  const carnot_conv2d_f32* c = image->conv;
  const int64_t first = (n * c->p + p0) * c->q, begin = max_i64(m0, first),
                end = min_i64(m1, first + rows * c->q);
  split_block_call call = {.image = image,
                           .n = n,
                           .p0 = p0,
                           .rows = rows,
                           .pixels = pixels,
                           .slices_of_tap = (c->c + kStepDepth - 1) / kStepDepth,
                           .n_end = n1,
                           .sums = sums};
  set_bounds(&call);
  set_groups(&call, begin - first, end - first, &groups);
  call.slice_weights = parts == 1 ? kTileBytes : CARNOT_SPLIT_SLICE_BYTES;
  call.panel_bytes = c->r * c->s * call.slices_of_tap * call.slice_weights;
  const carnot_split_range weights =
      parts == 1 ? (carnot_split_range){1, 1, 0}
                 : carnot_packed_split_range(c->r * c->s, c->c, c->k, c->weights);
  const int64_t columns = columns_of_block(&call, n1 - n0);
  call.sums_ld = image->chunks == 1 ? kColumns : columns;
  split_range range = split_range_none(split_floor(&weights, c->r * c->s * c->c));
  for (int64_t at = n0; at < n1; at += columns) {
    const int64_t to = min_i64(at + columns, n1);
    bool exact = true;
    for (int64_t chunk = 0; chunk < image->chunks && exact; ++chunk) {
      split_block(parts, image, n, p0, rows, chunk * image->channels, pixels, &range);
      exact = parts == 1 || split_is_exact(&range, &weights, c->r * c->s * c->c);
      if (exact) split_chunk(parts, &call, chunk, at, to);
    }
    if (exact)
      activate(c, begin, end, at, to);
    else
      multiply_add(c, begin, end, at, to);
  }
}

static void rounded_rows(const split_image* image, int64_t n, int64_t p0, int64_t rows, int64_t m0,
                         int64_t m1, int64_t n0, int64_t n1) {
  split_rows(1, image, n, p0, rows, m0, m1, n0, n1);
}

static void split6_rows(const split_image* image, int64_t n, int64_t p0, int64_t rows, int64_t m0,
                        int64_t m1, int64_t n0, int64_t n1) {
  split_rows(3, image, n, p0, rows, m0, m1, n0, n1);
}

static void split3_rows(const split_image* image, int64_t n, int64_t p0, int64_t rows, int64_t m0,
                        int64_t m1, int64_t n0, int64_t n1) {
  split_rows(2, image, n, p0, rows, m0, m1, n0, n1);
}

// Outputs [m0, m1) of all images, in blocks of even size.
static void split_outputs(const split_image* image, int64_t m0, int64_t m1, int64_t n0,
                          int64_t n1) {
  const carnot_conv2d_f32* c = image->conv;
  if (n0 >= n1) return;
  amx_begin();
  while (m0 < m1) {
    const int64_t row = m0 / c->q, n = row / c->p, p = row % c->p;
    const int64_t left = min_i64(c->p - p, (m1 - 1) / c->q - row + 1),
                  blocks = (left + image->rows - 1) / image->rows,
                  rows = (left + blocks - 1) / blocks, end = min_i64(m1, (row + rows) * c->q);
    (image->parts == 3   ? split6_rows
     : image->parts == 2 ? split3_rows
                         : rounded_rows)(image, n, p, rows, m0, end, n0, n1);
    m0 = end;
  }
  amx_end();
}

#endif
#endif
