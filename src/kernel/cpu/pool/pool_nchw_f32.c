// Max and average pooling over dense planes of any rank.
#include "kernel/cpu/pool/pool_nchw_f32.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_reduce.h"
#include "kernel/cpu/common/sliding_window.h"

// Rows of the input, and vectors of each, that are joined together; floats of lines that stay in
// L1.
enum { kRows = 32, kVectors = 4, kLineFloats = 6144 };

// The rows of the input that one row of the results is made of, in every dimension but the last:
// the indices of the results, the first tap inside, and how many are.
typedef struct row_window {
  int64_t plane, index[CARNOT_POOL_NCHW_RANK];
  int64_t steps[CARNOT_POOL_NCHW_RANK];  // in the input, of a neighbour
  int64_t begin[CARNOT_POOL_NCHW_RANK], taps[CARNOT_POOL_NCHW_RANK];
  int64_t counted[CARNOT_POOL_NCHW_RANK];  // by an average: with padding or without
} row_window;

static int64_t axis_padded_taps(const carnot_pool_axis* a, int64_t start) {
  const window_taps all =
      window_inside(start + a->pad, a->kernel, a->dilation, a->in + a->pad + a->pad_end);
  return all.end - all.begin;
}

static void set_axis(const carnot_pool_nchw_f32* p, row_window* win, int d) {
  const carnot_pool_axis* a = &p->axes[d];
  const int64_t start = win->index[d] * a->stride - a->pad;
  const window_taps taps = window_inside(start, a->kernel, a->dilation, a->in);
  win->begin[d] = start + taps.begin * a->dilation;
  win->taps[d] = taps.end - taps.begin;
  win->counted[d] = p->include_padding ? axis_padded_taps(a, start) : win->taps[d];
}

static void go_to_row(const carnot_pool_nchw_f32* p, row_window* win, int64_t row) {
  int64_t step = p->axes[p->rank - 1].in;
  for (int d = p->rank - 2; d >= 0; --d) {
    win->index[d] = row % p->axes[d].out;
    row /= p->axes[d].out;
    win->steps[d] = step;
    step *= p->axes[d].in;
    set_axis(p, win, d);
  }
  win->plane = row;
}

static void go_to_next_row(const carnot_pool_nchw_f32* p, row_window* win) {
  int d = p->rank - 2;
  for (; d >= 0; --d) {
    const bool carries = ++win->index[d] == p->axes[d].out;
    if (carries) win->index[d] = 0;
    set_axis(p, win, d);
    if (!carries) return;
  }
  ++win->plane;
}

// The number of rows.
static int64_t window_rows(const carnot_pool_nchw_f32* p, const row_window* win) {
  int64_t count = 1;
  for (int d = 0; d < p->rank - 1; ++d) count *= win->taps[d];
  return count;
}

static int64_t counted_rows(const carnot_pool_nchw_f32* p, const row_window* win) {
  int64_t count = 1;
  for (int d = 0; d < p->rank - 1; ++d) count *= win->counted[d];
  return count;
}

