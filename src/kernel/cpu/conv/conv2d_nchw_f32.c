// Convolution along the width. Tiles of filters and vectors of columns, or, of one channel and one
// filter, of rows and vectors, hold their sums in registers.
#include "kernel/cpu/conv/conv2d_nchw_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

// Filters and vectors of a tile; rows and vectors of a depthwise one.
enum {
  kFilters = V_LANES == 16 ? 6 : 3,
  kVectors = V_LANES == 16 ? 4 : 3,
  kRows = 4,
  kRowVectors = V_LANES == 16 ? 4 : 2
};

// The input as the tiles read it: in place or in the scratch.
typedef struct source {
  const float* data;  // under the first output row
  int64_t channel, row;
  int64_t columns[CARNOT_CONV2D_NCHW_TAPS];  // where each tap of a filter's row begins
} source;

// ---- the copy ----

// Writes whole vectors of zeros over y[begin] to y[end - 1], and beyond.
CARNOT_INLINE void clear(float* y, int64_t begin, int64_t end) {
  for (; begin < end; begin += V_LANES) {
    vf32 zero = v_zero();
    V_KEEP(zero);  // else a call of memset, for a vector or two
    v_store(y + begin, zero);
  }
}

// Columns x[0], x[stride] … as |count| neighbours, and zeros behind them up to a whole vector.
CARNOT_INLINE void copy_columns(const float* x, int64_t stride, int64_t count, float* y) {
  int64_t i = 0;
  if (stride == 1) {
    for (; i + V_LANES <= count; i += V_LANES) v_store(y + i, v_load(x + i));
    if (i < count) v_store(y + i, v_load_n(x + i, count - i));
    return;
  }
  // What the second vector reads ends before the last column does.
  for (; stride == 2 && i + V_LANES < count; i += V_LANES)
    v_store(y + i, v_even(v_load(x + 2 * i), v_load(x + 2 * i + V_LANES)));
  clear(y, i, count);
  for (; i < count; ++i) y[i] = x[i * stride];
}

// The columns of one phase of a row of the copy: |from| zeros, input columns from |first| on up to
// |to|, and zeros.
typedef struct phase_columns {
  int64_t first, from, to, count;
} phase_columns;

static phase_columns phase_columns_of(const carnot_conv2d_nchw_f32* c, int64_t f, int64_t count) {
  const int64_t stride = c->stride_w, shift = f - c->pad_w;
  const int64_t from = shift < 0 ? min_i64(count, (-shift + stride - 1) / stride) : 0;
  const int64_t end = shift < c->w ? (c->w - shift - 1) / stride + 1 : 0;
  const int64_t to = max_i64(from, min_i64(count, end));
  return (phase_columns){shift + from * stride, from, to, count};
}

// One row of the input, or of zeros where it is NULL. Column i of phase f is input column
// i*stride + f - pad. Up to a vector behind the row is written too.
CARNOT_INLINE void copy_row(const float* src, int64_t stride, phase_columns p, float* dst) {
  const int64_t to = src ? p.to : p.from;
  clear(dst, 0, p.from);
  if (to > p.from) copy_columns(src + p.first, stride, to - p.from, dst + p.from);
  clear(dst, p.from + (to - p.from + V_LANES - 1) / V_LANES * V_LANES, p.count);
}

// Rows in order, and their phases: what is written behind one is written again.
static void copy_band(const carnot_conv2d_nchw_f32* c, int64_t row0, int64_t rows, int64_t phase,
                      float* scratch) {
  enum { kKept = 4 };
  const int64_t first = row0 * c->stride_h - c->pad_h;
  phase_columns kept[kKept];
  for (int64_t f = 0; f < kKept; ++f) kept[f] = phase_columns_of(c, f, phase);
  for (int64_t ch = 0; ch < c->c; ++ch) {
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t h = first + i;
      const float* src = h >= 0 && h < c->h ? c->src + ch * c->src_plane + h * c->w : NULL;
      for (int64_t f = 0; f < c->stride_w; ++f, scratch += phase)
        copy_row(src, c->stride_w, f < kKept ? kept[f] : phase_columns_of(c, f, phase), scratch);
    }
  }
}

