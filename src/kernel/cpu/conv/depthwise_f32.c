// Depthwise convolution over vectors of channels.
#include "kernel/cpu/conv/depthwise_f32.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/sliding_window.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

// A call walks blocks of channels, in each the rows, in each the vectors, in each the pixels: the
// input rows under the filter stay in L1 for a block. Channels innermost was measured: it fetches
// inputs and weights from L2 for every tile of pixels and takes twice as long.
// Pixels computed together, input columns under them at most, bytes of the input rows of a block.
enum { kTile = 4, kMaxColumns = 12, kRowBytes = 24 * 1024 };

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
  void* dst;
  int64_t ld;
  const void* residual;
  int64_t residual_ld;
  bool dst_is_bf16;
} span;

CARNOT_INLINE void store_sum(const span* sp, int64_t q, int64_t left, vf32 sum) {
  if (sp->residual)
    sum = v_add(sum, v_load_stored(sp->dst_is_bf16, sp->residual, q * sp->residual_ld, left));
  if (sp->clip) sum = v_min_to(sp->hi, v_max_to(sp->lo, sum));
  v_store_stored(sp->dst_is_bf16, sp->dst, q * sp->ld, sum, left);
}

// What a function is compiled for: columns of the filter, their stride, the type of the input.
typedef struct form {
  int s, stride_w;
  bool is_bf16;
} form;

// kTile pixels from q on. |f| and |edge| are constants here, and mostly rows; columns in the
// padding, which only an edge has, count as zero.
CARNOT_INLINE void tile(const span* sp, int64_t q, int64_t left, int64_t rows, form f, bool edge) {
  const int s = f.s, stride_w = f.stride_w;
  int64_t src_w = sp->src_w;
  CARNOT_OPAQUE(src_w);
  const int64_t w0 = q * stride_w - sp->pad_w;
  const void* src = v_element(f.is_bf16, sp->src, w0 * src_w);
  const float* weights = sp->weights;
  vf32 sum[kTile];
  CARNOT_UNROLL
  for (int t = 0; t < kTile; ++t) sum[t] = sp->bias;
  for (int64_t r = 0; r < rows; ++r, weights += s * 16) {
    vf32 x[kMaxColumns];
    CARNOT_UNROLL
    for (int i = 0; i < (kTile - 1) * stride_w + s; ++i) {
      const bool inside = !edge || (uint64_t)(w0 + i) < (uint64_t)sp->w;
      x[i] = inside ? v_load_stored(f.is_bf16, src, i * src_w, left) : v_zero();
      V_KEEP(x[i]);
    }
    src = v_element(f.is_bf16, src, sp->src_row);
    CARNOT_UNROLL
    for (int i = 0; i < s * kTile; ++i) {
      const int tap = i / kTile, t = i % kTile;
      sum[t] = v_fma(x[t * stride_w + tap], v_load(weights + tap * 16), sum[t]);
    }
  }
  CARNOT_UNROLL
  for (int t = 0; t < kTile; ++t) store_sum(sp, q + t, left, sum[t]);
}

// Tiles of whole vectors from q on, as long as they end at or before |end|; returns what is left.
CARNOT_INLINE int64_t inner_tiles(const span* sp, int64_t q, int64_t end, int64_t rows, form f) {
  const span own = *sp;  // a copy that stores to dst cannot change
  for (; q + kTile <= end; q += kTile) tile(&own, q, V_LANES, rows, f, /*edge=*/false);
  return q;
}

// A tile with columns in the padding, or of the last channels. What is mostly so is constant.
CARNOT_INLINE void edge_tile(const span* sp, int64_t q, form f) {
  if (sp->left == V_LANES && sp->rows == f.s)
    tile(sp, q, V_LANES, f.s, f, /*edge=*/true);
  else if (sp->left == V_LANES)
    tile(sp, q, V_LANES, sp->rows, f, /*edge=*/true);
  else
    tile(sp, q, sp->left, sp->rows, f, /*edge=*/true);
}

// The |count| >= kTile pixels of a row; the last tile is moved back to end with the row, which
// computes some pixels twice, to the same bits.
CARNOT_INLINE void tiles_of(const span* sp, int64_t count, form f) {
  const int s = f.s, stride_w = f.stride_w;
  const int64_t last_column = sp->w + sp->pad_w - s;
  int64_t end = last_column < 0 ? 0 : min_i64(count, last_column / stride_w + 1), q = 0;
  if (sp->left < V_LANES || sp->rows == 0) end = 0;
  for (; q < sp->pad_w && q < count; q += kTile) {
    edge_tile(sp, min_i64(q, count - kTile), f);
  }
  if (sp->rows == s) {
    q = inner_tiles(sp, q, end, s, f);
  } else {
    q = inner_tiles(sp, q, end, sp->rows, f);
  }
  for (; q < count; q += kTile) {
    edge_tile(sp, min_i64(q, count - kTile), f);
  }
}

typedef void (*tiles_fn)(const span* sp, int64_t count);

#define TILES(name, s, stride_w, is_bf16)                   \
  static void tiles_##name(const span* sp, int64_t count) { \
    tiles_of(sp, count, (form){s, stride_w, is_bf16});      \
  }
TILES(3_1, 3, 1, false)
TILES(3_2, 3, 2, false)
TILES(5_1, 5, 1, false)
TILES(5_2, 5, 2, false)
TILES(7_1, 7, 1, false)
TILES(9_1, 9, 1, false)
TILES(bf16_3_1, 3, 1, true)
TILES(bf16_3_2, 3, 2, true)
TILES(bf16_5_1, 5, 1, true)
TILES(bf16_5_2, 5, 2, true)
TILES(bf16_7_1, 7, 1, true)
TILES(bf16_9_1, 9, 1, true)
#undef TILES

static tiles_fn tiles_for(const carnot_depthwise_f32* c) {
  static const struct {
    int64_t s, stride_w;
    tiles_fn of_f32, of_bf16;
  } kTiles[] = {{3, 1, tiles_3_1, tiles_bf16_3_1}, {3, 2, tiles_3_2, tiles_bf16_3_2},
                {5, 1, tiles_5_1, tiles_bf16_5_1}, {5, 2, tiles_5_2, tiles_bf16_5_2},
                {7, 1, tiles_7_1, tiles_bf16_7_1}, {9, 1, tiles_9_1, tiles_bf16_9_1}};
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
  if (!sp.clip && e->activation != CARNOT_KERNEL_ACTIVATION_NONE) {
    CARNOT_KERNEL(activate_f32)
    (e->activation, e->a, e->b, (float*)c->dst + row * c->q * c->ld + ch0, c->ld, c->q, ch1 - ch0);
  }
}

void CARNOT_KERNEL(depthwise_f32)(const carnot_depthwise_f32* c, int64_t row0, int64_t row1) {
  const carnot_kernel_activation activation = c->epilogue.activation;
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
      .lo = v_set(activation == CARNOT_KERNEL_ACTIVATION_CLIP ? c->epilogue.a : 0),
      .hi = v_set(activation == CARNOT_KERNEL_ACTIVATION_CLIP ? c->epilogue.b : INFINITY)};
  const int64_t fit = kRowBytes / (c->src_is_bf16 ? 2 : 4) / max_i64(1, c->r * c->w);
  const int64_t block = min_i64(64, max_i64(16, fit & ~INT64_C(15)));
  for (int64_t ch = 0; ch < c->c; ch += block) {
    for (int64_t row = row0; row < row1; ++row) {
      row_of_block(c, row, ch, min_i64(ch + block, c->c), tiles_for(c), sp);
    }
  }
}
