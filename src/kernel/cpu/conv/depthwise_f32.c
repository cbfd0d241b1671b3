// Depthwise convolution over vectors of channels.
#include "kernel/cpu/conv/depthwise_f32.h"

#include <math.h>

#include "kernel/cpu/common/gate_bf16.h"
#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/sliding_window.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

// A call walks blocks of channels, in each the rows, in each the vectors, in each the pixels: the
// input rows under the filter stay in L1 for a block. Channels innermost was measured: it fetches
// inputs and weights from L2 for every tile of pixels and takes twice as long.
// Pixels computed together, of long tiles, input columns under them at most, bytes of the input
// rows of a block.
enum { kTile = 4, kLongTile = 8, kMaxColumns = 12, kRowBytes = 24 * 1024 };

// What the pixels of one output row share, for one vector of channels.
typedef struct span {
  const void* src;  // element of the input row under the first tap row inside, at column 0
  int64_t src_w, src_row;
  const float* weights;  // first tap of the first tap row inside
  int64_t rows, s;       // tap rows inside; taps of a row
  int64_t stride_w, pad_w, dilation_w, w;
  int64_t left;  // channels in the vector
  vf32 bias, lo, hi;
  bool clip;
  carnot_kernel_activation gate;  // of BF16 results; NONE where there is none
  void* dst;
  int64_t ld;
  const void* residual;
  int64_t residual_ld;
  bool dst_is_bf16;
  bool plain;  // results have the type of the input, no residual and no gate
} span;

CARNOT_INLINE void store_sum(const span* sp, int64_t q, int64_t left, vf32 sum) {
  if (sp->residual)
    sum = v_add(sum, v_load_stored(sp->dst_is_bf16, sp->residual, q * sp->residual_ld, left));
  if (sp->clip) sum = v_min_to(sp->hi, v_max_to(sp->lo, sum));
  if (sp->gate) sum = v_gate_bf16(sp->gate, sum);
  v_store_stored(sp->dst_is_bf16, sp->dst, q * sp->ld, sum, left);
}

// |count| pixels of sums that lie in memory: one function for all tiles, as the formulas of
// residuals and gates are long.
static __attribute__((noinline)) void store_sums(const span* restrict sp, int64_t q, int64_t left,
                                                 int64_t count, const float* restrict sums) {
  if (sp->gate && !sp->residual) {  // no test between pixels: their formulas overlap
    for (int64_t i = 0; i < count; ++i)
      v_store_stored(true, sp->dst, (q + i) * sp->ld,
                     v_gate_bf16(sp->gate, v_load(sums + i * V_LANES)), left);
    return;
  }
  for (int64_t i = 0; i < count; ++i) store_sum(sp, q + i, left, v_load(sums + i * V_LANES));
}

// What a function is compiled for: columns of the filter, their stride, the type of the input.
typedef struct form {
  int s, stride_w;
  bool is_bf16;
} form;

// Columns of a filter whose weights stay in registers, where there are 32; that has longer tiles
// (sums of few pixels wait for one another); whose rows are unrolled.
enum {
  kHeldColumns = V_LANES == 16 ? 3 : 0,
  kLongTileColumns = V_LANES == 16 ? 5 : 3,
  kUnrolledColumns = 5
};

// What tile does: constants.
typedef struct tile_form {
  form f;
  int pixels;
  bool whole;       // the filter has all its rows, as many as columns
  bool checks;      // any column may be in the padding
  int left, right;  // columns of the tile in the padding, where none is checked
} tile_form;

