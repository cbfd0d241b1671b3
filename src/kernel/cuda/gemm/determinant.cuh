// Det by Gaussian elimination with partial pivoting (generic kernel): one thread per matrix.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/reduce/axis_ops_params.h"

// By elimination with row exchange; one thread a matrix, in its part of the scratch.
DEVICE void determinant(const carnot_cuda_axis_params& p, i64 item) {
  i64 n = p.length;
  f64 *a = (f64*)p.io.scratch + item * n * n, det = 1;
  for (i64 i = 0; i < n * n; i++) a[i] = real_of(p.io.in_type[0], p.io.in[0], item * n * n + i);
  for (i64 i = 0; i < n && det != 0; i++) {
    i64 pivot = i;
    for (i64 k = i + 1; k < n; k++)
      if (fabs(a[k * n + i]) > fabs(a[pivot * n + i])) pivot = k;
    if (pivot != i) det = -det;
    for (i64 j = 0; pivot != i && j < n; j++) {
      f64 t = a[i * n + j];
      a[i * n + j] = a[pivot * n + j];
      a[pivot * n + j] = t;
    }
    det *= a[i * n + i];
    for (i64 k = i + 1; k < n; k++) {
      f64 factor = a[k * n + i] / a[i * n + i];
      for (i64 j = i + 1; j < n; j++) a[k * n + j] -= factor * a[i * n + j];
    }
  }
  store_any(p.io.out_type[0], p.io.out[0], item, det);
}
