// Convolution of few input channels: tiles of pixels by output channels stay in registers over the
// whole filter; each input number is broadcast from where it lies.
#include "kernel/cpu/conv/conv2d_few_f32.h"

#include <math.h>

#include "kernel/cpu/common/gate_bf16.h"
#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/sliding_window.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

// Pixels of a tile, and its vectors of output channels at most: 28 sums of 32 registers, 12 of 16.
#if defined(__AVX512F__)
enum { kPixels = 14 };
#elif defined(__AVX2__)
enum { kPixels = 6 };
#else
enum { kPixels = 4 };
#endif
enum { kVectors = 2 };

// One output row and the channels [k0, k0 + vectors * V_LANES) of it.
typedef struct span {
  const carnot_conv2d_few_f32* conv;
  const float* src;      // channel 0 of the input row under the first tap row inside, at column 0
  int64_t rows;          // tap rows inside
  const float* weights;  // of channel 0, the first tap row inside, column k0
  int64_t k0, left;      // output channels from k0 on
  vf32 lo, hi;           // infinite where nothing is clipped
  carnot_kernel_activation gate;  // of BF16 results; NONE where there is none
  void* dst;                      // of the row, at channel 0
  const void* residual;           // likewise
} span;

// Where the weights of vector |v| lie behind those of the first.
CARNOT_INLINE int64_t panel_of(const span* sp, int v) {
  const carnot_conv2d_few_f32* c = sp->conv;
  const int64_t k = sp->k0 % 16 + v * V_LANES;
  return k / 16 * (c->c * c->r * c->s * 16) + k % 16 - sp->k0 % 16;
}

CARNOT_INLINE void store_sum(const span* sp, int64_t q, int64_t k, vf32 sum) {
  const carnot_conv2d_few_f32* c = sp->conv;
  const int64_t left = sp->left - (k - sp->k0);
  if (sp->residual)
    sum = v_add(sum,
                v_load_stored(c->dst_is_bf16, sp->residual, q * c->epilogue.residual_ld + k, left));
  sum = v_min_to(sp->hi, v_max_to(sp->lo, sum));
  if (sp->gate) sum = v_gate_bf16(sp->gate, sum);
  v_store_stored(c->dst_is_bf16, sp->dst, q * c->ld + k, sum, left);
}

// The gates of the sums of |count| pixels, in a loop: a copy of the formula for each sum is long.
CARNOT_INLINE void store_gated(const span* sp, int64_t q, int64_t count, int vectors,
                               vf32 (*sum)[kVectors]) {
  float kept[kPixels * kVectors * V_LANES] __attribute__((aligned(64)));
  CARNOT_UNROLL
  for (int t = 0; t < kPixels; ++t) {
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) v_store(kept + (t * vectors + v) * V_LANES, sum[t][v]);
  }
  for (int64_t i = 0; i < count * vectors; ++i)
    store_sum(sp, q + i / vectors, sp->k0 + i % vectors * V_LANES, v_load(kept + i * V_LANES));
}

// Columns [w0, w0 + count) of an input row, zeros where they are in the padding.
static void copy_columns(const carnot_conv2d_few_f32* c, const float* src, int64_t w0,
                         int64_t count, float* columns) {
  const int64_t begin = min_i64(count, max_i64(0, -w0)),
                end = max_i64(begin, min_i64(count, c->w - w0));
  memset(columns, 0, (size_t)begin * sizeof(float));
  memset(columns + end, 0, (size_t)(count - end) * sizeof(float));
  if (c->src_w == 1 && begin < end)
    memcpy(columns + begin, src + w0 + begin, (size_t)(end - begin) * sizeof(float));
  else
    for (int64_t i = begin; i < end; ++i) columns[i] = src[(w0 + i) * c->src_w];
}

// Adds a tap of |x|, its pixels |apart| floats apart, to the sums.
CARNOT_INLINE void add_tap(int vectors, const float* x, int64_t apart, const float* weights,
                           int64_t panel, vf32 (*sum)[kVectors]) {
  vf32 y[kVectors];
  CARNOT_UNROLL
  for (int v = 0; v < vectors; ++v) y[v] = v_load(weights + (v ? panel : 0));
  CARNOT_UNROLL
  for (int t = 0; t < kPixels; ++t) {
    const vf32 value = v_set(x[t * apart]);
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) sum[t][v] = v_fma(value, y[v], sum[t][v]);
  }
}

