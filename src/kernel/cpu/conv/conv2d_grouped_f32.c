// Grouped convolution over vectors of outputs. Groups narrower than a vector share it: each input
// vector is permuted so that every lane has channel i of its own group. Others broadcast channel i.
#include "kernel/cpu/conv/conv2d_grouped_f32.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/sliding_window.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum { kVectors = 16 / V_LANES };  // of a panel

// Pixels of a tile: of one vector of narrow groups, and of a panel.
#if defined(__AVX512F__)
enum { kNarrow = 8, kPixels = 14 };
#elif defined(__AVX2__)
enum { kNarrow = 6, kPixels = 6 };
#else
enum { kNarrow = 4, kPixels = 3 };
#endif
_Static_assert((int)kPixels <= (int)CARNOT_CONV2D_GROUPED_PIXELS, "columns are bounded by it");

// One output row of one panel.
typedef struct span {
  const carnot_conv2d_grouped_f32* conv;
  const void* src;           // input row under the first tap row inside, column 0, first channel
  int64_t rows;              // tap rows inside
  const float* weights;      // of the panel, from the first tap row inside on
  int64_t channels;          // that the panel, or the vector of narrow groups, reads
  int64_t offset[kVectors];  // of the channels of each vector's group
  int64_t left;              // outputs of the panel, or the vector
  vi32 lanes, step;          // channel 0 of each lane's group; 1
  vf32 lo, hi;
  bool clip;
  void* dst;             // of the row, at the first output
  const void* residual;  // likewise
} span;

CARNOT_INLINE void store_sum(const span* sp, int64_t q, int64_t at, vf32 sum) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  const int64_t left = sp->left - at;
  if (left <= 0) return;
  if (sp->residual)
    sum = v_add(
        sum, v_load_stored(c->dst_is_bf16, sp->residual, q * c->epilogue.residual_ld + at, left));
  if (sp->clip) sum = v_min_to(sp->hi, v_max_to(sp->lo, sum));
  v_store_stored(c->dst_is_bf16, sp->dst, q * c->ld + at, sum, left);
}

CARNOT_INLINE vf32 bias_of(const span* sp, const float* bias, int64_t at) {
  return bias && sp->left > at ? v_load_upto(bias + at, sp->left - at) : v_zero();
}

// Columns [w0, w0 + count) of the input row under tap row |r|, |pitch| floats each, zeros where
// they are in the padding.
static void copy_columns(const span* sp, int64_t r, int64_t w0, int64_t count, int64_t pitch,
                         float* columns) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  const int64_t row = r * c->dilation_h * c->src_h;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t w = w0 + i;
    const bool inside = (uint64_t)w < (uint64_t)c->w;
    for (int64_t ch = 0; ch < pitch; ch += V_LANES) {
      const int64_t left = sp->channels - ch;
      v_store(columns + i * pitch + ch,
              inside && left > 0
                  ? v_load_stored(c->src_is_bf16, sp->src, row + w * c->src_w + ch, left)
                  : v_zero());
    }
  }
}

// What a tile is compiled for: columns of the filter and their stride, 0: read from the sizes;
// whether the input columns are copied.
typedef struct form {
  int s, stride_w;
  bool edge;
} form;

