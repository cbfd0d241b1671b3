// The loops of convolutions by AMX tiles: blocks of results, the copy of the pixels under them, and
// steps. Included by the kernels, which supply the functions of tiles_call.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_LOOP_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_LOOP_H_

#include "kernel/cpu/conv/conv2d_tiles_sums.h"

// ---- the copy of pixels ----

// A block of results, and the copy of the pixels under it.
typedef struct tiles_block {
  int64_t n, p0, rows, q0, columns;
  char* copy;
} tiles_block;

// One row of one phase: columns j of the copy are input columns j * stride + first.
static void copy_row(const tiles_call* call, int64_t columns, const char* row, int64_t first,
                     char* to) {
  const tiles_conv* c = &call->conv;
  const int64_t depth = call->layout.depth, t = c->stride_w;
  const int64_t begin = min_i64(columns, first < 0 ? (t - 1 - first) / t : 0);
  const int64_t end = max_i64(begin, min_i64(columns, (c->w - first + t - 1) / t));
  memset(to, call->border, (size_t)(begin * depth));
  if (end > begin)
    call->copy_pixels(call, row + (begin * t + first) * c->src_w, t * c->src_w, end - begin,
                      to + begin * depth);
  memset(to + end * depth, call->border, (size_t)((columns - end) * depth));
}

// The copy where columns are joined: rows of |row| bytes and |pixels| pixels. Whole rows, for tiles
// read behind the pixels of a block, and zeros behind the last. Returns whether all numbers are
// finite.
static bool copy_dense_block(const tiles_call* call, const tiles_block* b, char* copy, int64_t row,
                             int64_t pixels) {
  const tiles_conv* c = &call->conv;
  const tiles_layout* l = &call->layout;
  const int64_t count = b->rows + l->copied_rows - l->rows;
  bool finite = true;
  for (int64_t y = 0; y < l->row_phases; ++y) {
    char* to = copy + y * l->copied_rows * row;
    for (int64_t i = 0; i < count; ++i, to += row) {
      const int64_t h = (b->p0 + i) * c->stride_h + y - c->pad_h;
      if ((uint64_t)h < (uint64_t)c->h)
        finite &= call->copy_dense(call, c->src + b->n * c->src_n + h * c->src_h,
                                   b->q0 * c->stride_w - c->pad_w, pixels, to);
      else
        memset(to, 0, (size_t)row);
    }
    memset(to, 0, (size_t)l->depth);
  }
  return finite;
}

// Rows of a filter that is one tap: each fills two bytes of a tile's row or more.
enum { kMostGathered = kTileBytes / 2 };

// For each of |columns| outputs the |count| numbers under each of |rows| rows of the filter, at
// |from|[row], as a tile's row.
CARNOT_INLINE void gather_row(const char* const* from, int rows, int64_t count, int64_t pixel,
                              int64_t columns, char* to) {
  const __mmask32 one = (__mmask32)((UINT64_C(1) << count) - 1);
  const char* under[kMostGathered];  // where the numbers of a row would begin a vector
  for (int r = 0; r < rows; ++r) under[r] = from[r] - 2 * r * count;
  for (int64_t j = 0; j < columns; ++j, to += kTileBytes) {
    __m512i x = _mm512_maskz_loadu_epi16(one, under[0] + j * pixel);
    for (int r = 1; r < rows; ++r)
      x = _mm512_mask_loadu_epi16(x, one << r * count, under[r] + j * pixel);
    _mm512_store_si512(to, x);
  }
}

// The copy where the whole filter is one tap.
static void gather_block(const tiles_call* call, const tiles_block* b) {
  const tiles_conv* c = &call->conv;
  const tiles_layout* l = &call->layout;
  const int64_t pixel = c->stride_w * c->c * c->element, count = c->s * c->c, row = l->dense_row;
  // The last tile reads up to kTileRows rows behind the outputs of the block.
  char* dense = b->copy + (l->rows * l->columns + kTileRows + 1) * kTileBytes;
  copy_dense_block(call, b, dense, row, row / (c->c * c->element));
  char* to = b->copy;
  for (int64_t i = 0; i < b->rows; ++i, to += l->columns * kTileBytes) {
    const char* from[kMostGathered];
    for (int64_t r = 0; r < c->r; ++r)
      from[r] = dense + (r % c->stride_h * l->copied_rows + i + r / c->stride_h) * row;
    if (c->r == 3)
      gather_row(from, 3, count, pixel, b->columns, to);
    else
      gather_row(from, (int)c->r, count, pixel, b->columns, to);
  }
}

