// The epilogue of the tensor core GEMMs: accumulators of all split-K parts through (distributed)
// shared memory, then bias, residual and activation, eight results at a time.
#pragma once

#include "kernel/cuda/common/activation.cuh"
#include "kernel/cuda/common/cluster.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/gemm/gemm_tile_params.h"

#if __CUDA_ARCH__ >= 800

#define READ_SUMS(name, space, T, as)                       \
  DEVICE void name(T* v, u32 at) {                          \
    asm volatile("ld." space ".v4.b32 {%0,%1,%2,%3}, [%4];" \
                 : as(v[0]), as(v[1]), as(v[2]), as(v[3])   \
                 : "r"(at));                                \
    asm volatile("ld." space ".v4.b32 {%0,%1,%2,%3}, [%4];" \
                 : as(v[4]), as(v[5]), as(v[6]), as(v[7])   \
                 : "r"(at + 16));                           \
  }
#if __CUDA_ARCH__ >= 900
#define PEER_SPACE "shared::cluster"
#else
#define PEER_SPACE "shared"
#endif
READ_SUMS(read_own_sums, "shared", f32, "=f")
READ_SUMS(read_own_sums, "shared", i32, "=r")
READ_SUMS(read_sums, PEER_SPACE, f32, "=f")
READ_SUMS(read_sums, PEER_SPACE, i32, "=r")

// Two accumulators side by side.
DEVICE void put_pair(u32 at, f32 a, f32 b) {
  asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(at), "f"(a), "f"(b) : "memory");
}
DEVICE void put_pair(u32 at, i32 a, i32 b) {
  asm volatile("st.shared.v2.b32 [%0], {%1,%2};" ::"r"(at), "r"(a), "r"(b) : "memory");
}

// Bias, residual, activation and store of eight results at a time. Parameters are copied to
// registers: their constant memory is no longer cached at the end of a kernel. ODD: filters may be
// no multiple of 8, which takes a fifth more instructions.
template <class T, bool ODD = false>
struct gemm_epilogue {
  typedef half8 residual;
  enum { FORMS = 1 };
  half8 bias;  // of the thread's columns
  half8 *to, *residuals;
  int filters, end, pitch;  // filters / 8, rounded up; before which column / 8 the tile ends; of y
  int activation;
  int odd;  // ODD: filters, where these are no eights: rows are not aligned
  i64 rows;
  f32 low, high;

  DEVICE_ONLY void keep(const carnot_cuda_gemm_tile_params& p) {
    to = (half8*)p.y, residuals = (half8*)p.residual;
    filters = end = (p.filters + 7) / 8, pitch = p.pitch / 8, activation = p.activation;
    odd = ODD && p.filters % 8 ? p.filters : 0, rows = p.rows, low = p.low, high = p.high;
    asm volatile(""
                 : "+l"(to), "+l"(residuals), "+r"(filters), "+r"(pitch), "+r"(activation),
                   "+l"(rows), "+f"(low), "+f"(high));
  }
  // Columns 8 n to 8 n + 7 of a row of |from|; zeros behind the last.
  DEVICE_ONLY half8 eight_of(const void* from, i64 row, int n) {
    if (!odd) return ((const half8*)from)[row * filters + n];
    half8 r = {};
    for (int e = 0; e < 8; e++)
      if (8 * n + e < odd)
        r.two[e / 2] |= (u32)((const u16*)from)[row * odd + 8 * n + e] << e % 2 * 16;
    return r;
  }
  DEVICE_ONLY void read_bias(const carnot_cuda_gemm_tile_params& p, int n) {
    bias = {};
    if (p.bias && n < end) bias = eight_of(p.bias, 0, n);
  }
  DEVICE_ONLY bool has(i64 row, int n) { return row < rows && n < end; }
  DEVICE_ONLY half8 residual_at(i64 row, int n) {
    half8 none = {};
    return residuals && has(row, n) ? eight_of(residuals, row, n) : none;
  }
  // |v|: accumulators, summed over all split-K parts.
  template <int FORM>
  DEVICE_ONLY void put(f32* v, const half8& residual, i64 row, int n) {
    if (!has(row, n)) return;
    for (int e = 0; e < 8; e++) v[e] += half8_at<T>(bias, e) + half8_at<T>(residual, e);
    if (activation) activate8(activation, low, high, v);
    if (!odd) return pack<T>(to, row * pitch + n, v);
    for (int e = 0; e < 8; e++)
      if (8 * n + e < odd) ((T*)to)[row * odd + 8 * n + e] = store_as<T>::of(v[e]);
  }
};

#endif