static source source_of(const carnot_conv2d_nchw_f32* c, int64_t row0, int64_t row1,
                        float* scratch) {
  source from;
  const bool in_place = carnot_conv2d_nchw_in_place(c);
  const int64_t phase = carnot_conv2d_nchw_phase(c);
  if (in_place) {
    from.data = c->src + row0 * c->stride_h * c->w;
    from.row = c->w, from.channel = c->src_plane;
  } else {
    const int64_t rows = carnot_conv2d_nchw_band(c, row1 - row0);
    copy_band(c, row0, rows, phase, scratch);
    from.data = scratch;
    from.row = c->stride_w * phase, from.channel = rows * from.row;
  }
  for (int64_t s = 0; s < c->s; ++s) {
    const int64_t at = s * c->dilation_w;
    from.columns[s] = in_place ? at : at % c->stride_w * phase + at / c->stride_w;
  }
  return from;
}

// ---- tiles of filters and columns ----

// Sums of |filters| filters from |k| on for |vectors| vectors from column |q| of the row |x| on,
// both constants; |reads| lanes of the last one may be read. |weights| are those of the first
// filter, |next| apart from tap to tap.
CARNOT_INLINE void filter_tile(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                               const float* weights, int64_t next, int64_t k, int64_t q,
                               int filters, int vectors, int64_t reads, float* dst) {
  vf32 acc[kFilters][kVectors];
  CARNOT_UNROLL
  for (int f = 0; f < filters; ++f) {
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) acc[f][v] = c->bias ? v_set(c->bias[k + f]) : v_zero();
  }
  const int64_t down = from->row * c->dilation_h, taps = c->s;
  for (int64_t ch = 0; ch < c->c; ++ch) {
    const float* row = x + ch * from->channel + q;
    for (int64_t r = 0; r < c->r; ++r, row += down) {
      for (int64_t s = 0; s < taps; ++s, weights += next) {
        const float* at = row + from->columns[s];
        vf32 y[kVectors];
        CARNOT_UNROLL
        for (int v = 0; v < vectors; ++v)
          y[v] = reads < V_LANES ? v_load_n(at, reads) : v_load(at + v * V_LANES);
        CARNOT_UNROLL
        for (int f = 0; f < filters; ++f) {
          const vf32 w = v_set(weights[f]);
          CARNOT_UNROLL
          for (int v = 0; v < vectors; ++v) acc[f][v] = v_fma(y[v], w, acc[f][v]);
        }
      }
    }
  }
  CARNOT_UNROLL
  for (int f = 0; f < filters; ++f) {
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) {
      const int64_t left = c->q - q - v * V_LANES;
      if (left > 0) v_store_upto(dst + (k + f) * c->dst_plane + q + v * V_LANES, acc[f][v], left);
    }
  }
}

// All filters of |vectors| vectors.
CARNOT_INLINE void columns_of(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                              int64_t q, int vectors, int64_t reads, float* dst) {
  const int64_t depth = c->c * c->r * c->s;
  for (int64_t begin = 0; begin < c->k; begin += CARNOT_CONV2D_NCHW_BLOCK) {
    const int64_t count = min_i64(CARNOT_CONV2D_NCHW_BLOCK, c->k - begin);
    const float* block = c->weights + begin * depth;
    for (int64_t i = 0; i < count;) {
      const int64_t left = count - i, k = begin + i;
      const float* w = block + i;
      // A tile of one or two filters waits for its loads: 8 are 4 and 4, 7 are 4 and 3.
      if (left >= kFilters && left != 7 && left != 8) {
        filter_tile(c, from, x, w, count, k, q, kFilters, vectors, reads, dst), i += kFilters;
      } else if (kFilters > 4 && left >= 4) {
        filter_tile(c, from, x, w, count, k, q, kFilters > 4 ? 4 : 1, vectors, reads, dst), i += 4;
      } else if (left >= 3) {
        filter_tile(c, from, x, w, count, k, q, 3, vectors, reads, dst), i += 3;
      } else if (left == 2) {
        filter_tile(c, from, x, w, count, k, q, 2, vectors, reads, dst), i += 2;
      } else {
        filter_tile(c, from, x, w, count, k, q, 1, vectors, reads, dst), i += 1;
      }
    }
  }
}

