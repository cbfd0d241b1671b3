// CropAndResize (generic kernel): the parameters, for C too, and the kernel; formulas as in
// ops/crop_and_resize.c.
#pragma once

#include "kernel/cuda/common/generic.h"

// x [images, channels, height, width], rois [R, 4], batch_indices [R]; the result is
// [R, channels, rows, columns]. One item an element of the result.
typedef struct carnot_cuda_crop_and_resize_params {
  carnot_cuda_generic_io io;
  long long images, channels, height, width, rows, columns;
  double extrapolation;
  int nearest;
} carnot_cuda_crop_and_resize_params;

#ifdef __cplusplus
#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/common/numeric.cuh"

// The position of element |i| of |count| along a dimension of |size| pixels, for the sides |first|
// and |first| + 2 of the boxes.
DEVICE f64 crop_position(const carnot_cuda_crop_and_resize_params& p, i64 first, i64 i, i64 count,
                         i64 size) {
  float from = (float)real_of(p.io.in_type[1], p.io.in[1], first),
        to = (float)real_of(p.io.in_type[1], p.io.in[1], first + 2), end = (float)(size - 1);
  if (count <= 1) return __fmul_rn(__fmul_rn(0.5f, __fadd_rn(from, to)), end);
  // Rounded after each operation, as the reference is.
  float step = __fdiv_rn(__fmul_rn(__fsub_rn(to, from), end), (float)(count - 1));
  return __fadd_rn(__fmul_rn(from, end), __fmul_rn((float)i, step));
}

DEVICE f64 blend(f64 a, f64 b, f64 part) { return part > 0 ? (1 - part) * a + part * b : a; }

DEVICE void crop_and_resize(const carnot_cuda_crop_and_resize_params& p, i64 item) {
  i64 j = item % p.columns, i = item / p.columns % p.rows, part = item / p.columns / p.rows,
      crop = part / p.channels;
  i64 image = whole_of(p.io.in_type[2], p.io.in[2], crop);
  f64 y = crop_position(p, crop * 4, i, p.rows, p.height),
      x = crop_position(p, crop * 4 + 1, j, p.columns, p.width), v = p.extrapolation;
  if (image >= 0 && image < p.images && y >= 0 && y <= (f64)(p.height - 1) && x >= 0 &&
      x <= (f64)(p.width - 1)) {
    i64 plane = (image * p.channels + part % p.channels) * p.height * p.width;
    i64 top = (i64)(p.nearest ? round(y) : floor(y)), left = (i64)(p.nearest ? round(x) : floor(x));
    f64 fy = p.nearest ? 0 : y - (f64)top, fx = p.nearest ? 0 : x - (f64)left;
    i64 bottom = top + (fy > 0), right = left + (fx > 0);
    const void* in = p.io.in[0];
    int type = p.io.in_type[0];
    v = blend(blend(real_of(type, in, plane + top * p.width + left),
                    real_of(type, in, plane + top * p.width + right), fx),
              blend(real_of(type, in, plane + bottom * p.width + left),
                    real_of(type, in, plane + bottom * p.width + right), fx),
              fy);
  }
  store_any(p.io.out_type[0], p.io.out[0], item, v);
}
#endif
