// The first or last greatest element of a slice, by an order in which NaN is the greatest.
#pragma once

#include "kernel/cuda/common/generic.cuh"

// An integer that orders as |v| does; NaN is the greatest.
DEVICE i64 order_of_real(f64 v) {
  if (v != v) return 0x7fffffffffffffffll;
  i64 bits = __double_as_longlong(v + 0.0);
  return bits < 0 ? (i64)((u64)bits ^ 0x7fffffffffffffffull) : bits;
}
DEVICE i64 order_of(int type, const void* x, i64 i) {
  if (!is_real(type)) {
    i64 v = whole_of(type, x, i);
    return type == CARNOT_CUDA_U64 ? (i64)((u64)v ^ 1ull << 63) : v;
  }
  return order_of_real(real_of(type, x, i));
}

// The best of a lane for a block: the greatest order, or the least; of equal ones the first or
// last.
struct found {
  i64 order, at;  // at < 0: none
};
DEVICE bool is_better(const found& a, const found& b, bool last) {
  if (a.at < 0 || b.at < 0) return b.at < 0 && a.at >= 0;
  return a.order != b.order ? a.order > b.order : last ? a.at > b.at : a.at < b.at;
}
DEVICE found block_reduce_best(found v, bool last) {
  __shared__ found all[256];
  __syncthreads();
  all[threadIdx.x] = v;
  for (int step = blockDim.x / 2; step; step >>= 1) {
    __syncthreads();
    if (threadIdx.x < step && is_better(all[threadIdx.x + step], all[threadIdx.x], last))
      all[threadIdx.x] = all[threadIdx.x + step];
  }
  __syncthreads();
  return all[0];
}