// Returns whether what a tile reads behind the channels of a tap does no harm.
static bool copy_block(const tiles_call* call, const tiles_block* b) {
  const tiles_conv* c = &call->conv;
  const tiles_layout* l = &call->layout;
  if (l->gathered) {
    gather_block(call, b);
    return true;
  }
  if (c->joined > 1)
    return copy_dense_block(call, b, b->copy, l->columns * l->unit, l->columns * c->stride_w);
  const int64_t count = b->rows + l->copied_rows - l->rows, row = l->columns * l->depth;
  const int64_t columns = b->columns + l->columns - l->out_columns;
  char* to = b->copy;
  for (int64_t y = 0; y < l->row_phases; ++y)
    for (int64_t x = 0; x < l->column_phases; ++x, to += (l->copied_rows - count) * row)
      for (int64_t i = 0; i < count; ++i, to += row) {
        const int64_t h = (b->p0 + i) * c->stride_h + y - c->pad_h;
        if ((uint64_t)h < (uint64_t)c->h) {
          copy_row(call, columns, c->src + b->n * c->src_n + h * c->src_h,
                   b->q0 * c->stride_w + x - c->pad_w, to);
        } else {
          memset(to, call->border, (size_t)(columns * l->depth));
        }
      }
  return true;
}

static void find_offsets(tiles_call* call) {
  const tiles_conv* c = &call->conv;
  const tiles_layout* l = &call->layout;
  call->offsets[0] = 0;
  for (int64_t r = 0; r < c->r && !l->gathered; ++r)
    for (int64_t s = 0; s < l->row_taps; ++s) {
      const int64_t y = r * c->dilation_h, x = s * c->joined * c->dilation_w;
      const int64_t phase =
          y % c->stride_h * l->column_phases + (c->joined > 1 ? 0 : x % c->stride_w);
      const int64_t row = (phase * l->copied_rows + y / c->stride_h) * l->columns * l->unit;
      const int64_t column = c->joined > 1 ? x * c->c * c->element : x / c->stride_w * l->unit;
      call->offsets[r * l->row_taps + s] = l->direct ? y * c->src_h + x * c->src_w : row + column;
    }
}

// ---- loops ----

// Columns, of whole steps, whose weights have up to |bytes|.
static int64_t columns_within(const tiles_call* call, int64_t bytes) {
  return max_i64(bytes / (call->panel / kPanel) / kStepColumns * kStepColumns, kStepColumns);
}

// The columns that meet all pixels of a block before the next ones do.
static int64_t columns_of_pass(const tiles_call* call) {
  return columns_within(call, kWeightBytes);
}

// What |steps| steps of |depth| tiles of K prefetch meanwhile: the weights of columns [n,end), or
// what is left of them.
static void fetch_columns(const tiles_call* call, int64_t n, int64_t end, int64_t steps,
                          int64_t depth, tiles_overlap* overlap) {
  const int64_t panels = (end + kPanel - 1) / kPanel - n / kPanel;
  fetch_range(overlap, call->weights + n / kPanel * call->panel, panels * call->panel);
  const int64_t lines = (overlap->end - overlap->at) / 64 * kStreams;
  overlap->lines = (lines + steps * depth - 1) / (steps * depth);
}

// What step |s| prefetches during the columns from |n| on: a part of the rows of the step
// behind it.
static void fetch_rows(const tiles_call* call, const tiles_step* s, int64_t n,
                       tiles_overlap* overlap) {
  const tiles_conv* c = &call->conv;
  if (s->out[0] + 2 * kTileRows > c->n * c->p * c->q) return;
  const int64_t parts = (call->n1 - call->n0 + kStepColumns - 1) / kStepColumns;
  overlap->lines = (kTileRows + parts - 1) / parts;
  const char* from = c->src + (s->out[0] + kTileRows) * c->src_w +
                     (n - call->n0) / kStepColumns * overlap->lines * call->layout.depth;
  fetch_range(overlap, from, overlap->lines * call->layout.depth);
}

