// GEMM without tensor cores for any strides: 32x32 tiles through shared memory. The fallback where
// cuBLASLt is absent or rejects the strides, and the GEMM of float64 and integers.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/gemm/gemm_simt_params.h"

template <class T>
DEVICE void gemm_simt(const carnot_cuda_gemm_simt_params& p) {
  typedef ACCUMULATOR A;
  __shared__ A sa[32][33], sb[32][33];
  int tx = threadIdx.x & 31, ty = threadIdx.x >> 5;
  i64 m0 = blockIdx.y * 32ll, n0 = blockIdx.x * 32ll;
  const T* a = (const T*)p.a + blockIdx.z * p.a_b;
  const T* b = (const T*)p.b + blockIdx.z * p.b_b;
  A sum[4] = {0, 0, 0, 0};
  for (i64 k0 = 0; k0 < p.k; k0 += 32) {
    for (int r = ty; r < 32; r += 8) {
      i64 m = m0 + r, k = k0 + tx, n = n0 + tx, kb = k0 + r;
      sa[r][tx] = m < p.m && k < p.k ? load(a[m * p.a_m + k * p.a_k]) : (A)0;
      sb[r][tx] = kb < p.k && n < p.n ? load(b[kb * p.b_k + n * p.b_n]) : (A)0;
    }
    __syncthreads();
    for (int k = 0; k < 32; k++)
      for (int r = 0; r < 4; r++) sum[r] = multiply_add(sa[ty + 8 * r][k], sb[k][tx], sum[r]);
    __syncthreads();
  }
  for (int r = 0; r < 4; r++) {
    i64 m = m0 + ty + 8 * r, n = n0 + tx;
    if (m >= p.m || n >= p.n) continue;
    i64 at = blockIdx.z * p.c_b + m * p.c_m + n * p.c_n;
    A v = sum[r] * (A)p.alpha;
    if (p.beta != 0) v += (A)p.beta * get<T>(p.c, at);
    put<T>(p.c, at, p.relu ? hi(v, (A)0) : v);
  }
}