// Adds a row of the filter to the sums; |w0|: the first input column of |w|.
CARNOT_INLINE void tile_row(const void* src, int64_t src_w, int64_t lanes, int64_t w0, int64_t w,
                            const float* weights, const vf32* held, tile_form t, vf32* sum) {
  const int columns = (t.pixels - 1) * t.f.stride_w + t.f.s;
  vf32 x[kMaxColumns];
  CARNOT_UNROLL
  for (int i = 0; i < columns; ++i) {
    if (i < t.left || i >= columns - t.right) continue;
    const bool inside = !t.checks || (uint64_t)(w0 + i) < (uint64_t)w;
    x[i] = inside ? v_load_stored(t.f.is_bf16, src, i * src_w, lanes) : v_zero();
    V_KEEP(x[i]);
  }
  CARNOT_UNROLL
  for (int i = 0; i < t.f.s * t.pixels; ++i) {
    const int tap = i / t.pixels, q = i % t.pixels, column = q * t.f.stride_w + tap;
    const vf32 weight = t.whole && t.f.s <= kHeldColumns ? held[tap] : v_load(weights + tap * 16);
    if (column >= t.left && column < columns - t.right) sum[q] = v_fma(x[column], weight, sum[q]);
  }
}

// Pixels from q on, |lanes| channels of them. |held|: weights in registers.
CARNOT_INLINE void tile(const span* sp, int64_t q, int64_t lanes, tile_form t, const vf32* held) {
  int64_t src_w = sp->src_w;
  CARNOT_OPAQUE(src_w);
  const int64_t w0 = q * t.f.stride_w - sp->pad_w;
  const void* src = v_element(t.f.is_bf16, sp->src, w0 * src_w);
  const float* weights = sp->weights;
  vf32 sum[kLongTile];
  CARNOT_UNROLL
  for (int i = 0; i < t.pixels; ++i) sum[i] = sp->bias;
  if (t.whole && t.f.s <= kUnrolledColumns) {
    CARNOT_UNROLL
    for (int r = 0; r < t.f.s; ++r, weights += t.f.s * 16) {
      const vf32* of_row = t.f.s <= kHeldColumns ? held + r * t.f.s : NULL;
      tile_row(src, src_w, lanes, w0, sp->w, weights, of_row, t, sum);
      src = v_element(t.f.is_bf16, src, sp->src_row);
    }
  } else {
    for (int64_t r = 0; r < sp->rows; ++r, weights += t.f.s * 16) {
      tile_row(src, src_w, lanes, w0, sp->w, weights, held, t, sum);
      src = v_element(t.f.is_bf16, src, sp->src_row);
    }
  }
  if (sp->plain) {
    CARNOT_UNROLL
    for (int i = 0; i < t.pixels; ++i)
      v_store_stored(t.f.is_bf16, sp->dst, (q + i) * sp->ld,
                     v_min_to(sp->hi, v_max_to(sp->lo, sum[i])), lanes);
  } else {
    float sums[kLongTile * V_LANES] __attribute__((aligned(64)));
    CARNOT_UNROLL
    for (int i = 0; i < t.pixels; ++i) v_store(sums + i * V_LANES, sum[i]);
    store_sums(sp, q, lanes, t.pixels, sums);
  }
}

// A tile at |q| of which any column may be in the padding. One function for all such tiles of a
// form: there are few, and each copy of a tile is long.
typedef void (*edge_fn)(const span* sp, int64_t q, int64_t lanes);

CARNOT_INLINE void edge_of(const span* sp, int64_t q, int64_t lanes, form f) {
  const tile_form t = {f, kTile, /*whole=*/false, /*checks=*/true, 0, 0};
  if (lanes == V_LANES)
    tile(sp, q, V_LANES, t, NULL);
  else
    tile(sp, q, lanes, t, NULL);
}

// A tile of a whole filter that ends with the row.
CARNOT_INLINE void last_tile(const span* sp, int64_t q, form f, edge_fn edge, const vf32* held) {
  const int64_t right = (q + kTile - 1) * f.stride_w + f.s - sp->pad_w - sp->w;
  const bool inside = q * f.stride_w >= sp->pad_w && f.s <= kUnrolledColumns;
  if (inside && right <= 0)
    tile(sp, q, V_LANES, (tile_form){f, kTile, true, false, 0, 0}, held);
  else if (inside && right == 1)
    tile(sp, q, V_LANES, (tile_form){f, kTile, true, false, 0, 1}, held);
  else if (inside && right == 2 && f.s > 3)
    tile(sp, q, V_LANES, (tile_form){f, kTile, true, false, 0, 2}, held);
  else
    edge(sp, q, V_LANES);
}

