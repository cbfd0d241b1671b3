// Pad with a constant, edge, reflected or wrapped elements; negative pads crop.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/copy/copy_params.h"

template <class T>
DEVICE void pad(const carnot_cuda_pad_params& p) {
  i64 i = THREAD, at = i, from = 0;
  if (i >= p.count) return;
  bool inside = true;
  for (int d = p.rank - 1; d >= 0; d--) {
    i64 k = at % p.dims[d] - p.begin[d], n = p.size[d];
    at /= p.dims[d];
    bool out = k < 0 || k >= n;
    inside = inside && (!out || p.mode);
    if (out && p.mode == 1) k = k < 0 ? 0 : n - 1;
    if (out && p.mode == 2 && n > 1) {
      i64 period = 2 * (n - 1);
      k = ((k % period) + period) % period;
      if (k >= n) k = period - k;
    }
    if (out && p.mode == 3) k = ((k % n) + n) % n;
    if (out && p.mode == 2 && n == 1) k = 0;
    from += k * p.src[d];
  }
  T* y = (T*)p.y + i;
  if (inside)
    *y = ((const T*)p.x)[from];
  else
    *y = p.value ? *(const T*)p.value : (T)0;
}