// The steps of a block, whose pixels stay in L1 while the columns meet them. The sums of one step
// are stored while the next one is computed. The steps of some columns fetch the weights of the
// next ones: of the next step first, then of the next pass.
static void compute_steps(const tiles_call* call, const tiles_step* steps, int count, bool is_first,
                          bool is_last) {
  char sums[2][kTileRows * kStepColumns * 4] __attribute__((aligned(64)));
  const int64_t pass = columns_of_pass(call), depth = call->panel / (kPanel * kTileBytes);
  const bool stays = call->panel / kPanel * (call->n1 - call->n0) <= kNearL2Bytes;
  // Pairs of rows; each time costs a call.
  const int64_t times = max_i64(1, depth - 1),
                rows = max_i64(kLeastStored, (kTileRows / 2 + times - 1) / times * 2);
  tiles_overlap overlap = {.rows = (int)rows};
  int at = 0;
  for (int64_t first = call->n0; first < call->n1; first += pass) {
    const int64_t end = min_i64(first + pass, call->n1);
    // The columns of the next pass: those of the next block begin at n0 again.
    const bool wraps = end == call->n1 && !is_last;
    const int64_t next = wraps ? call->n0 : end, limit = is_last ? call->n_next : call->n1,
                  next_end = wraps && stays ? next : min_i64(next + pass, limit);
    const bool fetches = next_end > next && (is_first || !stays || next >= call->n1);
    for (int i = 0; i < count; ++i)
      for (int64_t n = first; n < end; n += kStepColumns, at = 1 - at) {
        const bool near = is_first && (count == 1 || (i == 0 && first == call->n0));
        const int64_t left =
            (count - i) * ((end - first) / kStepColumns) - (n - first) / kStepColumns;
        overlap.lines = 0;
        if (near && n + kStepColumns < call->n1)
          fetch_columns(call, n + kStepColumns, min_i64(n + 2 * kStepColumns, call->n1), 1, depth,
                        &overlap);
        else if (fetches)
          fetch_columns(call, next, next_end, max_i64(1, left), depth, &overlap);
        else if (call->fetches_rows)
          fetch_rows(call, &steps[i], n, &overlap);
        call->sum(call, &steps[i], n, &overlap, sums[at]);
      }
  }
  store_all(call, &overlap);
}

// The groups of 16 pixels of a block that are left: they continue over what lies between its rows,
// or begin anew with every row, whichever are fewer.
typedef struct tiles_groups {
  int64_t count;
  bool by_row;
  int64_t i, j;  // row and column where the next one begins
} tiles_groups;

static tiles_groups groups_of(const tiles_call* call, const tiles_block* b) {
  const int64_t pixels = (b->rows - 1) * call->layout.columns + b->columns,
                all = (pixels + kGroupRows - 1) / kGroupRows,
                by_row = b->rows * ((b->columns + kGroupRows - 1) / kGroupRows);
  // Rows of whole groups are stored as one, too.
  if (by_row < all + (b->columns % kGroupRows == 0)) return (tiles_groups){by_row, true, 0, 0};
  return (tiles_groups){all, false, 0, 0};
}

// Outputs of the next group from row |k| of a step on; returns how many of them are stored.
static int64_t find_group(const tiles_call* call, const tiles_block* b, tiles_groups* groups,
                          int64_t m0, int64_t m1, tiles_step* s, int k) {
  const tiles_conv* c = &call->conv;
  const int64_t columns = groups->by_row ? b->columns : call->layout.columns;
  int64_t stored = 0;
  s->a[k / kGroupRows] =
      b->copy + (groups->i * call->layout.columns + groups->j) * call->layout.unit;
  for (int64_t x = 0, run; x < kGroupRows; x += run) {
    const int64_t left = columns - groups->j;
    run = groups->by_row ? kGroupRows : min_i64(kGroupRows - x, left);
    const int64_t m = (b->n * c->p + b->p0 + groups->i) * c->q + b->q0 + groups->j,
                  there = groups->i < b->rows
                              ? min_i64(min_i64(run, b->columns - groups->j), m1 - m)
                              : 0,
                  begin = max_i64(0, m0 - m), end = max_i64(begin, there);
    for (int64_t y = 0; y < run; ++y) s->out[k + x + y] = y >= begin && y < end ? m + y : -1;
    stored += end - begin;
    groups->j += run;
    if (run >= left) groups->j = 0, ++groups->i;
  }
  --groups->count;
  return stored;
}