static void columns_1(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                      int64_t q, float* dst) {
  columns_of(c, from, x, q, 1, V_LANES, dst);
}
static void columns_2(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                      int64_t q, float* dst) {
  columns_of(c, from, x, q, 2, V_LANES, dst);
}
static void columns_3(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                      int64_t q, float* dst) {
  columns_of(c, from, x, q, 3, V_LANES, dst);
}
static void columns_most(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                         int64_t q, float* dst) {
  columns_of(c, from, x, q, kVectors, V_LANES, dst);
}
// Fewer columns than a vector, behind which the input may end.
static void last_columns(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                         int64_t q, float* dst) {
  columns_of(c, from, x, q, 1, c->q - q, dst);
}

// Channels at most, filters at least whose columns are gathered.
enum { kGathered = 128, kLeastGathered = 32 };

// The same of a 1x1 filter over a copy of the columns: where they lie, each channel is in a page of
// its own, and the results of many filters evict it before the next ones read it.
static void gathered_columns(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                             int64_t q, float* dst) {
  float columns[kGathered * kVectors * V_LANES] __attribute__((aligned(64)));
  for (int64_t ch = 0; ch < c->c; ++ch)
    for (int v = 0; v < kVectors; ++v)
      v_store(columns + (ch * kVectors + v) * V_LANES,
              v_load(x + ch * from->channel + q + v * V_LANES));
  const source near = {.data = columns, .channel = kVectors * V_LANES};
  columns_of(c, &near, columns - q, q, kVectors, V_LANES, dst);
}

static void row_by_filters(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                           float* dst) {
  const bool in_place = carnot_conv2d_nchw_in_place(c);
  const int64_t whole = in_place ? c->q / V_LANES : (c->q + V_LANES - 1) / V_LANES;
  int64_t v = 0;
  // One vector alone would wait for its sums: five are three and two.
  const bool gathers = in_place && c->r * c->s == 1 && c->c <= kGathered && c->k >= kLeastGathered;
  for (; whole - v >= kVectors && whole - v != kVectors + 1; v += kVectors)
    (gathers ? gathered_columns : columns_most)(c, from, x, v * V_LANES, dst);
  for (; v < whole; v += min_i64(3, whole - v)) {
    switch (whole - v) {
      case 1: columns_1(c, from, x, v * V_LANES, dst); break;
      case 2: columns_2(c, from, x, v * V_LANES, dst); break;
      default: columns_3(c, from, x, v * V_LANES, dst);
    }
  }
  if (v * V_LANES < c->q) last_columns(c, from, x, v * V_LANES, dst);
}

// ---- tiles of rows and columns, of one channel and one filter ----