// |count| <= kPixels pixels from q on; all of them, wholly inside, but for an edge, whose columns
// are copied. |step| floats lie between the input columns of consecutive pixels; a constant, or 0:
// it is read from the sizes.
CARNOT_INLINE void tile(const span* sp, int64_t q, int64_t count, int vectors, int64_t step,
                        bool edge) {
  const carnot_conv2d_few_f32* c = sp->conv;
  float columns[CARNOT_CONV2D_FEW_MAX_COLUMNS];
  const int64_t src_w = edge ? 1 : c->src_w;
  const int64_t apart = step && !edge ? step : c->stride_w * src_w;
  const int64_t w0 = q * c->stride_w - c->pad_w, panel = panel_of(sp, 1);
  vf32 sum[kPixels][kVectors];
  CARNOT_UNROLL
  for (int v = 0; v < vectors; ++v) {
    const int64_t k = sp->k0 + v * V_LANES;
    const vf32 bias =
        c->epilogue.bias ? v_load_upto(c->epilogue.bias + k, sp->left - v * V_LANES) : v_zero();
    CARNOT_UNROLL
    for (int t = 0; t < kPixels; ++t) sum[t][v] = bias;
  }
  for (int64_t ch = 0; ch < c->c; ++ch) {
    for (int64_t r = 0; r < sp->rows; ++r) {
      const float* row = sp->src + ch * c->src_c + r * c->dilation_h * c->src_h;
      const float* weights = sp->weights + (ch * c->r + r) * c->s * 16;
      if (edge) copy_columns(c, row, w0, carnot_conv2d_few_columns(c, kPixels), columns);
      const float* x = edge ? columns : row + w0 * src_w;
      for (int64_t s = 0; s < c->s; ++s, weights += 16, x += c->dilation_w * src_w)
        add_tap(vectors, x, apart, weights, panel, sum);
    }
  }
  if (sp->gate) {
    store_gated(sp, q, count, vectors, sum);
    return;
  }
  if (!c->dst_is_bf16 && !sp->residual && count == kPixels && sp->left >= vectors * V_LANES) {
    CARNOT_UNROLL
    for (int t = 0; t < kPixels; ++t) {
      CARNOT_UNROLL
      for (int v = 0; v < vectors; ++v)
        v_store((float*)sp->dst + (q + t) * c->ld + sp->k0 + v * V_LANES,
                v_min_to(sp->hi, v_max_to(sp->lo, sum[t][v])));
    }
    return;
  }
  CARNOT_UNROLL
  for (int t = 0; t < kPixels; ++t) {
    if (edge && t >= count) break;
    CARNOT_UNROLL
    for (int v = 0; v < vectors; ++v) store_sum(sp, q + t, sp->k0 + v * V_LANES, sum[t][v]);
  }
}

CARNOT_INLINE void tiles(const span* sp, int vectors, int64_t step) {
  const carnot_conv2d_few_f32* c = sp->conv;
  const int64_t last_column = c->w + c->pad_w - (c->s - 1) * c->dilation_w - 1;
  // Pixels before |end| have all columns at their right inside.
  const int64_t end = last_column < 0 ? 0 : min_i64(c->q, last_column / c->stride_w + 1);
  for (int64_t q = 0; q < c->q; q += kPixels) {
    if (q * c->stride_w >= c->pad_w && q + kPixels <= end) {
      tile(sp, q, kPixels, vectors, step, /*edge=*/false);
    } else {
      tile(sp, q, min_i64(kPixels, c->q - q), vectors, step, /*edge=*/true);
    }
  }
}

// Functions of their own, with distances of planes of stride 1 and 2 and of pixels of 3 channels.
typedef void (*tiles_fn)(const span* sp);
#define TILES(vectors, step) \
  static void tiles_##vectors##_##step(const span* sp) { tiles(sp, vectors, step); }
TILES(1, 1)
TILES(1, 2)
TILES(1, 6)
TILES(1, 0)
TILES(2, 1)
TILES(2, 2)
TILES(2, 6)
TILES(2, 0)
#undef TILES

static tiles_fn tiles_for(int64_t vectors, int64_t apart) {
  static const tiles_fn kTiles[][4] = {{tiles_1_1, tiles_1_2, tiles_1_6, tiles_1_0},
                                       {tiles_2_1, tiles_2_2, tiles_2_6, tiles_2_0}};
  return kTiles[vectors - 1][apart == 1 ? 0 : apart == 2 ? 1 : apart == 6 ? 2 : 3];
}

static void one_row(const carnot_conv2d_few_f32* c, int64_t row, span sp) {
  const carnot_epilogue_f32* e = &c->epilogue;
  const int64_t h0 = row % c->p * c->stride_h - c->pad_h;
  const window_taps inside = window_inside(h0, c->r, c->dilation_h, c->h);
  sp.rows = inside.end - inside.begin;
  sp.src = c->src + row / c->p * c->src_n + (h0 + inside.begin * c->dilation_h) * c->src_h;
  const int64_t bytes = c->dst_is_bf16 ? 2 : 4;
  sp.dst = (char*)c->dst + row * c->q * c->ld * bytes;
  sp.residual = e->residual ? (const char*)e->residual + row * c->q * e->residual_ld * bytes : NULL;
  for (sp.k0 = 0; sp.k0 < c->k; sp.k0 += kVectors * V_LANES) {
    sp.left = c->k - sp.k0;
    sp.weights =
        c->weights + sp.k0 / 16 * (c->c * c->r * c->s * 16) + inside.begin * c->s * 16 + sp.k0 % 16;
    tiles_for(sp.left > V_LANES ? 2 : 1, c->stride_w * c->src_w)(&sp);
  }
  if (e->activation > CARNOT_KERNEL_ACTIVATION_CLIP && !sp.gate)
    CARNOT_KERNEL(activate_f32)(e->activation, e->a, e->b, sp.dst, c->ld, c->q, c->k);
}

void CARNOT_KERNEL(conv2d_few_f32)(const carnot_conv2d_few_f32* c, int64_t row0, int64_t row1) {
  const carnot_epilogue_f32* e = &c->epilogue;
  const bool relu = e->activation == CARNOT_KERNEL_ACTIVATION_RELU,
             clip = e->activation == CARNOT_KERNEL_ACTIVATION_CLIP;
  const span sp = {.conv = c,
                   .gate = c->dst_is_bf16 ? gate_of(e->activation) : CARNOT_KERNEL_ACTIVATION_NONE,
                   .lo = v_set(relu   ? 0
                               : clip ? e->a
                                      : -INFINITY),
                   .hi = v_set(clip ? e->b : INFINITY)};
  for (int64_t row = row0; row < row1; ++row) one_row(c, row, sp);
}