// The next groups, two if there are.
static void find_step(const tiles_call* call, const tiles_block* b, tiles_groups* groups,
                      int64_t m0, int64_t m1, tiles_step* s) {
  int64_t stored = 0;
  s->stride[0] = s->stride[1] = call->layout.unit;
  s->groups = groups->count > 1 ? 2 : 1;
  s->count = s->groups * kGroupRows;
  for (int k = 0; k < s->count; k += kGroupRows)
    stored += find_group(call, b, groups, m0, m1, s, k);
  while (s->count > 1 && s->out[s->count - 1] < 0) --s->count;
  s->dense = stored == s->count && s->out[s->count - 1] == s->out[0] + s->count - 1;
}

// |b| and the |images| - 1 blocks of the images behind it, whose copies lie one behind the other.
static void compute_blocks(const tiles_call* call, tiles_block b, int64_t images, int64_t m0,
                           int64_t m1, bool is_first, bool is_last) {
  tiles_step steps[kMostSteps];
  int count = 0;
  for (; images > 0; --images, ++b.n, b.copy += call->layout.image_bytes) {
    const bool harmless = copy_block(call, &b);
    for (tiles_groups groups = groups_of(call, &b); groups.count > 0; ++count) {
      if (count == kMostSteps) {
        compute_steps(call, steps, count, is_first, /*is_last=*/false);
        is_first = false, count = 0;
      }
      find_step(call, &b, &groups, m0, m1, &steps[count]);
      steps[count].guarded = !harmless;
    }
  }
  compute_steps(call, steps, count, is_first, is_last);
}

// Images of [m0,m1) from image |n| on that are one block: whole ones, up to those whose copies fit,
// where the weights of the call do not stay in L2.
static int64_t images_of_block(const tiles_call* call, int64_t n, int64_t m0, int64_t m1) {
  const int64_t image = call->conv.p * call->conv.q,
                weights = call->panel / kPanel * (call->n1 - call->n0);
  if (weights <= kMostNearBytes || n * image < m0) return 1;
  return max_i64(1, min_i64(call->layout.images, m1 / image - n));
}

static void run_copied(const tiles_call* call, int64_t m0, int64_t m1) {
  const tiles_conv* c = &call->conv;
  const tiles_layout* l = &call->layout;
  const int64_t image = c->p * c->q;
  bool is_first = true;
  for (int64_t n = m0 / image, images; n * image < m1; n += images) {
    const int64_t begin = max_i64(m0 - n * image, 0) / c->q;
    const int64_t end = (min_i64(m1 - n * image, image) + c->q - 1) / c->q;
    images = images_of_block(call, n, m0, m1);
    for (int64_t p0 = begin; p0 < end; p0 += l->rows) {
      const int64_t rows = min_i64(l->rows, end - p0), row = n * image + p0 * c->q;
      // Of a single row only the part that is asked for.
      const int64_t q_begin = rows == 1 ? max_i64(0, m0 - row) : 0;
      const int64_t q_end = rows == 1 ? min_i64(c->q, m1 - row) : c->q;
      for (int64_t q0 = q_begin; q0 < q_end; q0 += l->out_columns, is_first = false) {
        const tiles_block b = {n, p0, rows, q0, min_i64(l->out_columns, q_end - q0), call->scratch};
        const bool is_last =
            (n + images) * image >= m1 && p0 + rows >= end && q0 + b.columns >= q_end;
        compute_blocks(call, b, images, m0, m1, is_first, is_last);
      }
    }
  }
}

