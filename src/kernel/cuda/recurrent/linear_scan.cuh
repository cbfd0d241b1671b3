// Linear recurrence: a thread for each lane; factors of some steps are read ahead.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/recurrent/linear_scan_params.h"

template <class T>
DEVICE void linear_scan(const carnot_cuda_linear_scan_params& p) {
  enum { AHEAD = 16 };
  const i64 lane = THREAD;
  if (lane >= p.lanes) return;
  const i64 first = lane / p.inner * p.steps * p.inner + lane % p.inner;
  const T *a = (const T*)p.a + first, *b = (const T*)p.b + first;
  T* y = (T*)p.y + first;
  f32 state = load(((const T*)p.initial)[lane]);
  for (int t = 0; t < p.steps; t += AHEAD) {
    T factor[AHEAD], added[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; k++) {  // no branches: the loads are issued at once
      const i64 at = lo(t + k, p.steps - 1) * p.inner;
      factor[k] = a[at], added[k] = b[at];
    }
#pragma unroll
    for (int k = 0; k < AHEAD; k++)
      if (t + k < p.steps) {
        state = fmaf(load(factor[k]), state, load(added[k]));
        y[(t + k) * p.inner] = store_as<T>::of(state);
      }
  }
}
