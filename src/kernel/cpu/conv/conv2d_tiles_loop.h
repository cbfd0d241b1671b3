// The loops of convolutions by AMX tiles: four accumulators of 16 pixels by 16 channels, loaded and
// stored once for all of K. Included by the kernels, which supply the functions of tiles_call.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_LOOP_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_LOOP_H_

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/conv/conv2d_tiles_layout.h"
#include "kernel/cpu/gemm/amx_tiles.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum {
  kPanel = 16,  // columns of a tile
  kStepColumns = 2 * kPanel,
  kMostSteps = 64  // of a block
};

typedef struct tiles_call tiles_call;

// A step: 32 pixels by 32 channels over all of K.
typedef struct tiles_step {
  const char* a[2];        // the first pixels of two groups of 16 under tap offset 0
  int64_t stride[2];       // bytes from one pixel of a group to the next
  int groups;              // 1 or 2
  int count;               // pixels
  bool dense;              // pixels are |out[0]| and those behind it, all stored
  int64_t out[kTileRows];  // output pixels; -1: not stored
} tiles_step;

// What is done beside each tile of K while the tiles multiply.
typedef struct tiles_beside {
  const char* from;  // memory that a later step reads: some lines are fetched
  int64_t lines;
  const tiles_step* step;  // an earlier step: some of its rows from |row| on are stored
  int64_t n;
  void* sums;
  int row, rows;  // the next one; how many at a time
} tiles_beside;

// What the steps of a call share.
struct tiles_call {
  tiles_conv conv;
  const void* problem;  // the kernel's
  // Copies |count| pixels of the input, |stride| bytes apart, to pixels |depth| bytes apart.
  void (*copy_pixels)(const tiles_call* call, const char* from, int64_t stride, int64_t count,
                      char* to);
  // Copies the numbers under a filter row that begins at column |w| of an input row, as one pixel.
  void (*join_columns)(const tiles_call* call, const char* row, int64_t w, char* to);
  // Sums of columns from |n| on: sums_of_step with the kernel's type.
  void (*sum)(const tiles_call* call, const tiles_step* s, int64_t n, tiles_beside* beside,
              void* sums);
  // Stores rows [begin, end) of the |sums| [32][32] of columns from |n| on, which it may change.
  void (*store)(const tiles_call* call, const tiles_step* s, int64_t n, int begin, int end,
                void* sums);
  int border;  // the byte of pixels in the padding
  char* scratch;
  const char* weights;
  tiles_layout layout;
  int64_t n0, n1;
  int64_t panel;  // bytes from one panel of weights to the next
  int64_t offsets[kMostTaps];
};

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
  if (c->joins) {
    for (int64_t j = 0; j < columns; ++j)
      call->join_columns(call, row, j * t + first, to + j * depth);
    return;
  }
  const int64_t begin = min_i64(columns, first < 0 ? (t - 1 - first) / t : 0);
  const int64_t end = max_i64(begin, min_i64(columns, (c->w - first + t - 1) / t));
  memset(to, call->border, (size_t)(begin * depth));
  if (end > begin)
    call->copy_pixels(call, row + (begin * t + first) * c->src_w, t * c->src_w, end - begin,
                      to + begin * depth);
  memset(to + end * depth, call->border, (size_t)((columns - end) * depth));
}

static void copy_block(const tiles_call* call, const tiles_block* b) {
  const tiles_conv* c = &call->conv;
  const tiles_layout* l = &call->layout;
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
}

static void find_offsets(tiles_call* call) {
  const tiles_conv* c = &call->conv;
  const tiles_layout* l = &call->layout;
  const int64_t columns = l->taps / c->r;
  for (int64_t r = 0; r < c->r; ++r)
    for (int64_t s = 0; s < columns; ++s) {
      const int64_t y = r * c->dilation_h, x = s * c->dilation_w;
      const int64_t phase = y % c->stride_h * l->column_phases + x % c->stride_w;
      const int64_t pixel =
          (phase * l->copied_rows + y / c->stride_h) * l->columns + x / c->stride_w;
      call->offsets[r * columns + s] = l->direct ? y * c->src_h + x * c->src_w : pixel * l->depth;
    }
}

// ---- sums of a step ----

typedef enum tiles_type { TILES_BF16, TILES_U8S8, TILES_S8S8 } tiles_type;

#define TILES_DOT(type, c, a, b)   \
  do {                             \
    if ((type) == TILES_BF16)      \
      _tile_dpbf16ps(c, a, b);     \
    else if ((type) == TILES_U8S8) \
      _tile_dpbusd(c, a, b);       \
    else                           \
      _tile_dpbssd(c, a, b);       \
  } while (0)

