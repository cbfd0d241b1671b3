// How convolutions by AMX tiles lay out the pixels under their filter; private to their sources.
// A block of output rows and columns is computed from a padded copy of the input under it, in which
// every filter tap is one offset: output pixel (i,j) of the block is row i * columns + j of a
// matrix, and under tap (r,s) it reads the copied pixel (i * columns + j) + offset(r,s). What lies
// between the rows of a block is computed and not stored. With a stride of t there is a copy for
// each residue of r * dilation modulo t. Where several columns of the filter are one tap, the
// pixels of a copied row lie one behind the other as in memory: a tile reads those of a tap, and
// what lies behind them meets weights of zero.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_LAYOUT_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_TILES_LAYOUT_H_

#include "kernel/cpu/conv/conv2d_bf16_tiles.h"
#include "kernel/cpu/conv/conv2d_s8_tiles.h"

enum {
  kTileBytes = 64,                // of a tile's row
  kGroupRows = 16,                // pixels of a tile
  kTileRows = 2 * kGroupRows,     // of a step
  kLeastStored = 8,               // of them at a time beside a tile of K
  kSmallCopyBytes = 128 * 1024,   // of the copy, which stays in L2 with the weights that it meets
  kLargeCopyBytes = 1024 * 1024,  // where the small one holds the pixels under few results
  kFewResults = 256,
  kMostCopies = 3,                 // of a pixel
  kWeightBytes = 256 * 1024,       // weights that all pixels of a block meet before the next ones
  kNearL2Bytes = 1024 * 1024,      // weights that stay in L2
  kMostNearBytes = 1536 * 1024,    // weights of which most stay in L2 for the next image
  kNearWeightBytes = 48 * 1024,    // weights that stay in L1, or nearly
  kBlockBytes = 1024 * 1024,       // of pixels read in place, of a block
  kChannelBlock = 4 * kTileBytes,  // of channels that all taps read while they are in L1
  kLeastColumns = 16,
  kMostTaps = CARNOT_BF16_TILES_MAX_TAPS,
  kDirectGroups = 4  // tiles whose pixels are copied because what lies behind them may not be read
};

// A convolution as the loops by tiles see it: elements of one or two bytes in tiles.
typedef struct tiles_conv {
  int64_t n, h, w, c, p, q, k, r, s, stride_h, stride_w, dilation_h, dilation_w, pad_h, pad_w;
  const char* src;
  int64_t src_n, src_h, src_w;  // bytes
  int element;                  // bytes of an element of a tile
  int64_t joined;               // columns, or all elements, of the filter that are one tap
  bool in_place;                // elements lie in memory as tiles hold them
  bool windows;       // no window leaves the input, and a tile may be read at each of its pixels
  bool reads_behind;  // what tiles read behind a pixel's channels meets weights of zero and is
                      // finite
} tiles_conv;

// Fields of a tiles_conv from a call whose elements have |bytes| in memory.
#define TILES_CONV_FIELDS(conv, bytes)                                                            \
  .n = (conv)->n, .h = (conv)->h, .w = (conv)->w, .c = (conv)->c, .p = (conv)->p, .q = (conv)->q, \
  .k = (conv)->k, .r = (conv)->r, .s = (conv)->s, .stride_h = (conv)->stride_h,                   \
  .stride_w = (conv)->stride_w, .dilation_h = (conv)->dilation_h,                                 \
  .dilation_w = (conv)->dilation_w, .pad_h = (conv)->pad_h, .pad_w = (conv)->pad_w,               \
  .src = (const char*)(conv)->src, .src_n = (conv)->src_n * (bytes),                              \
  .src_h = (conv)->src_h * (bytes), .src_w = (conv)->src_w * (bytes)

static inline tiles_conv tiles_conv_of_bf16(const carnot_conv2d_bf16_tiles* p) {
  const carnot_conv2d_f32* c = &p->conv;
  return (tiles_conv){TILES_CONV_FIELDS(c, p->src_is_bf16 ? 2 : 4), .element = 2,
                      .joined = p->joined > 1 ? p->joined : 1, .in_place = p->src_is_bf16};
}

static inline tiles_conv tiles_conv_of_s8(const carnot_conv2d_s8_tiles* p) {
  const carnot_conv2d_u8s8* c = &p->conv;
  return (tiles_conv){TILES_CONV_FIELDS(c, 1), .element = 1,           .joined = 1,
                      .in_place = true,        .windows = p->readable, .reads_behind = true};
}

typedef struct tiles_layout {
  bool direct;             // pixels are read where they lie, without a copy
  bool gathered;           // the numbers under a whole filter are one tap, gathered for each output
  bool fits;               // the copy holds the pixels under some results
  int64_t bytes;           // of the copy
  int64_t taps, row_taps;  // of the filter, of a row of it
  int64_t depth;           // bytes of the channels of a tap filled up to whole tiles
  int64_t unit;            // bytes from the copied pixel under an output to that under the next
  int64_t row_phases, column_phases;
  int64_t rows, out_columns;     // of a block
  int64_t copied_rows, columns;  // of a phase, and pixels of a copied row
  int64_t dense_row;             // bytes of an input row that is gathered from
  int64_t images, image_bytes;   // whole images that are one block, and the copy of each
} tiles_layout;

static inline int64_t tiles_phases(int64_t taps, int64_t dilation, int64_t stride) {
  int64_t most = 0;
  for (int64_t t = 0; t < taps; ++t)
    most = t * dilation % stride > most ? t * dilation % stride : most;
  return most + 1;
}

