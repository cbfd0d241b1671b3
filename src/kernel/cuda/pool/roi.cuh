// RoiAlign and MaxRoiPool (generic kernels); formulas as in ops/roi.c.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/pool/roi_params.h"

DEVICE i64 position(f64 v) { return (i64)fmin(fmax(v, -1e15), 1e15); }
DEVICE i64 bounded(i64 v, i64 low, i64 high) { return v < low ? low : v > high ? high : v; }

// The two neighbours of a coordinate and its distance from the first; false outside of the
// map.
DEVICE bool neighbours(f64 at, i64 size, i64* low, i64* high, f64* part) {
  if (!(at >= -1 && at <= (f64)size)) return false;
  at = fmax(at, 0.0);
  *low = (i64)at;
  *high = *low + 1;
  if (*low >= size - 1) *low = *high = size - 1, at = (f64)*low;
  *part = at - (f64)*low;
  return true;
}

// The four weighted neighbours of a point: their sum or their maximum.
DEVICE f64 roi_point(const carnot_cuda_roi_params& p, i64 plane, f64 y, f64 x) {
  i64 y0, y1, x0, x1;
  f64 fy, fx;
  if (!neighbours(y, p.height, &y0, &y1, &fy) || !neighbours(x, p.width, &x0, &x1, &fx)) return 0;
  const void* in = p.io.in[0];
  int type = p.io.in_type[0];
  f64 a = (1 - fy) * (1 - fx) * real_of(type, in, plane + y0 * p.width + x0);
  f64 b = (1 - fy) * fx * real_of(type, in, plane + y0 * p.width + x1);
  f64 c = fy * (1 - fx) * real_of(type, in, plane + y1 * p.width + x0);
  f64 d = fy * fx * real_of(type, in, plane + y1 * p.width + x1);
  return p.mean ? a + b + c + d : hi(d, hi(c, hi(b, a)));
}

// Points along one side of a cell.
DEVICE i64 points_across(const carnot_cuda_roi_params& p, f64 cell) {
  return bounded(p.sampling > 0 ? p.sampling : position(ceil(cell)), 0, 1 << 15);
}

DEVICE f64 roi_number(const carnot_cuda_roi_params& p, i64 i) {
  return real_of(p.io.in_type[1], p.io.in[1], i);
}

DEVICE void roi_align(const carnot_cuda_roi_params& p, i64 item) {
  i64 j = item % p.columns, i = item / p.columns % p.rows, part = item / p.columns / p.rows,
      region = part / p.channels;
  i64 image = whole_of(p.io.in_type[2], p.io.in[2], region);
  i64 plane = (image * p.channels + part % p.channels) * p.height * p.width;
  f64 left = roi_number(p, region * 4) * p.scale - p.shift,
      top = roi_number(p, region * 4 + 1) * p.scale - p.shift;
  f64 wide = roi_number(p, region * 4 + 2) * p.scale - p.shift - left;
  f64 tall = roi_number(p, region * 4 + 3) * p.scale - p.shift - top;
  if (p.shift == 0) wide = fmax(wide, 1.0), tall = fmax(tall, 1.0);
  f64 cell_h = tall / (f64)p.rows, cell_w = wide / (f64)p.columns, sum = 0, best = 0;
  i64 down = points_across(p, cell_h), across = points_across(p, cell_w), points = down * across;
  if (image < 0 || image >= p.images) points = 0;
  for (i64 k = 0; k < points; k++) {
    f64 y = top + (f64)i * cell_h + ((f64)(k / across) + 0.5) * cell_h / (f64)down;
    f64 x = left + (f64)j * cell_w + ((f64)(k % across) + 0.5) * cell_w / (f64)across;
    f64 v = roi_point(p, plane, y, x);
    sum += v;
    best = k ? hi(v, best) : v;
  }
  store_any(p.io.out_type[0], p.io.out[0], item, p.mean ? sum / (f64)(points ? points : 1) : best);
}

// Where cell |i| of |cells| begins and ends along a dimension of |size|.
DEVICE void cell_range(f64 first, f64 last, i64 i, i64 cells, i64 size, i64* from, i64* to) {
  i64 start = position(round(first)), length = position(round(last)) - start + 1;
  f64 each = (f64)(length < 1 ? 1 : length) / (f64)cells;
  *from = bounded(start + position(floor((f64)i * each)), 0, size);
  *to = bounded(start + position(ceil((f64)(i + 1) * each)), 0, size);
}

DEVICE void max_roi_pool(const carnot_cuda_roi_params& p, i64 item) {
  i64 j = item % p.columns, i = item / p.columns % p.rows, part = item / p.columns / p.rows;
  i64 at = part / p.channels * 5, image = position(roi_number(p, at)), y0, y1, x0, x1;
  i64 plane = (image * p.channels + part % p.channels) * p.height * p.width;
  cell_range(roi_number(p, at + 2) * p.scale, roi_number(p, at + 4) * p.scale, i, p.rows, p.height,
             &y0, &y1);
  cell_range(roi_number(p, at + 1) * p.scale, roi_number(p, at + 3) * p.scale, j, p.columns,
             p.width, &x0, &x1);
  bool none = image < 0 || image >= p.images || y0 >= y1 || x0 >= x1;
  f64 best = none ? 0 : limits_of<f64>::low();
  for (i64 y = y0; !none && y < y1; y++)
    for (i64 x = x0; x < x1; x++)
      best = hi(real_of(p.io.in_type[0], p.io.in[0], plane + y * p.width + x), best);
  store_any(p.io.out_type[0], p.io.out[0], item, best);
}
