// Gather along one axis and GatherND, for elements of 1 to 16 bytes.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/gather/gather_params.h"

template <class T>
struct zero_of {
  static DEVICE_ONLY T value() { return (T)0; }
};
template <>
struct zero_of<uint4> {
  static DEVICE_ONLY uint4 value() { return make_uint4(0, 0, 0, 0); }
};

template <class T>
DEVICE void gather(const carnot_cuda_gather_params& p) {
  i64 i = THREAD, total = p.outer * p.count * p.inner, n, k, o;
  if (i >= total) return;
  if (total <= 0xffffffff) {  // division of 64 bits is ten times slower
    u32 at = (u32)i / (u32)p.inner, row = at / (u32)p.count;
    n = (u32)i - at * (u32)p.inner, k = at - row * (u32)p.count, o = row;
  } else {
    i64 at = i / p.inner;
    n = i % p.inner, k = at % p.count, o = at / p.count;
  }
  i64 index = p.index_bytes == 8 ? ((const i64*)p.index)[k] : ((const i32*)p.index)[k];
  if (index < 0) index += p.size;
  bool inside = index >= 0 && index < p.size;
  ((T*)p.y)[i] = inside ? ((const T*)p.x)[(o * p.size + index) * p.inner + n] : zero_of<T>::value();
}

template <class T>
DEVICE void gather_nd(const carnot_cuda_gather_nd_params& p) {
  i64 i = THREAD;
  if (i >= p.count) return;
  i64 n = i % p.inner, q = i / p.inner, at = 0;
  bool inside = true;
  for (int k = 0; k < p.depth; k++) {
    i64 index = p.index[q * p.depth + k];
    if (index < 0) index += p.dims[k];
    inside = inside && index >= 0 && index < p.dims[k];
    at = at * p.dims[k] + index;
  }
  const T* x = (const T*)p.x + q / p.queries * p.batch;
  ((T*)p.y)[i] = inside ? x[at * p.inner + n] : zero_of<T>::value();
}
