// Resize by nearest, linear and cubic interpolation (generic kernels): one element of any rank a
// thread, or eight channels of a pixel.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/resample/resample_params.h"

enum { HALF_PIXEL, PYTORCH_HALF_PIXEL, ASYMMETRIC, ALIGN_CORNERS, HALF_PIXEL_SYMMETRIC, CROP };
enum { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, FLOOR, CEIL };

// As carnot_resize_place (ops).
DEVICE f64 resize_place(const carnot_cuda_resize_params& p, int d, i64 o, bool* outside) {
  f64 at = (f64)o, in = (f64)p.in[d], scale = p.scale[d], width = scale * in;
  *outside = false;
  if (p.place == ASYMMETRIC) return at / scale;
  if (p.place == ALIGN_CORNERS) return width == 1 ? 0 : at * (in - 1) / (width - 1);
  if (p.place == CROP) {
    f64 size = p.roi_end[d] - p.roi_start[d];
    f64 place = width == 1 ? size * (in - 1) / 2 : at * size * (in - 1) / (width - 1);
    place += p.roi_start[d] * (in - 1);
    *outside = place < 0 || place > in - 1;
    return place;
  }
  if (p.place == PYTORCH_HALF_PIXEL && p.out[d] <= 1) return 0;
  f64 half = (at + 0.5) / scale - 0.5;
  return p.place == HALF_PIXEL_SYMMETRIC ? half + in / 2 * (1 - (f64)p.out[d] / width) : half;
}