// The first |count| <= kNarrow pixels from q on of one vector of narrow groups.
CARNOT_INLINE void narrow_tile(const span* sp, const float* bias, int64_t q, int64_t count,
                               form f) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  float columns[CARNOT_CONV2D_GROUPED_COLUMNS * V_LANES];
  int64_t pitch = f.edge ? V_LANES : c->src_w;
  CARNOT_OPAQUE(pitch);
  const int64_t w0 = q * c->stride_w - c->pad_w, s_count = f.s ? f.s : c->s;
  vf32 sum[kNarrow];
  CARNOT_UNROLL
  for (int t = 0; t < kNarrow; ++t) sum[t] = bias_of(sp, bias, 0);
  for (int64_t r = 0; r < sp->rows; ++r) {
    const float* weights = sp->weights + r * c->c * c->s * 16;
    if (f.edge)
      copy_columns(sp, r, w0, carnot_conv2d_grouped_columns(c, kNarrow), V_LANES, columns);
    const float* x =
        f.edge ? columns : (const float*)sp->src + r * c->dilation_h * c->src_h + w0 * c->src_w;
    vi32 lanes = sp->lanes;
    for (int64_t i = 0; i < c->c; ++i, weights += s_count * 16, lanes = v_iadd(lanes, sp->step)) {
      if (f.s) {  // an input column serves all the outputs that it lies under
        CARNOT_UNROLL
        for (int at = 0; at < (kNarrow - 1) * f.stride_w + f.s; ++at) {
          const vf32 value = v_permute(v_load(x + at * pitch), lanes);
          CARNOT_UNROLL
          for (int s = 0; s < f.s; ++s) {
            const int t = (at - s) / f.stride_w;
            if (at < s || (at - s) % f.stride_w || t >= kNarrow) continue;
            sum[t] = v_fma(value, v_load(weights + s * 16), sum[t]);
          }
        }
      } else {
        for (int64_t s = 0; s < s_count; ++s) {
          const vf32 y = v_load(weights + s * 16);
          const float* under = x + s * c->dilation_w * pitch;
          CARNOT_UNROLL
          for (int t = 0; t < kNarrow; ++t)
            sum[t] = v_fma(v_permute(v_load(under + t * c->stride_w * pitch), lanes), y, sum[t]);
        }
      }
    }
  }
  CARNOT_UNROLL
  for (int t = 0; t < kNarrow; ++t) {
    if (f.edge && t >= count) break;
    store_sum(sp, q + t, 0, sum[t]);
  }
}

// Floats of a copied column.
CARNOT_INLINE int64_t pitch_of(const span* sp) {
  return (sp->channels + V_LANES - 1) / V_LANES * V_LANES;
}

CARNOT_INLINE void begin_sums(const span* sp, const float* bias, vf32 (*sum)[kVectors]) {
  CARNOT_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const vf32 begin = bias_of(sp, bias, v * V_LANES);
    CARNOT_UNROLL
    for (int t = 0; t < kPixels; ++t) sum[t][v] = begin;
  }
}

// The first |count| <= kPixels pixels from q on of a panel.
CARNOT_INLINE void wide_tile(const span* sp, const float* bias, int64_t q, int64_t count, form f) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  float columns[CARNOT_CONV2D_GROUPED_COLUMNS * CARNOT_CONV2D_GROUPED_CHANNELS];
  const int64_t pitch = f.edge ? pitch_of(sp) : c->src_w;
  int64_t apart = c->stride_w * pitch;
  CARNOT_OPAQUE(apart);
  const int64_t w0 = q * c->stride_w - c->pad_w;
  vf32 sum[kPixels][kVectors];
  begin_sums(sp, bias, sum);
  for (int64_t r = 0; r < sp->rows; ++r) {
    const float* weights = sp->weights + r * c->c * c->s * 16;
    if (f.edge) copy_columns(sp, r, w0, carnot_conv2d_grouped_columns(c, kPixels), pitch, columns);
    const float* x =
        f.edge ? columns : (const float*)sp->src + r * c->dilation_h * c->src_h + w0 * c->src_w;
    for (int64_t i = 0; i < c->c; ++i) {
      for (int64_t s = 0; s < c->s; ++s, weights += 16) {
        const float* under = x + s * c->dilation_w * pitch + i;
        CARNOT_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          const vf32 y = v_load(weights + v * V_LANES);
          CARNOT_UNROLL
          for (int t = 0; t < kPixels; ++t)
            sum[t][v] = v_fma(v_set(under[t * apart + sp->offset[v]]), y, sum[t][v]);
        }
      }
    }
  }
  CARNOT_UNROLL
  for (int t = 0; t < kPixels; ++t) {
    if (f.edge && t >= count) break;
    CARNOT_UNROLL
    for (int v = 0; v < kVectors; ++v) store_sum(sp, q + t, v * V_LANES, sum[t][v]);
  }
}

// Rows of up to kHalf pixels are computed in pairs: one alone would leave half of a tile empty.
enum { kHalf = kPixels / 2 };

CARNOT_INLINE bool is_paired(const carnot_conv2d_grouped_f32* c) {
  return c->k >= 16 && c->q <= kHalf &&
         2 * carnot_conv2d_grouped_columns(c, kHalf) <= CARNOT_CONV2D_GROUPED_COLUMNS;
}

