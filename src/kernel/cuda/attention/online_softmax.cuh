// Online softmax (FlashAttention-2) over accumulator fragments of mma.sync: running maximum and sum
// of two rows per lane, in float32 registers.
#pragma once

#include "kernel/cuda/attention/attention_operands.cuh"
#include "kernel/cuda/common/tensor_core.cuh"

#if __CUDA_ARCH__ >= 800

DEVICE f32 power_of_2(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
// State of two queries of a lane, eight rows apart: the maximum that exponents are relative to,
// and the sum of the weights.
struct softmax_rows {
  f32 base[2], sum[2];
};
DEVICE softmax_rows softmax_begin() { return {{MINUS_INFINITY, MINUS_INFINITY}, {0, 0}}; }
// Turns the scores of 16 queries and 8 N keys into weights. Returns whether earlier accumulators
// must be rescaled, by |shrink|. The base follows the maximum only when weights would exceed
// 2^(SHIFT + SLACK); that of the base is 2^SHIFT. A query whose keys are all masked by a huge
// finite value uses the unit 1, whose product is exact.
template <int N, int SHIFT = 0, int SLACK = 8>
DEVICE bool softmax_update(f32 (*s)[4], f32 unit, softmax_rows& rows, f32* shrink) {
#pragma unroll
  for (int r = 0; r < 2; r++) {
    f32 tops[4];  // independent instructions hide the latency
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int i = 2 * n + e, at = i % 4;
        tops[at] = i < 4 ? s[n][2 * r + e] : fmaxf(tops[at], s[n][2 * r + e]);
      }
    f32 top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
    f32 factor = top < -1e8f ? 1.f : unit, base = top * factor, sum = 0;
    if (base <= rows.base[r] + SLACK) base = rows.base[r];
    f32 from = base == MINUS_INFINITY ? 0.f : base;
    shrink[r] = power_of_2(rows.base[r] - from);
    rows.base[r] = base;
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 2 * r; e < 2 * r + 2; e++)
        sum += s[n][e] = power_of_2(fmaf(s[n][e], factor, SHIFT - from));
    rows.sum[r] = fmaf(rows.sum[r], shrink[r], sum);
  }
  return __any_sync(~0u, shrink[0] != 1 || shrink[1] != 1);
}
template <int N>
DEVICE void scale_rows(f32 (*acc)[4], const f32* shrink) {
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++) acc[n][e] *= shrink[e >> 1];
}
// The sum over the four lanes of a query.
DEVICE f32 whole_sum(f32 sum) {
  sum += __shfl_xor_sync(~0u, sum, 1);
  return sum + __shfl_xor_sync(~0u, sum, 2);
}
DEVICE f32 inverse_of(const carnot_cuda_attention_params& p, f32 sum) {
  return sum == 0 && p.zero_empty ? 0.f : __fdividef(1.f, sum);
}
// Weights of 16 keys as the A fragment of an mma.
template <class T>
DEVICE void weights_of(u32* a, const f32 (*s)[4]) {
  a[0] = mma<T>::pair(s[0][0], s[0][1]), a[1] = mma<T>::pair(s[0][2], s[0][3]);
  a[2] = mma<T>::pair(s[1][0], s[1][1]), a[3] = mma<T>::pair(s[1][2], s[1][3]);
}

#endif