// The pixel under result |m| at offset 0.
static const char* pixel_under(const tiles_conv* c, int64_t m) {
  const int64_t q = m % c->q, p = m / c->q % c->p, n = m / (c->q * c->p);
  return c->src + n * c->src_n + p * c->stride_h * c->src_h + q * c->stride_w * c->src_w;
}

// A tile reads 16 rows of whole depth: where those do not exist, its pixels are copied. That
// happens in the last few tiles of the input alone, so that kDirectGroups copies are enough.
static void direct_step(const tiles_call* call, int64_t m, int64_t m1, int64_t tile,
                        tiles_step* s) {
  const tiles_conv* c = &call->conv;
  const int64_t depth = call->layout.depth, all = c->n * c->p * c->q;
  const int64_t readable =
      c->windows ? all : all - (depth - c->c * c->element + c->src_w - 1) / c->src_w;
  s->count = (int)min_i64(kTileRows, m1 - m);
  s->groups = s->count > kGroupRows ? 2 : 1;
  s->dense = true, s->out[0] = m;
  for (int g = 0; g < s->groups; ++g) {
    const int64_t at = m + g * kGroupRows, there = min_i64(kGroupRows, all - at);
    s->a[g] = c->windows ? pixel_under(c, at) : c->src + at * c->src_w;
    s->stride[g] = c->stride_w * c->src_w;
    if (at + kGroupRows <= readable) continue;
    char* copy = call->scratch + (tile + g) % kDirectGroups * kGroupRows * depth;
    call->copy_pixels(call, s->a[g], c->src_w, there, copy);
    memset(copy + there * depth, 0, (size_t)((kGroupRows - there) * depth));
    s->a[g] = copy, s->stride[g] = depth;
  }
  s->guarded = false;
}

// The columns of a pass over |rows| rows in blocks of |block|: all of them, whose weights are read
// once a block, or those whose weights stay in L2, so that rows are read once a pass. Whichever
// reads fewer bytes.
static int64_t columns_of_direct_pass(const tiles_call* call, int64_t rows, int64_t block) {
  const int64_t columns = call->n1 - call->n0, pass = columns_within(call, kNearL2Bytes);
  const int64_t blocks = (rows + block - 1) / block, passes = (columns + pass - 1) / pass;
  return rows + blocks * columns > columns + passes * rows ? pass : columns;
}

static void run_direct(tiles_call* call, int64_t m0, int64_t m1) {
  const int64_t step = kTileRows * call->layout.depth, n1 = call->n1;
  const int most = (int)min_i64(kMostSteps, max_i64(1, kBlockBytes / step));
  const int64_t pass = columns_of_direct_pass(call, m1 - m0, most * kTileRows);
  call->fetches_rows = pass < n1 - call->n0 && !call->conv.windows;
  for (; call->n0 < n1; call->n0 += pass) {
    call->n1 = min_i64(call->n0 + pass, n1);
    for (int64_t m = m0; m < m1;) {
      const bool is_first = m == m0;
      tiles_step steps[kMostSteps];
      int count = 0;
      for (; m < m1 && count < most; m += kTileRows)
        direct_step(call, m, m1, (m - m0) / kGroupRows, &steps[count++]);
      compute_steps(call, steps, count, is_first, m >= m1);
    }
  }
}

// Computes pixels [m0,m1) of the columns of |call|, whose layout, offsets and panel are made here.
static void run_tiles(tiles_call* call, int64_t m0, int64_t m1) {
  call->layout = tiles_layout_of(&call->conv);
  call->panel = call->layout.taps * call->layout.depth * kPanel;
  // Where a call computes all rows, the next one likely computes as many columns behind.
  const bool all_rows = m0 == 0 && m1 == call->conv.n * call->conv.p * call->conv.q;
  call->n_next = all_rows ? min_i64(2 * call->n1 - call->n0, call->conv.k) : call->n1;
  call->streams = call->panel / kPanel * (call->n1 - call->n0) > kNearWeightBytes;
  find_offsets(call);
  amx_begin();
  if (call->layout.direct)
    run_direct(call, m0, m1);
  else
    run_copied(call, m0, m1);
  amx_end();
}

#endif  // CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_LOOP_H_
