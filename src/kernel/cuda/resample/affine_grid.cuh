// AffineGrid (generic kernel); formula as in ops/grid_sample.c.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/conv/deform_conv_params.h"

DEVICE void affine_grid(const carnot_cuda_deform_conv_params& p, i64 item) {
  i64 j = item % p.rank, rest = item / p.rank;
  f64 v[4] = {0, 0, 0, 0};
  for (int d = 2; d >= 3 - p.rank; d--) {  // the last dimension is the first coordinate
    f64 size = (f64)p.out[d], at = (f64)(rest % p.out[d]);
    rest /= p.out[d];
    v[2 - d] = p.align_corners ? (size > 1 ? 2 * at / (size - 1) - 1 : 0) : (2 * at + 1) / size - 1;
  }
  v[p.rank] = 1;
  f64 sum = 0;
  for (int k = 0; k <= p.rank; k++)
    sum += real_of(p.io.in_type[0], p.io.in[0], (rest * p.rank + j) * (p.rank + 1) + k) * v[k];
  store_any(p.io.out_type[0], p.io.out[0], item, sum);
}
