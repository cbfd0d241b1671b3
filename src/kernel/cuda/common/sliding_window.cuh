// The position of an output element of a sliding-window kernel.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/sliding_window.h"

struct window_position {
  i64 n, c, s[3];
};
DEVICE bool locate(const carnot_cuda_sliding_window& p, i64 i, window_position* at) {
  i64 total = p.n * p.filters * p.out[0] * p.out[1] * p.out[2];
  if (i >= total) return false;
  bool channels_last = p.y_c == 1 && p.filters > 1;
  if (channels_last) at->c = i % p.filters, i /= p.filters;
  for (int d = 2; d >= 0; d--) at->s[d] = i % p.out[d], i /= p.out[d];
  if (!channels_last) at->c = i % p.filters, i /= p.filters;
  at->n = i;
  return true;
}
DEVICE i64 target(const carnot_cuda_sliding_window& p, const window_position& at) {
  return at.n * p.y_n + at.c * p.y_c + at.s[0] * p.y_s[0] + at.s[1] * p.y_s[1] + at.s[2] * p.y_s[2];
}