DEVICE f64 resize_weight(const carnot_cuda_resize_params& p, f64 distance) {
  f64 d = fabs(distance), a = p.coefficient;
  if (!p.cubic) return d < 1 ? 1 - d : 0;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

// The taps of one output element along one axis.
struct taps {
  i64 first, count;
  f64 at, shrink, total;
};

DEVICE taps taps_of(const carnot_cuda_resize_params& p, int d, i64 o, bool* outside) {
  taps t = {o, 1, 0, 1, 1};
  *outside = false;
  bool whole = p.roi_start[d] == 0 && p.roi_end[d] == 1;
  if (p.scale[d] == 1 && p.in[d] == p.out[d] && whole) return t;
  f64 at = fmin(fmax(resize_place(p, d, o, outside), -1e15), 1e15);
  t.at = at;
  if (!p.radius) {
    f64 low = floor(at), part = at - low;
    bool up = part != 0 && (p.nearest == CEIL || (p.nearest == ROUND_PREFER_FLOOR && part > 0.5) ||
                            (p.nearest == ROUND_PREFER_CEIL && part >= 0.5));
    t.first = (i64)low + up;
    return t;
  }
  t.shrink = p.antialias && p.scale[d] < 1 ? p.scale[d] : 1;
  i64 radius = (i64)ceil((f64)p.radius / t.shrink);
  t.first = (i64)ceil(at) - radius;
  t.count = 2 * radius;
  f64 sum = 0, inside = 0;
  for (i64 k = 0; k < t.count; k++) {
    f64 w = resize_weight(p, ((f64)(t.first + k) - at) * t.shrink);
    sum += w;
    if (t.first + k >= 0 && t.first + k < p.in[d]) inside += w;
  }
  t.total = p.exclude_outside ? inside : t.shrink < 1 ? sum : 1;
  return t;
}

DEVICE f64 tap_weight(const carnot_cuda_resize_params& p, int d, const taps& t, i64 k) {
  if (t.count == 1) return 1;
  bool out = t.first + k < 0 || t.first + k >= p.in[d];
  if ((p.exclude_outside && out) || t.total == 0) return 0;
  return resize_weight(p, ((f64)(t.first + k) - t.at) * t.shrink) / t.total;
}

DEVICE void resize(const carnot_cuda_resize_params& p, i64 i) {
  taps t[CARNOT_CUDA_RANK];
  i64 rest = i, count = 1;
  bool any_outside = false, outside;
  for (int d = p.rank - 1; d >= 0; d--) {
    t[d] = taps_of(p, d, rest % p.out[d], &outside);
    any_outside = any_outside || outside;
    rest /= p.out[d];
    count *= t[d].count;
  }
  f64 sum = any_outside ? p.extrapolation : 0;
  for (i64 n = 0; !any_outside && n < count; n++) {
    i64 left = n, from = 0, stride = 1;
    f64 w = 1;
    for (int d = p.rank - 1; d >= 0; d--) {
      i64 k = left % t[d].count, at = t[d].first + k;
      left /= t[d].count;
      w *= tap_weight(p, d, t[d], k);
      at = at < 0 ? 0 : at >= p.in[d] ? p.in[d] - 1 : at;
      from += at * stride;
      stride *= p.in[d];
    }
    if (w != 0 || count == 1) sum += w * real_of(p.io.in_type[0], p.io.in[0], from);
  }
  store_any(p.io.out_type[0], p.io.out[0], i, sum);
}

// The element of axis |d| that tap |k| reads.
DEVICE i64 tap_at(const carnot_cuda_resize_params& p, int d, const taps& t, i64 k) {
  i64 at = t.first + k;
  return at < 0 ? 0 : at >= p.in[d] ? p.in[d] - 1 : at;
}

template <class T>
DEVICE void resize_eight(const carnot_cuda_resize_params& p, const taps& rows, const taps& columns,
                         const half8* x, i64 chunks, f32* sum) {
  for (i64 r = 0; r < rows.count; r++) {
    f64 weight = tap_weight(p, 2, rows, r);
    const half8* row = x + tap_at(p, 2, rows, r) * p.in[3] * chunks;
    for (i64 c = 0; c < columns.count; c++) {
      f32 v[8], w = (f32)(weight * tap_weight(p, 3, columns, c));
      unpack<T>(row[tap_at(p, 3, columns, c) * chunks], v);
      for (int e = 0; e < 8; e++) sum[e] += w != 0 ? w * v[e] : 0.f;
    }
  }
}

// The one or two elements of axis |d| that an output is made of, and their weights.
struct line {
  int at[2];
  f64 weight[2];
  bool outside;
};
DEVICE int within(i64 at, i64 size) { return (int)(at < 0 ? 0 : at >= size ? size - 1 : at); }
DEVICE line line_of(const carnot_cuda_resize_params& p, int d, int o) {
  line r;
  if (!p.radius) {
    const taps t = taps_of(p, d, o, &r.outside);
    r.at[0] = r.at[1] = within(t.first, p.in[d]);
    r.weight[0] = 1, r.weight[1] = 0;
    return r;
  }
  const bool whole = p.roi_start[d] == 0 && p.roi_end[d] == 1;
  r.outside = false;
  f64 at = o;
  if (p.scale[d] != 1 || p.in[d] != p.out[d] || !whole)
    at = fmin(fmax(resize_place(p, d, o, &r.outside), -1e15), 1e15);
  const i64 first = (i64)ceil(at) - 1;
  r.weight[1] = fmax(0., 1 - fabs((f64)(first + 1) - at)), r.weight[0] = 1 - r.weight[1];
  for (int k = 0; k < 2; k++) {
    if (p.exclude_outside && (first + k < 0 || first + k >= p.in[d])) r.weight[k] = 0;
    r.at[k] = within(first + k, p.in[d]);
  }
  const f64 total = r.weight[0] + r.weight[1];
  if (p.exclude_outside && total != 0) r.weight[0] /= total, r.weight[1] /= total;
  return r;
}
template <class T>
DEVICE void resize_two(const line& row, const line& column, const half8* x, int columns, int chunks,
                       f32* sum) {
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const f32 w = (f32)(row.weight[k / 2] * column.weight[k % 2]);
    f32 v[8];
    if (w == 0) continue;
    unpack<T>(x[((i64)row.at[k / 2] * columns + column.at[k % 2]) * chunks], v);
    for (int e = 0; e < 8; e++) sum[e] += w * v[e];
  }
}
// How a kernel reads and writes elements: 16-bit floats with float32 sums, or any type with
// float64.
template <class T>
struct plane_halves {
  typedef f32 sum;
  static DEVICE_ONLY f32 read(const carnot_cuda_resize_params& p, i64 at) {
    return load(((const T*)p.io.in[0])[at]);
  }
  static DEVICE_ONLY void write(const carnot_cuda_resize_params& p, i64 at, f32 v) {
    ((T*)p.io.out[0])[at] = store_as<T>::of(v);
  }
};
struct plane_any {
  typedef f64 sum;
  static DEVICE_ONLY f64 read(const carnot_cuda_resize_params& p, i64 at) {
    return real_of(p.io.in_type[0], p.io.in[0], at);
  }
  static DEVICE_ONLY void write(const carnot_cuda_resize_params& p, i64 at, f64 v) {
    store_any(p.io.out_type[0], p.io.out[0], at, v);
  }
};

