// Attention of 16-bit floats for few queries: 16 per block, the warps of a block split the keys and
// read them straight into registers.
#pragma once

#include "kernel/cuda/attention/attention_mask.cuh"
#include "kernel/cuda/attention/online_softmax.cuh"
#include "kernel/cuda/common/tensor_core.cuh"

#if __CUDA_ARCH__ >= 800

DEVICE uint4 read16(const u16* from, bool inside) {
  return inside ? *(const uint4*)from : uint4{0, 0, 0, 0};
}

template <class T, int D, bool BYTES>
DEVICE void attention_split(const carnot_cuda_attention_params& p) {
  enum { KEYS = 2048 / D, N = KEYS / 8, WARPS = 8, PITCH = 68 };
  __shared__ __align__(16) f32 parts[WARPS][16][PITCH];
  __shared__ f32 bases[WARPS][16], sums[WARPS][16];
  int warp = threadIdx.x >> 5, warps = blockDim.x >> 5, lane = threadIdx.x & 31;
  int g = lane >> 2, t = lane & 3, first_row = blockIdx.x * 16;
  head_offsets at = head_offsets_of(p);
  const u16* q = (const u16*)p.q + at.q;
  const u16* k = (const u16*)p.k + at.k;
  const u16* v = (const u16*)p.v + at.v;
  // Queries and keys are multiplied in a permuted order in which the elements of a lane are
  // contiguous: of every 32, lane t holds 8 t to 8 t + 7 for two mma instructions. The values
  // are permuted likewise: mma n computes elements n, n + 8, .. of every 64.
  u32 a[D / 16][4], b[N][D / 8][2];
  uint4 x[KEYS / 16][D / 64][4];
  auto read_keys = [&](int first) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int j = 0; j < D / 32; j++) {
        int key = first + 8 * n + g, d = 32 * j + 8 * t;
        uint4 w = read16(k + key * p.k_s[2] + d, key < p.keys && d < p.size);
        b[n][2 * j][0] = w.x, b[n][2 * j][1] = w.y, b[n][2 * j + 1][0] = w.z,
                 b[n][2 * j + 1][1] = w.w;
      }
  };
  auto read_values = [&](int first) {
#pragma unroll
    for (int c = 0; c < KEYS / 16; c++)
#pragma unroll
      for (int h = 0; h < D / 64; h++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          int key = first + 16 * c + 2 * t + (e & 1) + (e >> 1) * 8, d = 64 * h + 8 * g;
          x[c][h][e] = read16(v + key * p.v_s[2] + d, key < p.keys && d < p.value_size);
        }
  };
#pragma unroll
  for (int r = 0; r < 2; r++)
#pragma unroll
    for (int j = 0; j < D / 32; j++) {
      int row = first_row + g + 8 * r, d = 32 * j + 8 * t;
      uint4 w = read16(q + row * p.q_s[2] + d, row < p.queries && d < p.size);
      a[2 * j][r] = w.x, a[2 * j][2 + r] = w.y, a[2 * j + 1][r] = w.z, a[2 * j + 1][2 + r] = w.w;
    }
  read_keys(warp * KEYS);
  read_values(warp * KEYS);
  f32 acc[D / 8][4] = {};
  softmax_rows rows = softmax_begin();
  for (int first = warp * KEYS; first < p.keys; first += warps * KEYS) {
    f32 s[N][4] = {}, shrink[2];
#pragma unroll
    for (int d = 0; d < D / 16; d++)
#pragma unroll
      for (int n = 0; n < N; n++) mma<T>::multiply(s[n], a[d], b[n][d][0], b[n][d][1]);
    read_keys(first + warps * KEYS);
    if (p.mask) add_mask<T, N>(p, at.mask, s, first_row + g, first);
    if (p.keys - first < KEYS) cut_keys<N>(s, p.keys - first);
    if (softmax_update<N>(s, p.mask ? LOG2_E : p.scale * LOG2_E, rows, shrink))
      scale_rows<D / 8>(acc, shrink);
#pragma unroll
    for (int c = 0; c < KEYS / 16; c++) {
      u32 w[4];
      weights_of<T>(w, s + 2 * c);
#pragma unroll
      for (int h = 0; h < D / 64; h++) {
        const u32 *w0 = &x[c][h][0].x, *w1 = &x[c][h][1].x, *w8 = &x[c][h][2].x,
                  *w9 = &x[c][h][3].x;
#pragma unroll
        for (int n = 0; n < 8; n++) {
          u32 halves = n & 1 ? 0x7632 : 0x5410;
          mma<T>::multiply(acc[8 * h + n], w, __byte_perm(w0[n / 2], w1[n / 2], halves),
                           __byte_perm(w8[n / 2], w9[n / 2], halves));
        }
      }
    }
    read_values(first + warps * KEYS);
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    f32 sum = whole_sum(rows.sum[r]);
    if (t == 0) bases[warp][g + 8 * r] = rows.base[r], sums[warp][g + 8 * r] = sum;
  }
  for (int h = 0; h < D / 64; h++) {
    if (h) __syncthreads();
#pragma unroll
    for (int r = 0; r < 2; r++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        int n = i % 2 * 4, e = 2 * r + i / 2;
        float4 part = {0, 0, 0, 0};
#pragma unroll
        for (int half = 0; half < D / 64; half++)
          if (half == h)
            part = {acc[8 * half + n][e], acc[8 * half + n + 1][e], acc[8 * half + n + 2][e],
                    acc[8 * half + n + 3][e]};
        *(float4*)&parts[warp][g + 8 * r][16 * t + 4 * i] = part;
      }
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x) {
      int r = i / 16, d = i % 16 * 4;
      f32 most = MINUS_INFINITY, sum = 0;
      float4 y = {0, 0, 0, 0};
      for (int w = 0; w < warps; w++) most = fmaxf(most, bases[w][r]);
      f32 from = most == MINUS_INFINITY ? 0.f : most;
      for (int w = 0; w < warps; w++) {
        f32 worth = power_of_2(bases[w][r] - from);
        float4 part = *(const float4*)&parts[w][r][d];
        sum += worth * sums[w][r];
        y.x += worth * part.x, y.y += worth * part.y, y.z += worth * part.z, y.w += worth * part.w;
      }
      f32 inverse = inverse_of(p, sum);
      if (first_row + r >= p.queries || 64 * h + d >= p.value_size) continue;
      i64 to = at.y + (first_row + r) * p.y_s[2] + 64 * h + d;
      f32 four[4] = {y.x * inverse, y.y * inverse, y.z * inverse, y.w * inverse};
      if (BYTES)
        *(u32*)((u8*)p.y + to) = quantize_four<T>(p.result, 1 / p.result.scale, four);
      else
        *(uint2*)((u16*)p.y + to) = {mma<T>::pair(four[0], four[1]),
                                     mma<T>::pair(four[2], four[3])};
    }
  }
}

#endif
