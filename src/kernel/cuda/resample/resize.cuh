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
