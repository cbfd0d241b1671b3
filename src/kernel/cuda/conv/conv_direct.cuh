// Direct convolution over any strides and groups: one thread per output element.
#pragma once

#include "kernel/cuda/common/sliding_window.cuh"

// Weights [filters, channels / groups, kernel…], dense.
template <class T>
DEVICE void conv_direct(const carnot_cuda_sliding_window& p) {
  window_position at;
  if (!locate(p, THREAD, &at)) return;
  i64 per_group = p.channels / p.groups, group = at.c / (p.filters / p.groups);
  i64 taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  const T* x = (const T*)p.x + at.n * p.x_n + group * per_group * p.x_c;
  const T* w = (const T*)p.w + at.c * per_group * taps;
  ACCUMULATOR sum = p.bias ? get<T>(p.bias, at.c) : 0;
  for (i64 a = 0; a < p.kernel[0]; a++) {
    i64 i0 = at.s[0] * p.step[0] + a * p.dilation[0] - p.begin[0];
    if (i0 < 0 || i0 >= p.in[0]) continue;
    for (i64 b = 0; b < p.kernel[1]; b++) {
      i64 i1 = at.s[1] * p.step[1] + b * p.dilation[1] - p.begin[1];
      if (i1 < 0 || i1 >= p.in[1]) continue;
      for (i64 c = 0; c < p.kernel[2]; c++) {
        i64 i2 = at.s[2] * p.step[2] + c * p.dilation[2] - p.begin[2];
        if (i2 < 0 || i2 >= p.in[2]) continue;
        const T* px = x + i0 * p.x_s[0] + i1 * p.x_s[1] + i2 * p.x_s[2];
        const T* pw = w + (a * p.kernel[1] + b) * p.kernel[2] + c;
        for (i64 k = 0; k < per_group; k++)
          sum =
              multiply_add((ACCUMULATOR)load(px[k * p.x_c]), (ACCUMULATOR)load(pw[k * taps]), sum);
      }
    }
  }
  put<T>(p.y, target(p, at), sum);
}