CARNOT_INLINE void store_some(const tiles_call* call, tiles_beside* b) {
  if (!b->step || b->row >= b->step->count) return;
  const int end = b->step->count - b->row < b->rows ? b->step->count : b->row + b->rows;
  call->store(call, b->step, b->n, b->row, end, b->sums);
  b->row = end;
}

CARNOT_INLINE void work_beside(const tiles_call* call, tiles_beside* b) {
  for (int64_t i = 0; i < b->lines; ++i, b->from += 64) _mm_prefetch(b->from, _MM_HINT_T1);
  store_some(call, b);
}

// Adds |depth| bytes of K from |a| bytes behind the pixels on.
CARNOT_INLINE void accumulate(tiles_type type, int groups, int panels, const tiles_call* call,
                              const tiles_step* s, int64_t a, const char* b, int64_t depth,
                              tiles_beside* beside) {
  for (int64_t k = 0; k < depth; k += kTileBytes, b += kPanel * kTileBytes) {
    _tile_loadd(6, b, 64);
    _tile_loadd(4, s->a[0] + a + k, s->stride[0]);
    if (panels > 1) _tile_loadd(7, b + call->panel, 64);
    if (groups > 1) _tile_loadd(5, s->a[1] + a + k, s->stride[1]);
    TILES_DOT(type, 0, 4, 6);
    if (panels > 1) TILES_DOT(type, 1, 4, 7);
    if (groups > 1) TILES_DOT(type, 2, 5, 6);
    if (groups > 1 && panels > 1) TILES_DOT(type, 3, 5, 7);
    work_beside(call, beside);
  }
}

// The sums of 32 pixels by 32 columns, four bytes each, to |sums|.
CARNOT_INLINE void sums_of_shape(tiles_type type, int groups, int panels, const tiles_call* call,
                                 const tiles_step* s, const char* b, tiles_beside* beside,
                                 char* sums) {
  const int64_t ld = kStepColumns * 4, depth = call->layout.depth;
  AMX_BARRIER();
  _tile_zero(0);
  if (panels > 1) _tile_zero(1);
  if (groups > 1) _tile_zero(2);
  if (groups > 1 && panels > 1) _tile_zero(3);
  for (int64_t k = 0; k < depth; k += kChannelBlock) {
    const int64_t part = min_i64(kChannelBlock, depth - k);
    for (int64_t t = 0; t < call->layout.taps; ++t)
      accumulate(type, groups, panels, call, s, call->offsets[t] + k, b + (t * depth + k) * kPanel,
                 part, beside);
  }
  _tile_stored(0, sums, ld);
  if (panels > 1) _tile_stored(1, sums + kPanel * 4, ld);
  if (groups > 1) _tile_stored(2, sums + kGroupRows * ld, ld);
  if (groups > 1 && panels > 1) _tile_stored(3, sums + kGroupRows * ld + kPanel * 4, ld);
  AMX_BARRIER();
}

CARNOT_INLINE void sums_of_step(tiles_type type, const tiles_call* call, const tiles_step* s,
                                int64_t n, tiles_beside* beside, void* sums) {
  const char* b = call->weights + n / kPanel * call->panel;
  const bool two = call->n1 - n > kPanel;
  if (s->groups == 2 && two)
    sums_of_shape(type, 2, 2, call, s, b, beside, sums);
  else if (s->groups == 2)
    sums_of_shape(type, 2, 1, call, s, b, beside, sums);
  else if (two)
    sums_of_shape(type, 1, 2, call, s, b, beside, sums);
  else
    sums_of_shape(type, 1, 1, call, s, b, beside, sums);
}

// ---- loops ----

// The columns that meet all pixels of a block before the next ones do: all where their weights stay
// in L2.
static int64_t columns_of_pass(const tiles_call* call) {
  const int64_t fits = kWeightBytes / (call->panel / kPanel) / kStepColumns * kStepColumns;
  return max_i64(fits, kStepColumns);
}

