// GridSample by nearest, linear and cubic interpolation (generic kernel).
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/resample/resample_params.h"

// |at| mirrored at the borders until it lies between them.
DEVICE f64 reflect(f64 at, f64 low, f64 high) {
  f64 range = high - low;
  if (range <= 0) return low;
  if (at >= low && at <= high) return at;
  f64 over = at < low ? low - at : at - high, turns = floor(over / range);
  f64 rest = over - turns * range;
  bool from_near = fmod(turns, 2.0) == 0;
  return (at < low) == from_near ? low + rest : high - rest;
}

// A grid coordinate as a position in a dimension of |size|.
DEVICE f64 sample_place(const carnot_cuda_grid_sample_params& p, f64 n, i64 size, f64 low,
                        f64 high) {
  f64 at;
  if (p.io.in_type[1] == CARNOT_CUDA_F64) {
    at = p.align_corners ? (n + 1) / 2 * (f64)(size - 1) : ((n + 1) * (f64)size - 1) / 2;
  } else {
    f32 f = (f32)n + 1;
    at = p.align_corners ? f / 2 * (f32)(size - 1) : (f * (f32)size - 1) / 2;
  }
  if (p.taps == 1) at = rint(at);
  if (!(at < low || at > high)) return at;
  if (p.padding == 1) return at < 0 ? 0 : (f64)size - 1;
  return p.padding == 2 ? reflect(at, low, high) : at;
}

DEVICE f64 sample_weight(int taps, f64 distance) {
  const f64 a = -0.75;
  f64 d = fabs(distance);
  if (taps < 4) return taps == 1 ? 1 : 1 - d;
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

DEVICE void grid_sample(const carnot_cuda_grid_sample_params& p, i64 i) {
  i64 place = i % p.out_size, plane = i / p.out_size, total = 1;
  i64 point = (plane / p.channels * p.out_size + place) * p.rank;
  f64 at[3], low[3], high[3];
  for (int d = 0; d < p.rank; d++) {
    low[d] = p.align_corners ? 0 : -0.5;
    high[d] = (f64)p.in[d] - (p.align_corners ? 1 : 0.5);
    f64 n = real_of(p.io.in_type[1], p.io.in[1], point + p.rank - 1 - d);
    at[d] = sample_place(p, n, p.in[d], low[d], high[d]);
    total *= p.taps;
  }
  f64 sum = 0;
  for (i64 t = 0; t < total; t++) {
    f64 weight = 1;
    i64 offset = 0, rest = t;
    bool inside = true;
    for (int d = 0; d < p.rank; d++) {
      f64 k = p.taps == 1 ? at[d] : floor(at[d]) + (f64)(rest % p.taps - p.before), from = k;
      rest /= p.taps;
      weight *= sample_weight(p.taps, at[d] - k);
      if (p.padding == 1) from = fmin(fmax(k, 0.0), (f64)p.in[d] - 1);
      if (p.padding == 2) from = trunc(reflect(k, low[d], high[d]));
      bool in = from >= 0 && from < (f64)p.in[d];
      inside = inside && in;
      offset = offset * p.in[d] + (in ? (i64)from : 0);
    }
    if (inside) sum += weight * real_of(p.io.in_type[0], p.io.in[0], plane * p.in_size + offset);
  }
  store_any(p.io.out_type[0], p.io.out[0], i, sum);
}
