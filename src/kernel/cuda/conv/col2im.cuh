// Col2Im (generic kernel); formula as in ops/col2im.c.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/conv/deform_conv_params.h"
#include "kernel/cuda/conv/window_index.cuh"

// |out|: the positions of blocks; |in|: the image, whose elements are the items.
DEVICE void col2im(const carnot_cuda_deform_conv_params& p, i64 item) {
  i64 taps = p.kernel[0] * p.kernel[1] * p.kernel[2], windows = p.out[0] * p.out[1] * p.out[2],
      o[3], rest = item;
  for (int d = 2; d >= 0; d--) o[d] = rest % p.in[d] + p.begin[d], rest /= p.in[d];
  f64 sum = 0;
  for (i64 tap = 0; tap < taps; tap++) {
    i64 at = window_index(p, p.out, o, tap);
    if (at >= 0) sum += real_of(p.io.in_type[0], p.io.in[0], (rest * taps + tap) * windows + at);
  }
  store_any(p.io.out_type[0], p.io.out[0], item, sum);
}
