// Max and average pooling, channels last.
#include "kernel/cpu/pool/pool_f32.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/sliding_window.h"

// Vectors of channels that go through a window together; taps of a window that is one sum.
enum { kVectors = 4, kWindow = 64 };

typedef struct pool_types {
  bool src_is_bf16, dst_is_bf16;
} pool_types;

typedef struct pool_window {
  const char* src;  // its first pixel inside
  int64_t planes, rows, columns, plane_stride, row_stride, column_stride;
  float count;
} pool_window;

// |by_rows|: every row of a large window is summed from zero: the error grows with the roots of its
// sides.
CARNOT_INLINE void pool_channels(pool_types types, const pool_window* win, int64_t ch, int vectors,
                                 int64_t left, bool max, bool by_rows, void* dst, int64_t at) {
  vf32 acc[kVectors];
  for (int v = 0; v < vectors; ++v) acc[v] = v_set(max ? -INFINITY : 0);
  int64_t plane = ch, r = 0;
  for (int64_t i = win->planes * win->rows; i > 0; --i) {
    int64_t x = plane + r * win->row_stride;
    vf32 row[kVectors];
    for (int v = 0; v < vectors; ++v) row[v] = by_rows ? v_zero() : acc[v];
    for (int64_t s = 0; s < win->columns; ++s, x += win->column_stride) {
      for (int v = 0; v < vectors; ++v) {
        const vf32 xv = v_load_stored(types.src_is_bf16, win->src, x + v * V_LANES, left);
        row[v] = max ? v_max(row[v], xv) : v_add(row[v], xv);
      }
    }
    for (int v = 0; v < vectors; ++v) acc[v] = by_rows ? v_add(acc[v], row[v]) : row[v];
    if (++r == win->rows) r = 0, plane += win->plane_stride;
  }
  const vf32 count = v_set(win->count);
  for (int v = 0; v < vectors; ++v) {
    v_store_stored(types.dst_is_bf16, dst, at + ch + v * V_LANES,
                   max ? acc[v] : v_div(acc[v], count), left);
  }
}

CARNOT_INLINE void pool_pixel_by(pool_types types, const pool_window* win, int64_t c, bool max,
                                 bool by_rows, void* dst, int64_t at) {
  int64_t ch = 0;
  for (; ch + kVectors * V_LANES <= c; ch += kVectors * V_LANES) {
    pool_channels(types, win, ch, kVectors, V_LANES, max, by_rows, dst, at);
  }
  for (; ch + V_LANES <= c; ch += V_LANES) {
    pool_channels(types, win, ch, 1, V_LANES, max, by_rows, dst, at);
  }
  if (ch < c) pool_channels(types, win, ch, 1, c - ch, max, by_rows, dst, at);
}

#if V_LANES == 16
// ---- maxima of BF16 by their order as integers ----

enum { kBf16Lanes = 2 * V_LANES };

// x for x >= 0, else -|x| as two's complement; its own inverse. NaN lies beyond the infinities.
CARNOT_INLINE __m512i order_of(__m512i x) {
  const __m512i sign = _mm512_srai_epi16(x, 15);
  return _mm512_xor_si512(x, _mm512_and_si512(sign, _mm512_set1_epi16(0x7fff)));
}

