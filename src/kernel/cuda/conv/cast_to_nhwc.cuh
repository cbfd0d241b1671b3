// float32 of any strides to 16-bit floats in NHWC: one thread per pixel.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/conv/cast_to_nhwc_params.h"

// One thread per pixel.
template <class T>
DEVICE void cast_to_nhwc(const carnot_cuda_cast_to_nhwc_params& p) {
  i64 i = THREAD, from, none;
  if (i >= p.count) return;
  offsets<u64>((u64)i, p.rank, p.dims, p.src, p.src, &from, &none);
  for (i64 c = 0; c < p.channels; c++)
    put<T>(p.y, i * p.channels + c, ((const f32*)p.x)[from + c * p.x_c]);
}
