// MaxUnpool (generic kernel); formula as in ops/unpool.c.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/pool/roi_params.h"

// One thread per plane, so that equal indices are applied in order. The output is zeroed before.
DEVICE void max_unpool(const carnot_cuda_max_unpool_params& p, i64 item) {
  for (i64 i = item * p.size; i < (item + 1) * p.size; i++) {
    i64 index = whole_of(p.io.in_type[1], p.io.in[1], i), rest = index, to = 0, stride = 1;
    bool inside = index >= 0;
    for (int d = p.rank - 1; d >= 0; d--) {
      i64 here = rest % p.inner[d];
      rest /= p.inner[d];
      inside = inside && here < p.dims[d];
      to += here * stride;
      stride *= p.dims[d];
    }
    if (inside && rest == 0) move(p.io.bytes, p.io.out[0], to, p.io.in[0], i);
  }
}