// The steps of a block, whose pixels stay in L1 while the columns meet them. The sums of one step
// are stored while the next one is computed. The first step of a call fetches the next columns.
static void compute_steps(const tiles_call* call, const tiles_step* steps, int count,
                          bool is_first) {
  char sums[2][kTileRows * kStepColumns * 4] __attribute__((aligned(64)));
  const int64_t pass = columns_of_pass(call), depth = call->panel / (kPanel * kTileBytes);
  tiles_beside beside = {.rows = (int)((kTileRows / 2 + depth - 1) / depth * 2)};  // pairs
  int at = 0;
  for (int64_t first = call->n0; first < call->n1; first += pass)
    for (int i = 0; i < count; ++i) {
      const int64_t end = min_i64(first + pass, call->n1);
      for (int64_t n = first; n < end; n += kStepColumns, at = 1 - at) {
        const int64_t left = min_i64(2, (call->n1 - n - 1) / kPanel - 1);  // panels behind these
        beside.from = call->weights + (n / kPanel + 2) * call->panel;
        beside.lines = is_first && i == 0 && left > 0 ? left * kPanel : 0;
        call->sum(call, &steps[i], n, &beside, sums[at]);
        beside.step = &steps[i], beside.n = n, beside.sums = sums[at], beside.row = 0;
      }
    }
  beside.rows = kTileRows;
  store_some(call, &beside);
}

// Pixels of a block from row |at| of its matrix on.
static void find_step(const tiles_call* call, const tiles_block* b, int64_t at, int64_t end,
                      int64_t m0, int64_t m1, tiles_step* s) {
  const tiles_conv* c = &call->conv;
  const tiles_layout* l = &call->layout;
  s->a[0] = b->copy + at * l->depth;
  s->a[1] = s->a[0] + kGroupRows * l->depth;
  s->stride[0] = s->stride[1] = l->depth;
  s->count = (int)min_i64(kTileRows, end - at);
  s->groups = s->count > kGroupRows ? 2 : 1;
  s->dense = true;
  int64_t i = at / l->columns, j = at % l->columns;
  for (int k = 0; k < s->count; ++k) {
    const int64_t m = (b->n * c->p + b->p0 + i) * c->q + b->q0 + j;
    s->out[k] = j < b->columns && m >= m0 && m < m1 ? m : -1;
    s->dense = s->dense && s->out[k] >= 0 && s->out[k] == s->out[0] + k;
    if (++j == l->columns) j = 0, ++i;
  }
}

static void compute_block(const tiles_call* call, const tiles_block* b, int64_t m0, int64_t m1,
                          bool is_first) {
  const int64_t end = (b->rows - 1) * call->layout.columns + b->columns;
  copy_block(call, b);
  for (int64_t at = 0; at < end; is_first = false) {
    tiles_step steps[kMostSteps];
    int count = 0;
    for (; at < end && count < kMostSteps; at += kTileRows)
      find_step(call, b, at, end, m0, m1, &steps[count++]);
    compute_steps(call, steps, count, is_first);
  }
}

static void run_copied(const tiles_call* call, int64_t m0, int64_t m1) {
  const tiles_conv* c = &call->conv;
  const tiles_layout* l = &call->layout;
  const int64_t image = c->p * c->q;
  bool is_first = true;
  for (int64_t n = m0 / image; n * image < m1; ++n) {
    const int64_t begin = max_i64(m0 - n * image, 0) / c->q;
    const int64_t end = (min_i64(m1 - n * image, image) + c->q - 1) / c->q;
    for (int64_t p0 = begin; p0 < end; p0 += l->rows) {
      const int64_t rows = min_i64(l->rows, end - p0), row = n * image + p0 * c->q;
      // Of a single row only the part that is asked for.
      const int64_t q_begin = rows == 1 ? max_i64(0, m0 - row) : 0;
      const int64_t q_end = rows == 1 ? min_i64(c->q, m1 - row) : c->q;
      for (int64_t q0 = q_begin; q0 < q_end; q0 += l->out_columns, is_first = false) {
        const tiles_block b = {n, p0, rows, q0, min_i64(l->out_columns, q_end - q0), call->scratch};
        compute_block(call, &b, m0, m1, is_first);
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
}

static void run_direct(const tiles_call* call, int64_t m0, int64_t m1) {
  const int64_t step = kTileRows * call->layout.depth;
  const int most = (int)min_i64(kMostSteps, max_i64(1, kBlockBytes / step));
  for (int64_t m = m0; m < m1;) {
    const bool is_first = m == m0;
    tiles_step steps[kMostSteps];
    int count = 0;
    for (; m < m1 && count < most; m += kTileRows)
      direct_step(call, m, m1, (m - m0) / kGroupRows, &steps[count++]);
    compute_steps(call, steps, count, is_first);
  }
}

// Computes pixels [m0,m1) of the columns of |call|, whose layout, offsets and panel are made here.
static void run_tiles(tiles_call* call, int64_t m0, int64_t m1) {
  call->layout = tiles_layout_of(&call->conv);
  call->panel = call->layout.taps * call->layout.depth * kPanel;
  find_offsets(call);
  amx_begin();
  if (call->layout.direct)
    run_direct(call, m0, m1);
  else
    run_copied(call, m0, m1);
  amx_end();
}

#endif  // CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_LOOP_H_
