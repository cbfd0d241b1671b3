// What the tiles of grouped convolution share, and those of groups that fill vectors of outputs;
// private to conv2d_grouped_f32.c.
#ifndef CARNOT_KERNEL_CPU_CONV_CONV2D_GROUPED_WIDE_H_
#define CARNOT_KERNEL_CPU_CONV_CONV2D_GROUPED_WIDE_H_

#include <string.h>

#include "kernel/cpu/common/sliding_window.h"
#include "kernel/cpu/conv/conv2d_grouped_f32.h"

enum {
  kPanel = 16,  // outputs of a panel, and channels that are copied together
  kVectors = kPanel / V_LANES,
};

// Output rows and columns of a tile of a panel, and of one for narrow images; kPixels of either.
#if defined(__AVX512F__)
enum { kRows = 2, kColumns = 14, kTallRows = 4, kTallColumns = 7 };
#elif defined(__AVX2__)
enum { kRows = 1, kColumns = 6, kTallRows = 2, kTallColumns = 3 };
#else
enum { kRows = 1, kColumns = 3, kTallRows = 1, kTallColumns = 3 };
#endif
enum {
  kPixels = kRows * kColumns,
  kRing = 8,  // rows that are kept
  // Floats of a copied row, whose columns are filled up to a multiple of a stride of at most 7.
  kRoom = (CARNOT_CONV2D_GROUPED_COLUMNS + 8) * kPanel,
};
_Static_assert((int)kPixels == kTallRows * kTallColumns, "a tile has as many sums either way");
_Static_assert((int)kColumns <= (int)CARNOT_CONV2D_GROUPED_PIXELS, "columns are bounded by it");
_Static_assert((int)CARNOT_CONV2D_GROUPED_ROWS % kRows == 0 &&
                   (int)CARNOT_CONV2D_GROUPED_ROWS % kTallRows == 0,
               "parts of whole tiles");

// Blocks of kPanel channels of a group.
CARNOT_INLINE int64_t blocks_of(const carnot_conv2d_grouped_f32* c) {
  return (c->c + kPanel - 1) / kPanel;
}

// Output rows of one panel, or of one vector of it.
typedef struct span {
  const carnot_conv2d_grouped_f32* conv;
  const void* src;           // of the image: row 0, column 0, first channel
  int64_t h0;                // input row under tap row 0 of the first output row
  int64_t rows;              // output rows, from one image
  window_taps taps;          // tap rows that lie inside for any of them
  const float* weights;      // of the panel, from tap row 0 on
  int64_t channels;          // that the panel, or the vector of narrow groups, reads
  int64_t offset[kVectors];  // of the channels of each vector's group
  int64_t left;              // outputs of the panel, or the vector
  vi32 lanes, step;          // channel 0 of each lane's group; 1
  vf32 lo, hi;
  bool clip;
  void* dst;             // of the first row, at the first output
  const void* residual;  // likewise
} span;

CARNOT_INLINE void store_sum(const span* sp, int64_t pixel, int64_t at, vf32 sum) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  const int64_t left = sp->left - at;
  if (left <= 0) return;
  if (sp->residual)
    sum = v_add(sum, v_load_stored(c->dst_is_bf16, sp->residual,
                                   pixel * c->epilogue.residual_ld + at, left));
  if (sp->clip) sum = v_min_to(sp->hi, v_max_to(sp->lo, sum));
  v_store_stored(c->dst_is_bf16, sp->dst, pixel * c->ld + at, sum, left);
}

CARNOT_INLINE vf32 bias_of(const span* sp, const float* bias, int64_t at) {
  return bias && sp->left > at ? v_load_upto(bias + at, sp->left - at) : v_zero();
}

// |channels| channels from |ch| on of columns w0 + j * apart, 0 <= j < count, of input row |h|:
// |pitch| floats each, zeros where they are in the padding.
CARNOT_INLINE void copy_columns(const span* sp, int64_t h, int64_t w0, int64_t apart, int64_t count,
                                int64_t ch, int64_t channels, int64_t pitch, float* columns) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  for (int64_t j = 0; j < count; ++j) {
    const int64_t w = w0 + j * apart;
    const bool inside = (uint64_t)w < (uint64_t)c->w;
    for (int64_t at = 0; at < pitch; at += V_LANES) {
      const int64_t left = channels - at;
      const int64_t from = h * c->src_h + w * c->src_w + ch + at;
      v_store(columns + j * pitch + at,
              inside && left > 0 ? v_load_stored(c->src_is_bf16, sp->src, from, left) : v_zero());
    }
  }
}

// Copies of input rows under a tile, kPanel channels of each, which later taps and tiles below read
// again: in memory the pixels of one panel lie far apart.
typedef struct row_cache {
  int64_t held[kRing];  // the row and its channels, -1: none
  int64_t w0, plane;
  float rows[kRing + 1][kRoom];  // of zeros: the last
} row_cache;

