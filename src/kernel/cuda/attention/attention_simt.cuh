// Attention of 16-bit floats without tensor cores: one query per warp, heads of up to 128 elements.
#pragma once

#include "kernel/cuda/attention/attention_operands.cuh"
#include "kernel/cuda/common/tensor_core.cuh"

template <class T, bool BYTES>
DEVICE void attention_simt(const carnot_cuda_attention_params& p) {
  int row = blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5), lane = threadIdx.x & 31;
  if (row >= p.queries) return;
  head_offsets at = head_offsets_of(p);
  const T* q = (const T*)p.q + at.q + row * p.q_s[2];
  const T* k = (const T*)p.k + at.k;
  const T* v = (const T*)p.v + at.v;
  f32 sum = 0, most = MINUS_INFINITY, acc[4] = {0, 0, 0, 0};
  for (int first = 0; first < p.keys; first += 32) {
    int key = first + lane;
    f32 s = MINUS_INFINITY;
    if (key < p.keys) {
      f32 dot = 0;
      for (int d = 0; d < p.size; d++) dot += load(q[d]) * load(k[key * p.k_s[2] + d]);
      s = dot * p.scale + mask_at<T>(p, p.mask, at.mask + row * p.mask_s[2], key);
    }
    f32 top = s;
    for (int step = 16; step; step >>= 1) top = hi(top, __shfl_xor_sync(~0u, top, step));
    top = hi(top, most);
    f32 base = top == MINUS_INFINITY ? 0.f : top, shrink = expf(most - base), w = expf(s - base);
    most = top;
    sum = sum * shrink + w;
    for (int e = 0; e < 4; e++) acc[e] *= shrink;
    for (int j = 0; j < 32 && first + j < p.keys; j++) {
      f32 wj = __shfl_sync(~0u, w, j);
      for (int e = 0; e < 4; e++)
        if (lane + 32 * e < p.value_size)
          acc[e] = fmaf(wj, load(v[(first + j) * p.v_s[2] + lane + 32 * e]), acc[e]);
    }
  }
  for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
  f32 inverse = sum == 0 && p.zero_empty ? 0.f : 1 / sum;
  i64 y = at.y + row * p.y_s[2] + lane;
  u32 four = 0;
  for (int e = 0; e < 4; e++) acc[e] *= inverse;
  if (BYTES) four = quantize_four<T>(p.result, 1 / p.result.scale, acc);
  for (int e = 0; e < 4; e++) {
    if (lane + 32 * e >= p.value_size) continue;
    if (BYTES)
      ((u8*)p.y)[y + 32 * e] = (u8)(four >> 8 * e);
    else
      ((T*)p.y)[y + 32 * e] = store_as<T>::of(acc[e]);
  }
}
