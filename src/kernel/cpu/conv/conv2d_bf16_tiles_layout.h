// How conv2d_bf16_tiles lays out the pixels under its filter; private to its sources.
// A block of output rows and columns is computed from a padded copy of the input under it, in which
// every filter tap is one offset: output pixel (i,j) of the block is row i * columns + j of a
// matrix, and under tap (r,s) it reads the copied pixel (i * columns + j) + offset(r,s). What lies
// between the rows of a block is computed and not stored. With a stride of t there is a copy for
// each residue of r * dilation modulo t. Where the columns of a filter row are one tap, a copied
// pixel holds the S * C numbers under it, and there is one for each output column.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_BF16_TILES_LAYOUT_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_BF16_TILES_LAYOUT_H_

#include "kernel/cpu/conv/conv2d_bf16_tiles.h"

enum {
  kTileDepth = 32,               // elements of K of a tile
  kTileRows = 32,                // pixels of a step
  kSmallCopyBytes = 128 * 1024,  // of the copy, which stays in L2 with the weights that it meets
  kLargeCopyBytes = 512 * 1024,  // where the small one holds the pixels under few results
  kFewResults = 256,
  kWeightBytes = 1024 * 1024,      // weights that stay in L2 while all pixels of a block meet them
  kBlockBytes = 256 * 1024,        // of pixels read in place, of a block
  kChannelBlock = 4 * kTileDepth,  // channels that all taps read while they are in L1
  kLeastColumns = 16
};

typedef struct tiles_layout {
  bool direct;             // pixels are read where they lie, without a copy
  bool joins;              // the columns of a filter row are one tap
  bool fits;               // the copy holds the pixels under some results
  int64_t bytes;           // of the copy
  int64_t taps, channels;  // of a tap: C, or S * C
  int64_t depth;           // channels filled up to whole tiles
  int64_t row_phases, column_phases;
  int64_t rows, out_columns;     // of a block
  int64_t copied_rows, columns;  // of a phase, and pixels of a copied row
} tiles_layout;

static inline int64_t tiles_phases(int64_t taps, int64_t dilation, int64_t stride) {
  int64_t most = 0;
  for (int64_t t = 0; t < taps; ++t)
    most = t * dilation % stride > most ? t * dilation % stride : most;
  return most + 1;
}

// The layout of a copy of up to |bytes|.
static inline tiles_layout tiles_layout_within(const carnot_conv2d_bf16_tiles* p, int64_t bytes) {
  const carnot_conv2d_f32* c = &p->conv;
  tiles_layout l = {.joins = carnot_bf16_tiles_joins_columns(c->c, c->s, c->dilation_w)};
  const int64_t s = l.joins ? 1 : c->s;
  l.taps = c->r * s;
  l.channels = l.joins ? c->s * c->c : c->c;
  l.depth = (l.channels + kTileDepth - 1) / kTileDepth * kTileDepth;
  const bool one = c->r == 1 && c->s == 1 && c->stride_h == 1 && c->stride_w == 1 && !c->pad_h &&
                   !c->pad_w && c->p == c->h && c->q == c->w;
  const bool even = (c->h == 1 || c->src_h == c->src_w * c->w) &&
                    (c->n == 1 || c->src_n == c->src_w * c->w * c->h);
  l.direct = one && even && p->src_is_bf16 && l.depth == c->c;
  l.row_phases = tiles_phases(c->r, c->dilation_h, c->stride_h);
  l.column_phases = tiles_phases(s, c->dilation_w, c->stride_w);
  const int64_t phases = l.row_phases * l.column_phases;
  const int64_t more_rows = (c->r - 1) * c->dilation_h / c->stride_h;
  const int64_t more_columns = (s - 1) * c->dilation_w / c->stride_w;
  // Pixels of the copy; the last step reads a step and the widest offset behind it.
  const int64_t most = bytes / (l.depth * 2) - kTileRows - more_columns;
  const int64_t columns = most / (phases * (1 + more_rows)) - more_columns;
  l.out_columns = columns < c->q ? columns : c->q;
  l.columns = l.out_columns + more_columns;
  l.fits = l.direct || l.out_columns == c->q || l.out_columns >= kLeastColumns;
  const int64_t rows = l.columns > 0 ? most / l.columns / phases - more_rows : 0;
  l.rows = rows < 1 ? 1 : rows < c->p ? rows : c->p;
  l.copied_rows = l.rows + more_rows;
  l.bytes = l.direct ? l.depth * 2 * (kTileRows / 2) : bytes;
  return l;
}

static inline tiles_layout tiles_layout_of(const carnot_conv2d_bf16_tiles* p) {
  const tiles_layout l = tiles_layout_within(p, kSmallCopyBytes);
  const bool all = l.rows == p->conv.p && l.out_columns == p->conv.q;
  return l.direct || (l.fits && (all || l.rows * l.out_columns >= kFewResults))
             ? l
             : tiles_layout_within(p, kLargeCopyBytes);
}

#endif