// A panel of a row, |sp|, and of the one below it, whose taps are |inside[1]|. |sp->src| is under
// tap row 0, whether that is inside or not.
static void pair_tile(const span* sp, const float* bias, const window_taps* inside) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  float columns[CARNOT_CONV2D_GROUPED_COLUMNS * CARNOT_CONV2D_GROUPED_CHANNELS];
  const int64_t pitch = pitch_of(sp), count = carnot_conv2d_grouped_columns(c, kHalf);
  int64_t apart = c->stride_w * pitch, below = count * pitch;
  CARNOT_OPAQUE(apart);
  CARNOT_OPAQUE(below);
  vf32 sum[kPixels][kVectors];
  begin_sums(sp, bias, sum);
  for (int64_t r = min_i64(inside[0].begin, inside[1].begin);
       r < max_i64(inside[0].end, inside[1].end); ++r) {
    for (int64_t half = 0; half < 2; ++half) {
      span line = *sp;
      if (r < inside[half].begin || r >= inside[half].end) {
        memset(columns + half * below, 0, (size_t)below * sizeof *columns);
        continue;
      }
      line.src = v_element(c->src_is_bf16, sp->src, half * c->stride_h * c->src_h);
      copy_columns(&line, r, -c->pad_w, count, pitch, columns + half * below);
    }
    const float* weights = sp->weights + r * c->c * c->s * 16;
    for (int64_t i = 0; i < c->c; ++i) {
      for (int64_t s = 0; s < c->s; ++s, weights += 16) {
        const float *under = columns + s * c->dilation_w * pitch + i, *under_below = under + below;
        CARNOT_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          const vf32 y = v_load(weights + v * V_LANES);
          CARNOT_UNROLL
          for (int t = 0; t < kHalf; ++t) {
            sum[t][v] = v_fma(v_set(under[t * apart]), y, sum[t][v]);
            sum[kHalf + t][v] = v_fma(v_set(under_below[t * apart]), y, sum[kHalf + t][v]);
          }
        }
      }
    }
  }
  CARNOT_UNROLL
  for (int t = 0; t < 2 * kHalf; ++t) {
    if (t % kHalf >= c->q) continue;
    CARNOT_UNROLL
    for (int v = 0; v < kVectors; ++v)
      store_sum(sp, t / kHalf * c->q + t % kHalf, v * V_LANES, sum[t][v]);
  }
}

typedef void (*tile_fn)(const span* sp, const float* bias, int64_t q, int64_t count);
typedef struct tile_fns {
  int64_t pixels;
  tile_fn inner, edge;
} tile_fns;

#define TILES(name, kind, pixels, s, stride_w)                                            \
  static void name##_inner(const span* sp, const float* bias, int64_t q, int64_t count) { \
    kind##_tile(sp, bias, q, count, (form){s, stride_w, false});                          \
  }                                                                                       \
  static void name##_edge(const span* sp, const float* bias, int64_t q, int64_t count) {  \
    kind##_tile(sp, bias, q, count, (form){s, stride_w, true});                           \
  }                                                                                       \
  static const tile_fns name = {pixels, name##_inner, name##_edge};
TILES(narrow_3_1, narrow, kNarrow, 3, 1)
TILES(narrow_3_2, narrow, kNarrow, 3, 2)
TILES(narrow_any, narrow, kNarrow, 0, 0)
TILES(wide, wide, kPixels, 0, 0)
#undef TILES

static const tile_fns* tiles_for(const carnot_conv2d_grouped_f32* c) {
  if (c->k >= V_LANES) return &wide;
  if (c->s == 3 && c->dilation_w == 1 && c->stride_w == 1) return &narrow_3_1;
  if (c->s == 3 && c->dilation_w == 1 && c->stride_w == 2) return &narrow_3_2;
  return &narrow_any;
}

static void tiles_of_row(const span* sp, const tile_fns* tiles, const float* bias) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  const int64_t last_column = c->w + c->pad_w - (c->s - 1) * c->dilation_w - 1;
  // Pixels before |end| have all columns at their right inside.
  int64_t end = last_column < 0 ? 0 : min_i64(c->q, last_column / c->stride_w + 1);
  // Inner tiles load float32, narrow ones whole vectors.
  if (c->src_is_bf16 || (tiles != &wide && sp->channels < V_LANES)) end = 0;
  for (int64_t q = 0; q < c->q; q += tiles->pixels) {
    const bool inner = q * c->stride_w >= c->pad_w && q + tiles->pixels <= end;
    (inner ? tiles->inner : tiles->edge)(sp, bias, q, min_i64(tiles->pixels, c->q - q));
  }
}

