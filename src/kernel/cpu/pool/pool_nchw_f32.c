// Max and average pooling over dense planes of any rank.
#include "kernel/cpu/pool/pool_nchw_f32.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/sliding_window.h"

enum { kRows = 32, kVectors = 4 };  // rows of the input, vectors of each, that are joined together

// The rows of the input that one row of the result is made of: an offset, and taps in every
// dimension but the last.
typedef struct row_window {
  int64_t at, steps[CARNOT_POOL_NCHW_RANK], taps[CARNOT_POOL_NCHW_RANK];
  int64_t count;    // of the window's rows inside
  int64_t divisor;  // the taps that an average counts: with padding or without
} row_window;

static int64_t axis_padded_taps(const carnot_pool_axis* a, int64_t start) {
  const window_taps all =
      window_inside(start + a->pad, a->kernel, a->dilation, a->in + a->pad + a->pad_end);
  return all.end - all.begin;
}

static row_window window_of_row(const carnot_pool_nchw_f32* p, int64_t row) {
  row_window win = {.count = 1, .divisor = 1};
  int64_t step = p->axes[p->rank - 1].in;
  for (int d = p->rank - 2; d >= 0; --d) {
    const carnot_pool_axis* a = &p->axes[d];
    const int64_t start = row % a->out * a->stride - a->pad;
    const window_taps taps = window_inside(start, a->kernel, a->dilation, a->in);
    row /= a->out;
    win.at += (start + taps.begin * a->dilation) * step;
    win.steps[d] = a->dilation * step;
    win.taps[d] = taps.end - taps.begin;
    win.count *= win.taps[d];
    win.divisor *= p->include_padding ? axis_padded_taps(a, start) : win.taps[d];
    step *= a->in;
  }
  win.at += row * step;
  return win;
}

CARNOT_INLINE vf32 joined(vf32 a, vf32 b, bool max) { return max ? v_max(a, b) : v_add(a, b); }

// The rows are joined with each other and then with |line|: a long sum is one of parts.
CARNOT_INLINE void join_vectors(const float* src, const int64_t* offsets, int64_t count,
                                int vectors, int64_t left, bool max, bool first, float* line) {
  vf32 acc[kVectors];
  for (int v = 0; v < vectors; ++v) acc[v] = v_load_upto(src + offsets[0] + v * V_LANES, left);
  for (int64_t t = 1; t < count; ++t) {
    const float* x = src + offsets[t];
    for (int v = 0; v < vectors; ++v) {
      acc[v] = joined(acc[v], v_load_upto(x + v * V_LANES, left), max);
    }
  }
  for (int v = 0; v < vectors; ++v) {
    if (!first) acc[v] = joined(v_load_upto(line + v * V_LANES, left), acc[v], max);
    v_store_upto(line + v * V_LANES, acc[v], left);
  }
}

// |count| rows as one, with what |line| holds unless these are the first.
CARNOT_INLINE void join_lines(const float* src, const int64_t* offsets, int64_t count,
                              int64_t width, bool max, bool first, float* line) {
  const int64_t wide = kVectors * V_LANES;
  int64_t i = 0;
  for (; i + wide <= width; i += wide) {
    join_vectors(src + i, offsets, count, kVectors, V_LANES, max, first, line + i);
  }
  for (; i < width; i += V_LANES) {
    join_vectors(src + i, offsets, count, 1, width - i, max, first, line + i);
  }
}

// All rows of the window as one.
CARNOT_INLINE void join_rows(const carnot_pool_nchw_f32* p, const row_window* win, bool max,
                             float* line) {
  const int64_t width = p->axes[p->rank - 1].in;
  int64_t tap[CARNOT_POOL_NCHW_RANK] = {0}, offsets[kRows], at = 0;
  bool first = true;
  for (int64_t i = 0, ready = 0; i < win->count; ++i) {
    offsets[ready++] = at;
    if (ready == kRows || i + 1 == win->count) {
      join_lines(p->src + win->at, offsets, ready, width, max, first, line);
      ready = 0, first = false;
    }
    for (int d = p->rank - 2; d >= 0; --d) {
      at += win->steps[d];
      if (++tap[d] < win->taps[d]) break;
      at -= tap[d] * win->steps[d];
      tap[d] = 0;
    }
  }
}

