// Pad with a constant, edge, reflected or wrapped elements; negative pads crop.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/copy/copy_params.h"

// The padding as often as it is in eight bytes.
DEVICE u64 padding_of(const carnot_cuda_pad_params& p) {
  if (!p.value) return 0;
  switch (p.value_bytes) {
    case 1: return *(const u8*)p.value * 0x0101010101010101ull;
    case 2: return *(const u16*)p.value * 0x0001000100010001ull;
    case 4: return *(const u32*)p.value * 0x0000000100000001ull;
    default: return *(const u64*)p.value;
  }
}
template <class T>
DEVICE void pad(const carnot_cuda_pad_params& p) {
  i64 i = THREAD, at = i, from = 0;
  if (i >= p.count) return;
  bool inside = true;
  for (int d = p.rank - 1; d >= 0; d--) {
    // Division of 64 bits is ten times slower.
    const i64 next = p.count < 0x7fffffff ? (i64)((u32)at / (u32)p.dims[d]) : at / p.dims[d];
    i64 k = at - next * p.dims[d] - p.begin[d], n = p.size[d];
    at = next;
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
    *y = (T)padding_of(p);
}