// kRows output rows at a time from the rows of the input, each of which is read once. |taps| rows
// of the filter, the columns of a row, and their |stride| are constants.
CARNOT_INLINE void row_tile(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                            int64_t q, int taps, int stride, int vectors, float* dst) {
  vf32 acc[kRows][kRowVectors];
  CARNOT_UNROLL
  for (int o = 0; o < kRows; ++o) {
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) acc[o][v] = c->bias ? v_set(c->bias[0]) : v_zero();
  }
  const float* row = x + q;
  int64_t columns = taps;
  CARNOT_OPAQUE(columns);  // unrolled, too many of them would be held at once
  CARNOT_UNROLL
  for (int i = 0; i < (kRows - 1) * stride + taps; ++i, row += from->row) {
    const float* weights = c->weights;
    for (int64_t s = 0; s < columns; ++s, ++weights) {
      vf32 y[kRowVectors];
      CARNOT_UNROLL
      for (int v = 0; v < vectors; ++v) y[v] = v_load(row + from->columns[s] + v * V_LANES);
      CARNOT_UNROLL
      for (int o = 0; o < kRows; ++o) {
        const int r = i - o * stride;
        if (r < 0 || r >= taps) continue;
        const vf32 w = v_set(weights[r * taps]);
        CARNOT_UNROLL
        for (int v = 0; v < vectors; ++v) acc[o][v] = v_fma(y[v], w, acc[o][v]);
      }
    }
  }
  CARNOT_UNROLL
  for (int o = 0; o < kRows; ++o) {
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) {
      const int64_t left = c->q - q - v * V_LANES;
      if (left > 0) v_store_upto(dst + o * c->q + q + v * V_LANES, acc[o][v], left);
    }
  }
}

CARNOT_INLINE void rows_of(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                           int taps, int stride, float* dst) {
  int64_t q = 0;
  for (; q + (kRowVectors - 1) * V_LANES < c->q; q += kRowVectors * V_LANES)
    row_tile(c, from, x, q, taps, stride, kRowVectors, dst);
  for (; q + V_LANES < c->q; q += 2 * V_LANES) row_tile(c, from, x, q, taps, stride, 2, dst);
  if (q < c->q) row_tile(c, from, x, q, taps, stride, 1, dst);
}

#define ROWS(taps, stride)                                                                \
  static void rows_##taps##_##stride(const carnot_conv2d_nchw_f32* c, const source* from, \
                                     const float* x, float* dst) {                        \
    rows_of(c, from, x, taps, stride, dst);                                               \
  }
ROWS(3, 1)
ROWS(3, 2)
ROWS(5, 1)
ROWS(5, 2)
ROWS(7, 1)
ROWS(7, 2)
#undef ROWS

typedef void (*rows_fn)(const carnot_conv2d_nchw_f32* c, const source* from, const float* x,
                        float* dst);

static rows_fn rows_for(const carnot_conv2d_nchw_f32* c) {
  static const struct {
    int64_t taps, stride;
    rows_fn rows;
  } kForms[] = {{3, 1, rows_3_1}, {3, 2, rows_3_2}, {5, 1, rows_5_1},
                {5, 2, rows_5_2}, {7, 1, rows_7_1}, {7, 2, rows_7_2}};
  if (c->c != 1 || c->k != 1 || c->dilation_h != 1 || carnot_conv2d_nchw_in_place(c)) return NULL;
  for (size_t i = 0; i < sizeof kForms / sizeof *kForms; ++i)
    if (kForms[i].taps == c->r && c->s == c->r && kForms[i].stride == c->stride_h)
      return kForms[i].rows;
  return NULL;
}

void CARNOT_KERNEL(conv2d_nchw_f32)(const carnot_conv2d_nchw_f32* c, int64_t row0, int64_t row1,
                                    float* scratch) {
  const source from = source_of(c, row0, row1, scratch);
  const rows_fn rows = rows_for(c);
  const int64_t step = from.row * c->stride_h;
  int64_t row = row0;
  for (; rows && row + kRows <= row1; row += kRows)
    rows(c, &from, from.data + (row - row0) * step, c->dst + row * c->q);
  for (; row < row1; ++row)
    row_by_filters(c, &from, from.data + (row - row0) * step, c->dst + row * c->q);
  if (c->activation == CARNOT_KERNEL_ACTIVATION_NONE) return;
  for (int64_t k = 0; k < c->k; ++k) CARNOT_KERNEL(activate_f32)
  (c->activation, c->a, c->b, c->dst + k * c->dst_plane + row0 * c->q, (row1 - row0) * c->q, 1,
   (row1 - row0) * c->q);
}
