// DeformConv (generic kernel); formula as in ops/deform_conv.c.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/conv/deform_conv_params.h"

// x at |at| by linear interpolation between its neighbours; 0 outside.
DEVICE f64 sample_linear(const carnot_cuda_generic_io& io, i64 plane, const i64* in,
                         const f64* at) {
  f64 sum = 0;
  for (int corner = 0; corner < 8; corner++) {
    f64 weight = 1;
    i64 offset = 0;
    for (int d = 0; d < 3 && weight != 0; d++) {
      f64 low = floor(at[d]), part = at[d] - low, i = low + (f64)(corner >> d & 1);
      weight *= corner >> d & 1 ? part : 1 - part;
      if (!(i >= 0 && i < (f64)in[d])) weight = 0;
      if (weight != 0) offset = offset * in[d] + (i64)i;
    }
    if (weight != 0) sum += weight * real_of(io.in_type[0], io.in[0], plane + offset);
  }
  return sum;
}

DEVICE void deform_conv(const carnot_cuda_deform_conv_params& p, i64 item) {
  const carnot_cuda_generic_io& io = p.io;
  i64 size = p.out[0] * p.out[1] * p.out[2], pixel = item % size, m = item / size % p.filters,
      n = item / size / p.filters;
  i64 taps = p.kernel[0] * p.kernel[1] * p.kernel[2], channels = p.channels / p.groups, o[3],
      rest = pixel;
  for (int d = 2; d >= 0; d--) o[d] = rest % p.out[d] * p.step[d] - p.begin[d], rest /= p.out[d];
  f64 sum = io.in[3] ? real_of(io.in_type[3], io.in[3], m) : 0;
  for (i64 k = 0; k < channels * taps; k++) {
    i64 c = m / (p.filters / p.groups) * channels + k / taps, left = k % taps;
    i64 offset_row = (n * p.offset_groups + c / (p.channels / p.offset_groups)) * taps + left;
    f64 at[3];
    for (int d = 2; d >= 0; d--) {
      int axis = d - (3 - p.rank);
      at[d] = (f64)(o[d] + left % p.kernel[d] * p.dilation[d]);
      if (axis >= 0)
        at[d] += real_of(io.in_type[2], io.in[2], (offset_row * p.rank + axis) * size + pixel);
      left /= p.kernel[d];
    }
    f64 v = sample_linear(io, (n * p.channels + c) * p.in[0] * p.in[1] * p.in[2], p.in, at);
    if (io.in[4]) v *= real_of(io.in_type[4], io.in[4], offset_row * size + pixel);
    sum += v * real_of(io.in_type[1], io.in[1], m * channels * taps + k);
  }
  store_any(io.out_type[0], io.out[0], item, sum);
}
