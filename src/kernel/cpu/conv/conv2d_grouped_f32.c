// Grouped convolution over vectors of outputs. Groups narrower than a vector share it: each input
// vector is permuted so that every lane has channel i of its own group. Others broadcast channel i.
#include "kernel/cpu/conv/conv2d_grouped_f32.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/conv/conv2d_grouped_wide.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

// Pixels of a tile of one vector of narrow groups.
#if defined(__AVX512F__)
enum { kNarrow = 8 };
#elif defined(__AVX2__)
enum { kNarrow = 6 };
#else
enum { kNarrow = 4 };
#endif

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
  for (int64_t r = sp->taps.begin; r < sp->taps.end; ++r) {
    const float* weights = sp->weights + r * c->c * c->s * kPanel;
    const int64_t h = sp->h0 + r * c->dilation_h;
    if (f.edge)
      copy_columns(sp, h, w0, /*apart=*/1, carnot_conv2d_grouped_columns(c, kNarrow), /*ch=*/0,
                   sp->channels, V_LANES, columns);
    const float* x = f.edge ? columns : (const float*)sp->src + h * c->src_h + w0 * c->src_w;
    vi32 lanes = sp->lanes;
    for (int64_t i = 0; i < c->c;
         ++i, weights += s_count * kPanel, lanes = v_iadd(lanes, sp->step)) {
      if (f.s) {  // an input column serves all the outputs that it lies under
        CARNOT_UNROLL
        for (int at = 0; at < (kNarrow - 1) * f.stride_w + f.s; ++at) {
          const vf32 value = v_permute(v_load(x + at * pitch), lanes);
          CARNOT_UNROLL
          for (int s = 0; s < f.s; ++s) {
            const int t = (at - s) / f.stride_w;
            if (at < s || (at - s) % f.stride_w || t >= kNarrow) continue;
            sum[t] = v_fma(value, v_load(weights + s * kPanel), sum[t]);
          }
        }
      } else {
        for (int64_t s = 0; s < s_count; ++s) {
          const vf32 y = v_load(weights + s * kPanel);
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

typedef void (*tile_fn)(const span* sp, const float* bias, int64_t q, int64_t count);
typedef struct tile_fns {
  tile_fn inner, edge;
} tile_fns;

#define TILES(name, s, stride_w)                                                          \
  static void name##_inner(const span* sp, const float* bias, int64_t q, int64_t count) { \
    narrow_tile(sp, bias, q, count, (form){s, stride_w, false});                          \
  }                                                                                       \
  static void name##_edge(const span* sp, const float* bias, int64_t q, int64_t count) {  \
    narrow_tile(sp, bias, q, count, (form){s, stride_w, true});                           \
  }                                                                                       \
  static const tile_fns name = {name##_inner, name##_edge};
TILES(narrow_3_1, 3, 1)
TILES(narrow_3_2, 3, 2)
TILES(narrow_any, 0, 0)
#undef TILES

static const tile_fns* narrow_tiles_for(const carnot_conv2d_grouped_f32* c) {
  if (c->s == 3 && c->dilation_w == 1 && c->stride_w == 1) return &narrow_3_1;
  if (c->s == 3 && c->dilation_w == 1 && c->stride_w == 2) return &narrow_3_2;
  return &narrow_any;
}

static bool is_wide(const carnot_conv2d_grouped_f32* c) {
  return c->k >= V_LANES || c->groups == 1;
}

static void narrow_row(const span* sp, const float* bias) {
  const carnot_conv2d_grouped_f32* c = sp->conv;
  const tile_fns* tiles = narrow_tiles_for(c);
  const int64_t last_column = c->w + c->pad_w - (c->s - 1) * c->dilation_w - 1;
  // Pixels before |end| have all columns at their right inside.
  int64_t end = last_column < 0 ? 0 : min_i64(c->q, last_column / c->stride_w + 1);
  if (c->src_is_bf16 || sp->channels < V_LANES) end = 0;  // inner tiles load float32 vectors
  for (int64_t q = 0; q < c->q; q += kNarrow) {
    const bool inner = q * c->stride_w >= c->pad_w && q + kNarrow <= end;
    (inner ? tiles->inner : tiles->edge)(sp, bias, q, min_i64(kNarrow, c->q - q));
  }
}

static int64_t tiles_of_image(const carnot_conv2d_grouped_f32* c, int64_t rows, int64_t columns) {
  return (c->p + rows - 1) / rows * ((c->q + columns - 1) / columns);
}

// Whether the rows that |rows| output rows read under one tap have places of their own.
static bool fits_ring(const carnot_conv2d_grouped_f32* c, int64_t rows) {
  return (rows - 1) * blocks_of(c) * c->stride_h < kRing;
}

// Whether tall tiles leave fewer of their sums unused.
static bool is_tall(const carnot_conv2d_grouped_f32* c) {
  return fits_ring(c, kTallRows) &&
         tiles_of_image(c, kTallRows, kTallColumns) < tiles_of_image(c, kRows, kColumns);
}

// The part of |sp| about |rows| output rows from |row| on of outputs [first, ...).
static void span_set_rows(const carnot_conv2d_grouped_f32* c, int64_t row, int64_t rows,
                          int64_t first, span* sp) {
  const carnot_epilogue_f32* e = &c->epilogue;
  sp->rows = rows;
  sp->h0 = row % c->p * c->stride_h - c->pad_h;
  sp->taps = window_inside(sp->h0, c->r, c->dilation_h, c->h);
  const window_taps last =
      window_inside(sp->h0 + (rows - 1) * c->stride_h, c->r, c->dilation_h, c->h);
  sp->taps.begin = min_i64(sp->taps.begin, last.begin);
  sp->taps.end = max_i64(sp->taps.end, last.end);
  sp->src = v_element(c->src_is_bf16, c->src, row / c->p * c->src_n + first / c->k * c->c);
  sp->dst = (void*)v_element(c->dst_is_bf16, c->dst, row * c->q * c->ld + first);
  sp->residual = e->residual
                     ? v_element(c->dst_is_bf16, e->residual, row * c->q * e->residual_ld + first)
                     : NULL;
}

// The part about |count| outputs from |first| on, which begin at output |at| of panel |panel|.
static void span_set_outputs(const carnot_conv2d_grouped_f32* c, int64_t panel, int64_t at,
                             int64_t first, int64_t count, span* sp) {
  const int64_t group = first / c->k, last = (first + count - 1) / c->k;
  sp->left = count;
  sp->channels = (last - group + 1) * c->c;
  for (int v = 0; v < kVectors; ++v)
    sp->offset[v] = (min_i64((first + v * V_LANES) / c->k, last) - group) * c->c;
  sp->weights = c->weights + panel * c->r * c->c * c->s * kPanel + at;
}

static void narrow_panel(const carnot_conv2d_grouped_f32* c, int64_t panel, int64_t row0,
                         int64_t row1, span sp) {
  const int64_t first = carnot_conv2d_grouped_first(c->k, panel),
                count = carnot_conv2d_grouped_count(c->groups, c->k, panel);
  for (int64_t at = 0; at < count; at += V_LANES) {
    span_set_outputs(c, panel, at, first + at, min_i64(V_LANES, count - at), &sp);
    for (int64_t row = row0; row < row1; ++row) {
      span_set_rows(c, row, 1, first + at, &sp);
      narrow_row(&sp, c->epilogue.bias ? c->epilogue.bias + first + at : NULL);
    }
  }
}

static void wide_panel(const carnot_conv2d_grouped_f32* c, int64_t panel, int64_t row0,
                       int64_t row1, span sp) {
  const bool tall = is_tall(c);
  wide_tile_fn* tile = tall ? wide_tile_tall : wide_tile_long;
  const int64_t columns = tall ? kTallColumns : kColumns;
  const int64_t most = tall ? kTallRows : fits_ring(c, kRows) ? kRows : 1;
  const int64_t first = carnot_conv2d_grouped_first(c->k, panel);
  const float* bias = c->epilogue.bias ? c->epilogue.bias + first : NULL;
  span_set_outputs(c, panel, 0, first, carnot_conv2d_grouped_count(c->groups, c->k, panel), &sp);
  row_cache cache;
  for (int64_t q = 0; q < c->q; q += columns) {
    for (int64_t row = row0, rows; row < row1; row += rows) {
      if (row == row0 || row % c->p == 0) row_cache_init(c, q, columns, &cache);
      rows = min_i64(most, min_i64(row1 - row, c->p - row % c->p));
      span_set_rows(c, row, rows, first, &sp);
      tile(&sp, bias, q, min_i64(columns, c->q - q), &cache);
    }
  }
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
    (is_wide(c) ? wide_panel : narrow_panel)(c, panel, row0, row1, sp);
    if (sp.clip || e->activation == CARNOT_KERNEL_ACTIVATION_NONE) continue;
    CARNOT_KERNEL(activate_f32)
    (e->activation, e->a, e->b,
     (float*)c->dst + row0 * c->q * c->ld + carnot_conv2d_grouped_first(c->k, panel), c->ld,
     (row1 - row0) * c->q, carnot_conv2d_grouped_count(c->groups, c->k, panel));
  }
}