static const float* first_row(const carnot_pool_nchw_f32* p, const row_window* win) {
  const int64_t plane = p->rank > 1 ? p->axes[0].in * win->steps[0] : p->axes[p->rank - 1].in;
  int64_t at = win->plane * plane;
  for (int d = 0; d < p->rank - 1; ++d) at += win->begin[d] * win->steps[d];
  return p->src + at;
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
CARNOT_INLINE void join_lines_of(const float* src, const int64_t* offsets, int64_t count,
                                 int64_t width, bool max, bool first, float* line) {
  const int64_t wide = kVectors * V_LANES;
  int64_t i = 0;
  for (; i + wide <= width; i += wide) {
    join_vectors(src + i, offsets, count, kVectors, V_LANES, max, first, line + i);
  }
  for (; i + V_LANES <= width; i += V_LANES) {
    join_vectors(src + i, offsets, count, 1, V_LANES, max, first, line + i);
  }
  if (i < width) join_vectors(src + i, offsets, count, 1, width - i, max, first, line + i);
}

CARNOT_INLINE void join_lines(const float* src, const int64_t* offsets, int64_t count,
                              int64_t width, bool max, bool first, float* line) {
  if (first && count == 3) {
    join_lines_of(src, offsets, 3, width, max, true, line);
  } else if (first && count == 2) {
    join_lines_of(src, offsets, 2, width, max, true, line);
  } else {
    join_lines_of(src, offsets, count, width, max, first, line);
  }
}

// The |rows| rows of the window as one.
CARNOT_INLINE void join_rows(const carnot_pool_nchw_f32* p, const row_window* win, int64_t rows,
                             bool max, float* line) {
  const int64_t width = p->axes[p->rank - 1].in;
  const float* src = first_row(p, win);
  int64_t tap[CARNOT_POOL_NCHW_RANK] = {0}, offsets[kRows], at = 0;
  bool first = true;
  for (int64_t i = 0, ready = 0; i < rows; ++i) {
    offsets[ready++] = at;
    if (ready == kRows || i + 1 == rows) {
      join_lines(src, offsets, ready, width, max, first, line);
      ready = 0, first = false;
    }
    for (int d = p->rank - 2; d >= 0; --d) {
      const int64_t step = p->axes[d].dilation * win->steps[d];
      at += step;
      if (++tap[d] < win->taps[d]) break;
      at -= tap[d] * step;
      tap[d] = 0;
    }
  }
}

// V_LANES results from |x| on, the first tap of the first of them. |stride| is 1 or 2, a constant.
CARNOT_INLINE vf32 join_taps(const float* x, int64_t kernel, int64_t dilation, int stride,
                             bool max) {
  vf32 acc = v_zero();
  for (int64_t s = 0; s < kernel; ++s, x += dilation) {
    const vf32 tap = stride == 1 ? v_load(x) : v_even(v_load(x), v_load(x + V_LANES));
    acc = s == 0 ? tap : joined(acc, tap, max);
  }
  return acc;
}

CARNOT_INLINE void join_columns_of(const carnot_pool_axis* a, const float* x, int64_t kernel,
                                   int stride, bool max, const float* factors, float* dst) {
  const int64_t dilation = a->dilation, out = a->out;
  int64_t q = 0;
  for (; q + V_LANES <= out; q += V_LANES) {
    const vf32 y = join_taps(x + q * stride, kernel, dilation, stride, max);
    v_store(dst + q, max ? y : v_mul(y, v_load(factors + q)));
  }
  if (q == out) return;
  const vf32 y = join_taps(x + q * stride, kernel, dilation, stride, max);
  v_store_n(dst + q, max ? y : v_mul(y, v_load_n(factors + q, out - q)), out - q);
}

CARNOT_INLINE void join_columns_by(const carnot_pool_axis* a, const float* x, int stride, bool max,
                                   const float* factors, float* dst) {
  switch (a->kernel) {
    case 2: join_columns_of(a, x, 2, stride, max, factors, dst); break;
    case 3: join_columns_of(a, x, 3, stride, max, factors, dst); break;
    default: join_columns_of(a, x, a->kernel, stride, max, factors, dst);
  }
}

// |x|: the first tap of the first result.
CARNOT_INLINE void join_columns(const carnot_pool_axis* a, const float* x, bool max,
                                const float* factors, float* dst) {
  if (a->stride == 1) {
    join_columns_by(a, x, 1, max, factors, dst);
  } else if (a->stride == 2) {
    join_columns_by(a, x, 2, max, factors, dst);
  } else {
    for (int64_t q = 0; q < a->out; ++q, x += a->stride) {
      float y = x[0];
      for (int64_t s = 1; s < a->kernel; ++s) {
        const float tap = x[s * a->dilation];
        y = max ? max_nan(y, tap) : y + tap;
      }
      dst[q] = max ? y : y * factors[q];
    }
  }
}

// Behind the lines: a count for each result of a row, then a factor.
CARNOT_INLINE float* counts_of(const carnot_pool_axis* last, float* lines) {
  return lines + CARNOT_POOL_NCHW_LINES * carnot_pool_nchw_line_width(last);
}

// The columns that an average counts.
static void set_counts(const carnot_pool_nchw_f32* p, float* counts) {
  const carnot_pool_axis* a = &p->axes[p->rank - 1];
  for (int64_t q = 0; q < a->out; ++q) {
    const int64_t start = q * a->stride - a->pad;
    const window_taps taps = window_inside(start, a->kernel, a->dilation, a->in);
    counts[q] = (float)(p->include_padding ? axis_padded_taps(a, start) : taps.end - taps.begin);
  }
}

// What an average over |rows| rows is multiplied by: 1 / the number of taps that it counts, 0 of
// none.
CARNOT_INLINE void set_factors(const float* counts, int64_t out, int64_t rows, float* factors) {
  for (int64_t q = 0; q < out; ++q) {
    const float count = (float)rows * counts[q];
    factors[q] = count > 0 ? 1 / count : 0;
  }
}

// The rows under |count| rows of the results are joined to lines first, and columns then: what was
// just written could not be read at once, since reads span what two writes wrote.
CARNOT_INLINE void pool_few_rows(const carnot_pool_nchw_f32* p, row_window* win, int64_t row,
                                 int64_t count, float* lines, int64_t* divisor, bool max) {
  const carnot_pool_axis* last = &p->axes[p->rank - 1];
  const int64_t left = carnot_pool_nchw_line_left(last), width = carnot_pool_nchw_line_width(last);
  float *counts = counts_of(last, lines), *factors = counts + last->out;
  int64_t rows[CARNOT_POOL_NCHW_LINES], counted[CARNOT_POOL_NCHW_LINES];
  for (int64_t i = 0; i < count; ++i, go_to_next_row(p, win)) {
    rows[i] = window_rows(p, win);
    counted[i] = counted_rows(p, win);
    if (rows[i] > 0) join_rows(p, win, rows[i], max, lines + i * width + left);
  }
  for (int64_t i = 0; i < count; ++i) {
    float* dst = p->dst + (row + i) * last->out;
    if (!max && counted[i] != *divisor) {
      *divisor = counted[i];
      set_factors(counts, last->out, counted[i], factors);
    }
    if (rows[i] > 0) {
      join_columns(last, lines + i * width + left - last->pad, max, factors, dst);
    } else {
      for (int64_t q = 0; q < last->out; ++q) dst[q] = max ? -INFINITY : 0;
    }
  }
}

CARNOT_INLINE void pool_nchw(const carnot_pool_nchw_f32* p, int64_t row0, int64_t row1,
                             float* lines, bool max) {
  const carnot_pool_axis* last = &p->axes[p->rank - 1];
  const int64_t left = carnot_pool_nchw_line_left(last), width = carnot_pool_nchw_line_width(last);
  for (int64_t i = 0; i < CARNOT_POOL_NCHW_LINES; ++i) {
    float* line = lines + i * width;
    for (int64_t j = 0; j < left; ++j) line[j] = max ? -INFINITY : 0;
    for (int64_t j = left + last->in; j < width; ++j) line[j] = max ? -INFINITY : 0;
  }
  if (!max) set_counts(p, counts_of(last, lines));
  row_window win = {.plane = 0};
  go_to_row(p, &win, row0);
  const int64_t together = max_i64(1, min_i64(CARNOT_POOL_NCHW_LINES, kLineFloats / width));
  int64_t divisor = -1;
  for (int64_t row = row0; row < row1; row += together) {
    pool_few_rows(p, &win, row, min_i64(together, row1 - row), lines, &divisor, max);
  }
}

void CARNOT_KERNEL(max_pool_nchw_f32)(const carnot_pool_nchw_f32* p, int64_t row0, int64_t row1,
                                      float* lines) {
  pool_nchw(p, row0, row1, lines, /*max=*/true);
}

void CARNOT_KERNEL(average_pool_nchw_f32)(const carnot_pool_nchw_f32* p, int64_t row0, int64_t row1,
                                          float* lines) {
  pool_nchw(p, row0, row1, lines, /*max=*/false);
}