// |vectors| of 32 channels from |ch| on, of the last those of |mask|.
CARNOT_INLINE void max_channels_bf16(const pool_window* win, int64_t ch, int vectors, bool whole,
                                     __mmask32 mask, uint16_t* dst) {
  const __m512i least = order_of(_mm512_set1_epi16((short)0xff80));  // -inf
  __m512i top[2], low[2];
  for (int v = 0; v < vectors; ++v) top[v] = least, low[v] = _mm512_set1_epi16(0x7fff);
  const uint16_t* plane = (const uint16_t*)(const void*)win->src + ch;
  int64_t r = 0;
  for (int64_t i = win->planes * win->rows; i > 0; --i) {
    const uint16_t* x = plane + r * win->row_stride;
    for (int64_t s = 0; s < win->columns; ++s, x += win->column_stride) {
      for (int v = 0; v < vectors; ++v) {
        const __m512i xv = order_of(whole ? _mm512_loadu_si512(x + v * kBf16Lanes)
                                          : _mm512_maskz_loadu_epi16(mask, x + v * kBf16Lanes));
        top[v] = _mm512_max_epi16(top[v], xv), low[v] = _mm512_min_epi16(low[v], xv);
      }
    }
    if (++r == win->rows) r = 0, plane += win->plane_stride;
  }
  for (int v = 0; v < vectors; ++v) {
    const __mmask32 negative_nan = _mm512_cmplt_epi16_mask(low[v], least);
    const __m512i y = _mm512_mask_set1_epi16(order_of(top[v]), negative_nan, 0x7fc0);
    if (whole)
      _mm512_storeu_si512(dst + ch + v * kBf16Lanes, y);
    else
      _mm512_mask_storeu_epi16(dst + ch + v * kBf16Lanes, mask, y);
  }
}

// Channels from |ch| on.
CARNOT_INLINE void max_pixel_bf16(const pool_window* win, int64_t ch, int64_t c, uint16_t* dst) {
  for (; ch + 2 * kBf16Lanes <= c; ch += 2 * kBf16Lanes)
    max_channels_bf16(win, ch, 2, true, 0, dst);
  for (; ch + kBf16Lanes <= c; ch += kBf16Lanes) max_channels_bf16(win, ch, 1, true, 0, dst);
  if (ch < c) max_channels_bf16(win, ch, 1, false, (__mmask32)((UINT64_C(1) << (c - ch)) - 1), dst);
}

// ---- maxima of BF16 of which none is negative ----

enum { kPositiveChannels = 2 * kBf16Lanes };

// Their bits are ordered as integers: a maximum of any numbers takes three instructions of the one
// port that has them, here one. Channels [ch, ch + kPositiveChannels); false, and nothing is
// stored, where a number has its sign set.
CARNOT_INLINE bool max_of_positive(const pool_window* win, int64_t ch, uint16_t* dst) {
  __m512i top[2], any = _mm512_setzero_si512();
  for (int v = 0; v < 2; ++v) top[v] = _mm512_setzero_si512();
  const uint16_t* plane = (const uint16_t*)(const void*)win->src + ch;
  int64_t r = 0;
  for (int64_t i = win->planes * win->rows; i > 0; --i) {
    const uint16_t* x = plane + r * win->row_stride;
    for (int64_t s = 0; s < win->columns; ++s, x += win->column_stride) {
      for (int v = 0; v < 2; ++v) {
        const __m512i xv = _mm512_loadu_si512(x + v * kBf16Lanes);
        top[v] = _mm512_max_epi16(top[v], xv);
        any = _mm512_or_si512(any, xv);
      }
    }
    if (++r == win->rows) r = 0, plane += win->plane_stride;
  }
  if (_mm512_movepi16_mask(any)) return false;
  for (int v = 0; v < 2; ++v) _mm512_storeu_si512(dst + ch + v * kBf16Lanes, top[v]);
  return true;
}

// Of a pixel; returns how many channels are stored.
CARNOT_INLINE int64_t max_pixel_of_positive(const pool_window* win, int64_t c, uint16_t* dst) {
  int64_t ch = 0;
  if (win->rows < 1) return 0;
  while (ch + kPositiveChannels <= c && max_of_positive(win, ch, dst)) ch += kPositiveChannels;
  return ch;
}
#endif

// |positive|: no number has been found to be negative.
CARNOT_INLINE void pool_pixel(pool_types types, const pool_window* win, int64_t c, bool max,
                              bool* positive, void* dst, int64_t at) {
#if V_LANES == 16
  if (max && types.src_is_bf16 && types.dst_is_bf16) {
    uint16_t* to = (uint16_t*)dst + at;
    const int64_t done = *positive ? max_pixel_of_positive(win, c, to) : 0;
    *positive &= c - done < kPositiveChannels;
    if (done < c) max_pixel_bf16(win, done, c, to);
    return;
  }
#else
  (void)positive;
#endif
  if (!max && win->rows * win->columns > kWindow) {
    pool_pixel_by(types, win, c, /*max=*/false, /*by_rows=*/true, dst, at);
  } else {
    pool_pixel_by(types, win, c, max, /*by_rows=*/false, dst, at);
  }
}

