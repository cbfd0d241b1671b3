// Products of up to four rows with constant weights [filters, depth], which are streamed once: a
// warp has a filter, its lanes share the depth. The limit is the memory rate of the weights.
#pragma once

#include "kernel/cuda/common/activation.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/common/warp_reduce.cuh"
#include "kernel/cuda/gemm/gemm_tile_params.h"

// ROWS: at least p.rows. The first weights are loaded before the kernel waits for the previous one.
template <class T, int ROWS>
DEVICE void gemv(const carnot_cuda_gemm_tile_params& p) {
  enum {
    AT_ONCE = ROWS == 1 ? 8 : 4,
    LANES = 32,
    STEP = AT_ONCE * LANES
  };  // vectors of 8 elements
  const int lane = threadIdx.x % LANES, vectors = p.depth / 8,
            filter = blockIdx.x * (CARNOT_CUDA_GEMV_THREADS / LANES) + threadIdx.x / LANES;
  const bool idle = filter >= p.filters;
  const half8 *w = (const half8*)p.w + (i64)(idle ? 0 : filter) * vectors, none = {};
  half8 read[AT_ONCE];
#pragma unroll
  for (int j = 0; j < AT_ONCE; j++)
    read[j] = lane + j * LANES < vectors ? w[lane + j * LANES] : none;
  wait_for_previous();
  if (idle) return;
  const half8* x[ROWS];
#pragma unroll
  for (int m = 0; m < ROWS; m++)
    x[m] = (const half8*)((const T*)p.x + lo(m, (int)p.rows - 1) * (i64)p.pixel);
  f32 sum[ROWS];
  for (int m = 0; m < ROWS; m++) sum[m] = 0;
#pragma unroll 1
  for (int v = lane; v < vectors; v += STEP) {
    half8 next[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      const int at = v + STEP + j * LANES;
      next[j] = at < vectors ? w[at] : none;
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      const int at = lo(v + j * LANES, vectors - 1);
#pragma unroll
      for (int m = 0; m < ROWS; m++) {
        const half8 a = x[m][at];
        f32 part = 0;
#pragma unroll
        for (int e = 0; e < 8; e++) part = fmaf(half8_at<T>(a, e), half8_at<T>(read[j], e), part);
        // Behind the last vector weights are zeros, but x may hold an infinity.
        if (v + j * LANES < vectors) sum[m] += part;
      }
      read[j] = next[j];
    }
  }
  f32 mine = 0;
#pragma unroll
  for (int m = 0; m < ROWS; m++) {
    const f32 all = warp_reduce_sum(sum[m]);
    if (lane == m) mine = all;
  }
  if (lane >= p.rows) return;
  if (p.bias) mine += load(((const T*)p.bias)[filter]);
  if (p.residual) mine += load(((const T*)p.residual)[(i64)lane * p.filters + filter]);
  ((T*)p.y)[(i64)lane * p.pitch + filter] =
      store_as<T>::of(activate(p.activation, p.low, p.high, mine));
}