// Planes in row-major order, one element a thread, some rows; the last two axes change.
template <class E>
DEVICE void resize_planes_as(const carnot_cuda_resize_params& p, i64 item) {
  enum { ROWS = CARNOT_CUDA_RESIZE_ROWS };
  const int d = p.rank - 2;
  const u32 columns = (u32)p.out[d + 1], rows = (u32)p.out[d], groups = (rows + ROWS - 1) / ROWS,
            at = (u32)item / columns, column = (u32)item - at * columns, plane = at / groups,
            first = (at - plane * groups) * ROWS;
  const line across = line_of(p, d + 1, (int)column);
  const i64 from = plane * p.in[d] * p.in[d + 1];
#pragma unroll 1
  for (u32 row = first; row < first + ROWS && row < rows; row++) {
    const line down = line_of(p, d, (int)row);
    typename E::sum sum = 0;
#pragma unroll
    for (int k = 0; k < 4; k++) {
      const auto w = (typename E::sum)(down.weight[k / 2] * across.weight[k % 2]);
      const i64 place = from + (i64)down.at[k / 2] * p.in[d + 1] + across.at[k % 2];
      if (w != 0) sum += w * E::read(p, place);
    }
    if (down.outside || across.outside) sum = (typename E::sum)p.extrapolation;
    E::write(p, ((i64)plane * rows + row) * columns + column, sum);
  }
}
DEVICE void resize_planes(const carnot_cuda_resize_params& p, i64 item) {
  if (p.io.in_type[0] == CARNOT_CUDA_F16)
    resize_planes_as<plane_halves<f16>>(p, item);
  else if (p.io.in_type[0] == CARNOT_CUDA_BF16)
    resize_planes_as<plane_halves<bf16>>(p, item);
  else
    resize_planes_as<plane_any>(p, item);
}

// Channels-last pictures, as above, for nearest and linear interpolation without antialiasing, some
// rows a thread.
DEVICE void resize_nhwc_rows(const carnot_cuda_resize_params& p, i64 item) {
  enum { ROWS = CARNOT_CUDA_RESIZE_ROWS };
  const u32 chunks = (u32)p.in[1] / 8, columns = (u32)p.out[3], rows = (u32)p.out[2],
            groups = (rows + ROWS - 1) / ROWS;
  const u32 at = (u32)item / chunks, chunk = (u32)item - at * chunks, line_at = at / columns,
            column = at - line_at * columns, image = line_at / groups,
            first = (line_at - image * groups) * ROWS;
  const line across = line_of(p, 3, (int)column);
  const half8* x = (const half8*)p.io.in[0] + image * p.in[2] * p.in[3] * chunks + chunk;
#pragma unroll 1
  for (u32 row = first; row < first + ROWS && row < rows; row++) {
    const line down = line_of(p, 2, (int)row);
    const i64 to = (((i64)image * rows + row) * columns + column) * chunks + chunk;
    const bool outside = down.outside || across.outside;
    f32 sum[8];
    for (int e = 0; e < 8; e++) sum[e] = outside ? (f32)p.extrapolation : 0.f;
    if (!outside && !p.radius)
      ((half8*)p.io.out[0])[to] = x[((i64)down.at[0] * p.in[3] + across.at[0]) * chunks];
    else if (p.io.in_type[0] == CARNOT_CUDA_F16) {
      if (!outside) resize_two<f16>(down, across, x, (int)p.in[3], (int)chunks, sum);
      pack<f16>(p.io.out[0], to, sum);
    } else {
      if (!outside) resize_two<bf16>(down, across, x, (int)p.in[3], (int)chunks, sum);
      pack<bf16>(p.io.out[0], to, sum);
    }
  }
}

// Channels-last pictures of 16-bit floats [n, c, rows, columns], c a multiple of eight.
DEVICE void resize_nhwc(const carnot_cuda_resize_params& p, i64 item) {
  const i64 chunks = p.in[1] / 8;
  u64 i = (u64)item;
  const i64 chunk = (i64)(i % (u64)chunks), column = (i64)((i /= (u64)chunks) % (u64)p.out[3]),
            row = (i64)((i /= (u64)p.out[3]) % (u64)p.out[2]), image = (i64)(i / (u64)p.out[2]);
  bool outside[2];
  const taps rows = taps_of(p, 2, row, &outside[0]), columns = taps_of(p, 3, column, &outside[1]);
  const half8* x = (const half8*)p.io.in[0] + image * p.in[2] * p.in[3] * chunks + chunk;
  const bool any_outside = outside[0] || outside[1];
  if (rows.count == 1 && columns.count == 1 && !any_outside) {
    ((half8*)p.io.out[0])[item] =
        x[(tap_at(p, 2, rows, 0) * p.in[3] + tap_at(p, 3, columns, 0)) * chunks];
    return;
  }
  f32 sum[8];
  for (int e = 0; e < 8; e++) sum[e] = any_outside ? (f32)p.extrapolation : 0.f;
  if (p.io.in_type[0] == CARNOT_CUDA_F16) {
    if (!any_outside) resize_eight<f16>(p, rows, columns, x, chunks, sum);
    pack<f16>(p.io.out[0], item, sum);
  } else {
    if (!any_outside) resize_eight<bf16>(p, rows, columns, x, chunks, sum);
    pack<bf16>(p.io.out[0], item, sum);
  }
}