// |rows| output rows of a panel from |row| on: one, or a pair; |sp| has what all panels share.
static void rows_of_panel(const carnot_conv2d_grouped_f32* c, int64_t panel, int64_t row,
                          int64_t rows, span sp) {
  const tile_fns* tiles = tiles_for(c);
  const carnot_epilogue_f32* e = &c->epilogue;
  const int64_t first = carnot_conv2d_grouped_first(c->k, panel),
                count = carnot_conv2d_grouped_count(c->groups, c->k, panel);
  const int64_t h0 = row % c->p * c->stride_h - c->pad_h;
  const window_taps inside[2] = {window_inside(h0, c->r, c->dilation_h, c->h),
                                 window_inside(h0 + c->stride_h, c->r, c->dilation_h, c->h)};
  const int64_t begin = rows > 1 ? 0 : inside[0].begin;
  const int64_t src = row / c->p * c->src_n + (h0 + begin * c->dilation_h) * c->src_h;
  const float* weights = c->weights + (panel * c->r + begin) * c->c * c->s * 16;
  const int64_t dst = row * c->q * c->ld + first;
  const int64_t width = tiles == &wide ? 16 : V_LANES;
  sp.rows = inside[0].end - inside[0].begin;
  for (int64_t at = 0; at < count; at += width) {
    const int64_t group = (first + at) / c->k;
    const int64_t last = (first + min_i64(at + width, count) - 1) / c->k;
    sp.left = min_i64(width, count - at);
    sp.src = v_element(c->src_is_bf16, c->src, src + group * c->c);
    sp.channels = (last - group + 1) * c->c;
    for (int v = 0; v < kVectors; ++v)
      sp.offset[v] = (min_i64((first + at + v * V_LANES) / c->k, last) - group) * c->c;
    sp.weights = weights + at;
    sp.dst = (void*)v_element(c->dst_is_bf16, c->dst, dst + at);
    sp.residual = e->residual ? v_element(c->dst_is_bf16, e->residual,
                                          row * c->q * e->residual_ld + first + at)
                              : NULL;
    const float* bias = e->bias ? e->bias + first + at : NULL;
    if (rows > 1)
      pair_tile(&sp, bias, inside);
    else
      tiles_of_row(&sp, tiles, bias);
  }
  if (!sp.clip && e->activation != CARNOT_KERNEL_ACTIVATION_NONE) CARNOT_KERNEL(activate_f32)
  (e->activation, e->a, e->b, (float*)c->dst + dst, c->ld, rows * c->q, count);
}

void CARNOT_KERNEL(conv2d_grouped_f32)(const carnot_conv2d_grouped_f32* c, int64_t panel0,
                                       int64_t panel1, int64_t row0, int64_t row1) {
  const carnot_epilogue_f32* e = &c->epilogue;
  const bool clips = e->activation == CARNOT_KERNEL_ACTIVATION_CLIP;
  int32_t lanes[V_LANES];
  for (int i = 0; i < V_LANES; ++i) lanes[i] = (int32_t)(i / c->k * c->c);
  const span sp = {.conv = c,
                   .lanes = v_iload(lanes),
                   .step = v_iset(1),
                   .clip = clips || e->activation == CARNOT_KERNEL_ACTIVATION_RELU,
                   .lo = v_set(clips ? e->a : 0),
                   .hi = v_set(clips ? e->b : INFINITY)};
  for (int64_t panel = panel0; panel < panel1; ++panel) {
    for (int64_t row = row0, rows; row < row1; row += rows) {
      rows = is_paired(c) && row + 1 < row1 && row % c->p + 1 < c->p ? 2 : 1;
      rows_of_panel(c, panel, row, rows, sp);
    }
  }
}