// The |count| >= kTile pixels of a row of whole vectors, of which windows up to |end| end inside
// it; the last tile is moved back to end with the row, which computes some pixels twice, to the
// same bits.
CARNOT_INLINE void tiles_of_row(const span* sp, int64_t count, int64_t end, form f, bool whole,
                                edge_fn edge) {
  const tile_form inner = {f, kTile, whole, false, 0, 0},
                  longer = {f, kLongTile, whole, false, 0, 0},
                  first = {f, kTile, whole, false, f.s / 2, 0};
  vf32 held[kHeldColumns * kHeldColumns + 1];
  if (whole && f.s <= kHeldColumns) {
    CARNOT_UNROLL
    for (int i = 0; i < f.s * f.s; ++i) {
      held[i] = v_load(sp->weights + i * 16);
      V_KEEP(held[i]);
    }
  }
  int64_t q = 0;
  if (whole && f.s <= kUnrolledColumns && sp->pad_w == f.s / 2 && end >= kTile) {
    tile(sp, 0, V_LANES, first, held);
    q = kTile;
  }
  for (; q < sp->pad_w && q < count; q += kTile) edge(sp, min_i64(q, count - kTile), V_LANES);
  if (whole && f.s <= kLongTileColumns && f.stride_w == 1)
    for (; q + kLongTile <= end; q += kLongTile) tile(sp, q, V_LANES, longer, held);
  for (; q + kTile <= end; q += kTile) tile(sp, q, V_LANES, inner, held);
  for (; q < count; q += kTile) {
    if (whole)
      last_tile(sp, min_i64(q, count - kTile), f, edge, held);
    else
      edge(sp, min_i64(q, count - kTile), V_LANES);
  }
}

// The same; what is mostly so is constant.
CARNOT_INLINE void tiles_of(const span* sp, int64_t count, form f, edge_fn edge) {
  const int64_t last_column = sp->w + sp->pad_w - f.s;
  const int64_t end = last_column < 0 ? 0 : min_i64(count, last_column / f.stride_w + 1);
  if (sp->left < V_LANES)
    for (int64_t q = 0; q < count; q += kTile) edge(sp, min_i64(q, count - kTile), sp->left);
  else if (sp->rows == f.s)
    tiles_of_row(sp, count, end, f, /*whole=*/true, edge);
  else
    tiles_of_row(sp, count, end, f, /*whole=*/false, edge);
}

typedef void (*tiles_fn)(const span* sp, int64_t count);

// Stores of results do not change |sp|, so that its fields stay in registers.
#define TILES(name, ...)                                                                \
  static __attribute__((noinline)) void edge_##name(const span* restrict sp, int64_t q, \
                                                    int64_t lanes) {                    \
    edge_of(sp, q, lanes, (form){__VA_ARGS__});                                         \
  }                                                                                     \
  static void tiles_##name(const span* restrict sp, int64_t count) {                    \
    tiles_of(sp, count, (form){__VA_ARGS__}, edge_##name);                              \
  }