// Whether the pixels under 16 consecutive results are at equal distances, and tiles may read them.
static inline bool tiles_read_in_place(const tiles_conv* c, int64_t depth) {
  const bool one = c->r == 1 && c->s == 1 && c->stride_h == 1 && c->stride_w == 1 && !c->pad_h &&
                   !c->pad_w && c->p == c->h && c->q == c->w;
  const bool even = (c->h == 1 || c->src_h == c->src_w * c->w) &&
                    (c->n == 1 || c->src_n == c->src_w * c->w * c->h);
  const bool whole = depth == c->c * c->element ||
                     (c->reads_behind && c->c * c->element >= kGroupRows && c->src_w >= c->c);
  return c->in_place && ((one && even && whole) || (c->windows && c->q % kGroupRows == 0));
}

// The layout of a copy of up to |bytes| where the whole filter is one tap: a tile's row for each
// output, and behind them the input rows that they are gathered from.
static inline tiles_layout tiles_layout_gathered(const tiles_conv* c, int64_t bytes) {
  tiles_layout l = {.gathered = true, .taps = 1, .row_taps = 1, .column_phases = 1};
  l.depth = l.unit = kTileBytes;
  l.row_phases = tiles_phases(c->r, 1, c->stride_h);
  const int64_t more_rows = (c->r - 1) / c->stride_h, more_columns = (c->s - 1) / c->stride_w + 1,
                pixel = c->stride_w * c->c * c->element;
  const int64_t most = bytes - (kTileRows + l.row_phases + 1) * kTileBytes;
  const int64_t columns =
      most / (kTileBytes + l.row_phases * (1 + more_rows) * pixel) - more_columns;
  l.out_columns = l.columns = columns < c->q ? columns : c->q;
  l.fits = l.out_columns == c->q || l.out_columns >= kLeastColumns;
  l.dense_row = (l.out_columns + more_columns) * pixel;
  const int64_t rows = (most - l.row_phases * more_rows * l.dense_row) /
                       (l.out_columns * kTileBytes + l.row_phases * l.dense_row);
  l.rows = rows < 1 ? 1 : rows < c->p ? rows : c->p;
  l.copied_rows = l.rows + more_rows;
  l.bytes = bytes;
  return l;
}

// The layout of a copy of up to |bytes|.
static inline tiles_layout tiles_layout_within(const tiles_conv* c, int64_t bytes) {
  if (c->joined > c->s) return tiles_layout_gathered(c, bytes);
  tiles_layout l = {.row_taps = (c->s + c->joined - 1) / c->joined};
  l.taps = c->r * l.row_taps;
  l.depth = (c->joined * c->c * c->element + kTileBytes - 1) / kTileBytes * kTileBytes;
  l.unit = c->joined > 1 ? c->stride_w * c->c * c->element : l.depth;
  l.direct = tiles_read_in_place(c, l.depth);
  l.row_phases = tiles_phases(c->r, c->dilation_h, c->stride_h);
  l.column_phases = c->joined > 1 ? 1 : tiles_phases(c->s, c->dilation_w, c->stride_w);
  const int64_t phases = l.row_phases * l.column_phases;
  const int64_t more_rows = (c->r - 1) * c->dilation_h / c->stride_h;
  const int64_t more_columns = (c->s - 1) * c->dilation_w / c->stride_w;
  // Pixels of the copy; the last step reads a step, the widest offset and a tile's row behind it.
  const int64_t most =
      bytes / l.unit - kTileRows - more_columns - (c->joined > 1 ? l.depth / l.unit + 1 : 0);
  const int64_t columns = most / (phases * (1 + more_rows)) - more_columns;
  l.out_columns = columns < c->q ? columns : c->q;
  l.columns = l.out_columns + more_columns;
  l.fits =
      l.taps <= kMostTaps && (l.direct || l.out_columns == c->q || l.out_columns >= kLeastColumns);
  const int64_t rows = l.columns > 0 ? most / l.columns / phases - more_rows : 0;
  l.rows = rows < 1 ? 1 : rows < c->p ? rows : c->p;
  l.copied_rows = l.rows + more_rows;
  l.bytes = l.direct ? l.depth * kGroupRows * kDirectGroups : bytes;
  return l;
}

// Pixels that are copied for one block, by those under results of their own.
static inline double tiles_copies(const tiles_conv* c, const tiles_layout* l) {
  return (double)(l->copied_rows * l->row_phases * l->columns) /
         (double)(l->rows * c->stride_h * l->out_columns);
}

// Weights that do not stay in L2 are read once for as many small images as a large copy holds.
static inline void tiles_join_images(const tiles_conv* c, tiles_layout* l) {
  l->images = 1;
  if (l->direct || c->joined > 1 || l->rows < c->p || l->out_columns < c->q) return;
  if (l->taps * l->depth * c->k <= kMostNearBytes) return;
  const int64_t pixels = l->row_phases * l->column_phases * l->copied_rows * l->columns;
  l->image_bytes = (pixels + kTileRows + l->columns) * l->unit;
  const int64_t fit = kLargeCopyBytes / l->image_bytes;
  l->images = fit < 2 ? 1 : fit < c->n ? fit : c->n;
  if (l->images > 1) l->bytes = l->images * l->image_bytes;
}

// The small copy, unless it holds too few results or copies pixels again and again for the next
// rows of a high filter.
static inline tiles_layout tiles_layout_of(const tiles_conv* c) {
  tiles_layout l = tiles_layout_within(c, kSmallCopyBytes);
  const bool all = (l.rows == c->p && l.out_columns == c->q) || l.gathered;
  const bool some = l.rows * l.out_columns >= kFewResults && tiles_copies(c, &l) <= kMostCopies;
  if (!l.direct && !(l.fits && (all || some))) l = tiles_layout_within(c, kLargeCopyBytes);
  tiles_join_images(c, &l);
  return l;
}

#endif