// One tap of the last dimension for all results that it is inside of; |first|: they hold none yet.
CARNOT_INLINE void join_tap(const float* restrict line, int64_t stride, int64_t count, bool max,
                            bool first, float* restrict dst) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = line[i * stride], y = dst[i];
    dst[i] = first ? x : !max ? x + y : ((x > y) | (x != x)) ? x : y;
  }
}

CARNOT_INLINE void join_tap_of(const float* line, int64_t stride, int64_t count, bool max,
                               bool first, float* dst) {
  switch (stride) {
    case 1: join_tap(line, 1, count, max, first, dst); break;
    case 2: join_tap(line, 2, count, max, first, dst); break;
    default: join_tap(line, stride, count, max, first, dst);
  }
}

CARNOT_INLINE void join_columns(const carnot_pool_axis* a, const float* line, bool max,
                                float* dst) {
  // The first tap that all results have needs no start value.
  bool first = a->pad == 0 && (a->out - 1) * a->stride < a->in;
  for (int64_t q = 0; q < a->out && !first; ++q) dst[q] = max ? -INFINITY : 0;
  for (int64_t s = 0; s < a->kernel; ++s) {
    const int64_t start = s * a->dilation - a->pad;  // of the first result's tap
    const int64_t q0 = start < 0 ? (-start + a->stride - 1) / a->stride : 0;
    const int64_t q1 = start < a->in ? min_i64(a->out, (a->in - start - 1) / a->stride + 1) : 0;
    if (q1 <= q0) continue;
    const float* x = line + start + q0 * a->stride;
    if (first) {
      join_tap_of(x, a->stride, q1 - q0, max, true, dst + q0);
    } else {
      join_tap_of(x, a->stride, q1 - q0, max, false, dst + q0);
    }
    first = false;
  }
}

static void divide(const carnot_pool_nchw_f32* p, int64_t divisor, float* dst) {
  const carnot_pool_axis* a = &p->axes[p->rank - 1];
  for (int64_t q = 0; q < a->out; ++q) {
    const int64_t start = q * a->stride - a->pad;
    const window_taps taps = window_inside(start, a->kernel, a->dilation, a->in);
    const int64_t taps_counted =
        p->include_padding ? axis_padded_taps(a, start) : taps.end - taps.begin;
    dst[q] = divisor * taps_counted > 0 ? dst[q] / (float)(divisor * taps_counted) : 0;
  }
}

CARNOT_INLINE void pool_nchw(const carnot_pool_nchw_f32* p, int64_t row0, int64_t row1, float* line,
                             bool max) {
  const carnot_pool_axis* last = &p->axes[p->rank - 1];
  for (int64_t row = row0; row < row1; ++row) {
    const row_window win = window_of_row(p, row);
    float* dst = p->dst + row * last->out;
    if (win.count > 0) {
      join_rows(p, &win, max, line);
      join_columns(last, line, max, dst);
    } else {
      for (int64_t q = 0; q < last->out; ++q) dst[q] = max ? -INFINITY : 0;
    }
    if (!max) divide(p, win.divisor, dst);
  }
}

void CARNOT_KERNEL(max_pool_nchw_f32)(const carnot_pool_nchw_f32* p, int64_t row0, int64_t row1,
                                      float* line) {
  pool_nchw(p, row0, row1, line, /*max=*/true);
}

void CARNOT_KERNEL(average_pool_nchw_f32)(const carnot_pool_nchw_f32* p, int64_t row0, int64_t row1,
                                          float* line) {
  pool_nchw(p, row0, row1, line, /*max=*/false);
}