// Without AVX2 only FP32 has tiles: the others double the time that this file takes to compile.
#if defined(__AVX2__)
#define TILES_OF_TYPES(s, stride_w)         \
  TILES(s##_##stride_w, s, stride_w, false) \
  TILES(bf16_##s##_##stride_w, s, stride_w, true)
#define TILES_OF(s, stride_w) \
  { s, stride_w, tiles_##s##_##stride_w, tiles_bf16_##s##_##stride_w }
#else
#define TILES_OF_TYPES(s, stride_w) TILES(s##_##stride_w, s, stride_w, false)
#define TILES_OF(s, stride_w) \
  { s, stride_w, tiles_##s##_##stride_w, NULL }
#endif
TILES_OF_TYPES(3, 1)
TILES_OF_TYPES(3, 2)
TILES_OF_TYPES(5, 1)
TILES_OF_TYPES(5, 2)
TILES_OF_TYPES(7, 1)
TILES_OF_TYPES(9, 1)
#undef TILES_OF_TYPES
#undef TILES

static tiles_fn tiles_for(const carnot_depthwise_f32* c) {
  static const struct {
    int64_t s, stride_w;
    tiles_fn of_f32, of_bf16;
  } kTiles[] = {
      TILES_OF(3, 1), TILES_OF(3, 2), TILES_OF(5, 1),
      TILES_OF(5, 2), TILES_OF(7, 1), TILES_OF(9, 1),
#undef TILES_OF
  };
  if ((c->dilation_w != 1 && c->stride_w != 1) || c->epilogue.residual == c->dst)
    return NULL;  // tiles compute some pixels twice
  for (size_t i = 0; i < sizeof kTiles / sizeof *kTiles; ++i)
    if (kTiles[i].s == c->s && kTiles[i].stride_w == c->stride_w)
      return c->src_is_bf16 ? kTiles[i].of_bf16 : kTiles[i].of_f32;
  return NULL;
}

// The pixels of a row for any filter, their taps in the padding left out.
static void pixels(const span* sp, int64_t count, bool is_bf16) {
  for (int64_t q = 0; q < count; ++q) {
    const int64_t w0 = q * sp->stride_w - sp->pad_w;
    const window_taps inside = window_inside(w0, sp->s, sp->dilation_w, sp->w);
    vf32 sum = sp->bias;
    for (int64_t r = 0; r < sp->rows; ++r) {
      const int64_t at = r * sp->src_row + w0 * sp->src_w;
      for (int64_t s = inside.begin; s < inside.end; ++s) {
        const vf32 x =
            v_load_stored(is_bf16, sp->src, at + s * sp->dilation_w * sp->src_w, sp->left);
        sum = v_fma(x, v_load(sp->weights + (r * sp->s + s) * 16), sum);
      }
    }
    store_sum(sp, q, sp->left, sum);
  }
}

// A dilated filter at stride 1 works on every |dilation|-th pixel as one without does on
// neighbours: the part of |sp| that begins at output |first|, and how many of |count| outputs it
// has.
static int64_t spread_pixels(const span* sp, int64_t first, int64_t count, bool is_bf16,
                             span* out) {
  const int64_t dilation = sp->dilation_w;
  *out = *sp;
  out->pad_w = (sp->pad_w - first + dilation - 1) / dilation;
  if (sp->pad_w < first) out->pad_w = -((first - sp->pad_w) / dilation);
  const int64_t w0 = first - sp->pad_w + out->pad_w * dilation;
  out->src = v_element(is_bf16, sp->src, w0 * sp->src_w);
  out->src_w = sp->src_w * dilation;
  out->w = (sp->w - w0 + dilation - 1) / dilation;
  out->dst = (void*)v_element(sp->dst_is_bf16, sp->dst, first * sp->ld);
  out->ld = sp->ld * dilation;
  if (sp->residual)
    out->residual = v_element(sp->dst_is_bf16, sp->residual, first * sp->residual_ld);
  out->residual_ld = sp->residual_ld * dilation;
  out->dilation_w = 1;
  return (count - first + dilation - 1) / dilation;
}

static void pixels_of(const span* sp, int64_t count, tiles_fn tiles, bool is_bf16) {
  if (tiles && count >= kTile)
    tiles(sp, count);
  else
    pixels(sp, count, is_bf16);
}

// One output row of the channels [ch0, ch1).
static void row_of_block(const carnot_depthwise_f32* c, int64_t row, int64_t ch0, int64_t ch1,
                         tiles_fn tiles, span sp) {
  const carnot_epilogue_f32* e = &c->epilogue;
  const int64_t h0 = row % c->p * c->stride_h - c->pad_h;
  const window_taps inside = window_inside(h0, c->r, c->dilation_h, c->h);
  const int64_t src = row / c->p * c->src_n + (h0 + inside.begin * c->dilation_h) * c->src_h;
  sp.rows = inside.end - inside.begin;
  for (int64_t ch = ch0; ch < ch1; ch += V_LANES) {
    sp.left = min_i64(V_LANES, ch1 - ch);
    sp.src = v_element(c->src_is_bf16, c->src, src + ch);
    sp.weights = c->weights + (ch / 16 * c->r + inside.begin) * c->s * 16 + ch % 16;
    sp.bias = e->bias ? v_load_upto(e->bias + ch, sp.left) : v_zero();
    sp.dst = (void*)v_element(c->dst_is_bf16, c->dst, row * c->q * c->ld + ch);
    sp.residual = e->residual
                      ? v_element(c->dst_is_bf16, e->residual, row * c->q * e->residual_ld + ch)
                      : NULL;
    if (!tiles || sp.dilation_w == 1) {
      pixels_of(&sp, c->q, tiles, c->src_is_bf16);
      continue;
    }
    for (int64_t first = 0; first < min_i64(sp.dilation_w, c->q); ++first) {
      span part;
      const int64_t count = spread_pixels(&sp, first, c->q, c->src_is_bf16, &part);
      pixels_of(&part, count, tiles, c->src_is_bf16);
    }
  }
  if (!sp.clip && !sp.gate && e->activation != CARNOT_KERNEL_ACTIVATION_NONE) {
    CARNOT_KERNEL(activate_f32)
    (e->activation, e->a, e->b, (float*)c->dst + row * c->q * c->ld + ch0, c->ld, c->q, ch1 - ch0);
  }
}

void CARNOT_KERNEL(depthwise_f32)(const carnot_depthwise_f32* c, int64_t row0, int64_t row1) {
  const carnot_kernel_activation activation = c->epilogue.activation;
  const carnot_kernel_activation gate =
      c->dst_is_bf16 ? gate_of(activation) : CARNOT_KERNEL_ACTIVATION_NONE;
  const span sp = {
      .src_w = c->src_w,
      .src_row = c->dilation_h * c->src_h,
      .s = c->s,
      .stride_w = c->stride_w,
      .pad_w = c->pad_w,
      .dilation_w = c->dilation_w,
      .w = c->w,
      .ld = c->ld,
      .residual_ld = c->epilogue.residual_ld,
      .dst_is_bf16 = c->dst_is_bf16,
      .clip = activation == CARNOT_KERNEL_ACTIVATION_RELU ||
              activation == CARNOT_KERNEL_ACTIVATION_CLIP,
      .gate = gate,
      .plain = !c->epilogue.residual && c->dst_is_bf16 == c->src_is_bf16 && !gate,
      .lo = v_set(activation == CARNOT_KERNEL_ACTIVATION_RELU   ? 0
                  : activation == CARNOT_KERNEL_ACTIVATION_CLIP ? c->epilogue.a
                                                                : -INFINITY),
      .hi = v_set(activation == CARNOT_KERNEL_ACTIVATION_CLIP ? c->epilogue.b : INFINITY)};
  const int64_t fit = kRowBytes / (c->src_is_bf16 ? 2 : 4) / max_i64(1, c->r * c->w);
  const int64_t block = min_i64(64, max_i64(16, fit & ~INT64_C(15)));
  for (int64_t ch = 0; ch < c->c; ch += block) {
    for (int64_t row = row0; row < row1; ++row) {
      row_of_block(c, row, ch, min_i64(ch + block, c->c), tiles_for(c), sp);
    }
  }
}
