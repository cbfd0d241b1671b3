// ConvTranspose (generic kernel).
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/conv/conv_transpose_params.h"
#include "kernel/cuda/conv/window_index.cuh"

DEVICE void conv_transpose(const carnot_cuda_conv_transpose_params& p, i64 i) {
  i64 o[3], rest = i;
  for (int d = 2; d >= 0; d--) {
    o[d] = rest % p.out[d] + p.begin[d];
    rest /= p.out[d];
  }
  i64 filter = rest % p.filters, image = rest / p.filters;
  i64 filters = p.filters / p.groups, channels = p.channels / p.groups;
  i64 first = filter / filters * channels, size = p.in[0] * p.in[1] * p.in[2];
  i64 taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  f64 sum = p.io.in[2] ? real_of(p.io.in_type[2], p.io.in[2], filter) : 0;
  for (i64 tap = 0; tap < taps; tap++) {
    i64 at = window_index(p, p.in, o, tap);
    for (i64 c = first; at >= 0 && c < first + channels; c++)
      sum += real_of(p.io.in_type[0], p.io.in[0], (image * p.channels + c) * size + at) *
             real_of(p.io.in_type[1], p.io.in[1], (c * filters + filter % filters) * taps + tap);
  }
  store_any(p.io.out_type[0], p.io.out[0], i, sum);
}