// |columns| output columns from |q| on.
static void row_cache_init(const carnot_conv2d_grouped_f32* c, int64_t q, int64_t columns,
                           row_cache* cache) {
  for (int i = 0; i < kRing; ++i) cache->held[i] = -1;
  cache->w0 = q * c->stride_w - c->pad_w;
  cache->plane = (carnot_conv2d_grouped_columns(c, columns) + c->stride_w - 1) / c->stride_w;
  memset(cache->rows[kRing], 0, (size_t)(cache->plane * c->stride_w * kPanel) * sizeof(float));
}

// Where column |column| of the cache lies in a row. Columns that are a stride apart lie side by
// side, and the planes that they make one after another.
CARNOT_INLINE int64_t row_cache_at(const carnot_conv2d_grouped_f32* c, const row_cache* cache,
                                   int64_t column) {
  return (column % c->stride_w * cache->plane + column / c->stride_w) * kPanel;
}

// Channels from |ch| on of the input row under tap row |r| of output row |y| of the span.
static const float* row_cache_get(row_cache* cache, const span* sp, int64_t y, int64_t r,
                                  int64_t ch) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  const int64_t h = sp->h0 + y * c->stride_h + r * c->dilation_h;
  if (y >= sp->rows || (uint64_t)h >= (uint64_t)c->h) return cache->rows[kRing];
  const int64_t key = h * blocks_of(c) + ch / kPanel, slot = key % kRing;
  float* row = cache->rows[slot];
  if (cache->held[slot] == key) return row;
  cache->held[slot] = key;
  for (int64_t x = 0; x < c->stride_w; ++x) {
    copy_columns(sp, h, cache->w0 + x, c->stride_w, cache->plane, ch,
                 min_i64(sp->channels - ch, kPanel), kPanel, row + x * cache->plane * kPanel);
  }
  return row;
}

// The first |count| <= |columns| pixels from column |q| on of |sp->rows| <= |rows| rows of a panel.
CARNOT_INLINE void wide_tile(int rows, int columns, const span* sp, const float* bias, int64_t q,
                             int64_t count, row_cache* cache) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  int64_t under_tap[CARNOT_CONV2D_GROUPED_COLUMNS];
  for (int64_t s = 0; s < c->s; ++s) under_tap[s] = row_cache_at(c, cache, s * c->dilation_w);
  vf32 sum[kPixels][kVectors];
  CARNOT_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const vf32 begin = bias_of(sp, bias, v * V_LANES);
    CARNOT_UNROLL
    for (int t = 0; t < kPixels; ++t) sum[t][v] = begin;
  }
  for (int64_t r = sp->taps.begin; r < sp->taps.end; ++r) {
    const float* weights = sp->weights + r * c->c * c->s * kPanel;
    for (int64_t ch = 0; ch < c->c; ch += kPanel) {
      const float* under[kTallRows];
      CARNOT_UNROLL
      for (int y = 0; y < rows; ++y) under[y] = row_cache_get(cache, sp, y, r, ch);
      for (int64_t i = 0; i < min_i64(c->c - ch, kPanel); ++i) {
        for (int64_t s = 0; s < c->s; ++s, weights += kPanel) {
          CARNOT_UNROLL
          for (int v = 0; v < kVectors; ++v) {
            const vf32 w = v_load(weights + v * V_LANES);
            const float* x[kTallRows];  // in the middle of a row: displacements of one byte
            CARNOT_UNROLL
            for (int y = 0; y < rows; ++y) {
              x[y] = under[y] + under_tap[s] + i + sp->offset[v] + columns / 2 * kPanel;
              CARNOT_OPAQUE(x[y]);
            }
            CARNOT_UNROLL
            for (int t = 0; t < kPixels; ++t) {
              const int at = (t % columns - columns / 2) * kPanel;
              sum[t][v] = v_fma(v_set(x[t / columns][at]), w, sum[t][v]);
            }
          }
        }
      }
    }
  }
  CARNOT_UNROLL
  for (int t = 0; t < kPixels; ++t) {
    if (t / columns >= sp->rows || t % columns >= count) continue;
    CARNOT_UNROLL
    for (int v = 0; v < kVectors; ++v)
      store_sum(sp, t / columns * c->q + q + t % columns, v * V_LANES, sum[t][v]);
  }
}

typedef void wide_tile_fn(const span* sp, const float* bias, int64_t q, int64_t count,
                          row_cache* cache);

static void wide_tile_long(const span* sp, const float* bias, int64_t q, int64_t count,
                           row_cache* cache) {
  wide_tile(kRows, kColumns, sp, bias, q, count, cache);
}
static void wide_tile_tall(const span* sp, const float* bias, int64_t q, int64_t count,
                           row_cache* cache) {
  wide_tile(kTallRows, kTallColumns, sp, bias, q, count, cache);
}

#endif