// Taps inside the input and its padding.
static int64_t padded_taps(int64_t start, int64_t taps, int64_t dilation, int64_t size, int64_t pad,
                           int64_t pad_end) {
  const window_taps all = window_inside(start + pad, taps, dilation, size + pad + pad_end);
  return all.end - all.begin;
}

// The input planes under output plane |at|.
static window_taps planes_under(const carnot_conv_depth* d, int64_t at) {
  if (!d->taps) return (window_taps){0, 1};
  return window_inside(at * d->stride - d->pad, d->taps, d->dilation, d->in);
}

CARNOT_INLINE void pool_rows(pool_types types, const carnot_pool_f32* p, int64_t row0, int64_t row1,
                             bool max) {
  const int64_t bytes = types.src_is_bf16 ? 2 : 4, planes = p->depth.taps ? p->depth.out : 1;
  bool positive = true;
  for (int64_t row = row0; row < row1; ++row) {
    const int64_t plane = row / p->p % planes, z0 = plane * p->depth.stride - p->depth.pad;
    const window_taps z = planes_under(&p->depth, plane);
    const int64_t h0 = row % p->p * p->stride_h - p->pad_h;
    const window_taps r = window_inside(h0, p->r, p->dilation_h, p->h);
    for (int64_t q = 0; q < p->q; ++q) {
      const int64_t w0 = q * p->stride_w - p->pad_w;
      const window_taps s = window_inside(w0, p->s, p->dilation_w, p->w);
      pool_window win = {.planes = z.end - z.begin,
                         .rows = r.end - r.begin,
                         .columns = s.end - s.begin,
                         .plane_stride = p->depth.dilation * p->depth.src,
                         .row_stride = p->dilation_h * p->src_h,
                         .column_stride = p->dilation_w * p->src_w};
      if (win.planes > 0 && win.rows > 0 && win.columns > 0) {
        win.src = (const char*)p->src + bytes * (row / (p->p * planes) * p->src_n +
                                                 (z0 + z.begin * p->depth.dilation) * p->depth.src +
                                                 (h0 + r.begin * p->dilation_h) * p->src_h +
                                                 (w0 + s.begin * p->dilation_w) * p->src_w);
      } else {
        win.rows = 0, win.src = p->src;
      }
      win.count = (float)(win.rows * win.columns);
      if (p->include_padding) {
        win.count = (float)(padded_taps(h0, p->r, p->dilation_h, p->h, p->pad_h, p->pad_h_end) *
                            padded_taps(w0, p->s, p->dilation_w, p->w, p->pad_w, p->pad_w_end));
      }
      pool_pixel(types, &win, p->c, max, &positive, p->dst, (row * p->q + q) * p->ld);
    }
  }
}

CARNOT_INLINE void pool_as(const carnot_pool_f32* p, int64_t row0, int64_t row1, bool max) {
  if (p->src_is_bf16 && p->dst_is_bf16)
    pool_rows((pool_types){true, true}, p, row0, row1, max);
  else if (p->src_is_bf16)
    pool_rows((pool_types){true, false}, p, row0, row1, max);
  else if (p->dst_is_bf16)
    pool_rows((pool_types){false, true}, p, row0, row1, max);
  else
    pool_rows((pool_types){false, false}, p, row0, row1, max);
}

void CARNOT_KERNEL(max_pool_f32)(const carnot_pool_f32* p, int64_t row0, int64_t row1) {
  pool_as(p, row0, row1, /*max=*/true);
}

void CARNOT_KERNEL(average_pool_f32)(const carnot_pool_f32* p, int64_t row0, int64_t row1) {
  pool_as(p, row0, row1, /*max=*/false);
}
