// Attention of 16-bit floats for many queries (FlashAttention-2): tiles of keys and values in
// shared memory, 16 queries per warp.
#pragma once

#include "kernel/cuda/attention/attention_mask.cuh"
#include "kernel/cuda/attention/online_softmax.cuh"
#include "kernel/cuda/common/wgmma.cuh"

#if __CUDA_ARCH__ >= 800

// Shared memory offset of chunk |c| (eight elements) of row |r|, swizzled: eight rows of one
// chunk use different banks.
template <int D>
DEVICE u32 place(int r, int c) {
  return (r * (D / 8) + (c ^ (D % 64 ? r >> 1 & 3 : r & 7))) * 16;
}
// ROWS rows of a head of |size| elements, |rows| of which are there; what lies outside is zero.
template <int D, int ROWS, int THREADS>
DEVICE void fetch_rows(u32 to, const u16* from, i64 stride, int rows, int size) {
  enum { LANES = D % 64 ? 4 : 8, STEP = THREADS / LANES };
  int r = threadIdx.x / LANES, c = threadIdx.x % LANES;
  to += place<D>(r, c);
  from += r * stride + c * 8;
#pragma unroll
  for (int i = 0; i < ROWS; i += STEP)
#pragma unroll
    for (int j = 0; j < D / 8; j += LANES)
      cp_async16(to + i * D * 2 + j * 16, from + i * stride + j * 8,
                 r + i < rows && (c + j) * 8 < size ? 16 : 0);
}

// BY_GROUPS: wgmma, with the queries in shared memory too (ptxas 13.0 was seen to reuse
// registers of an A operand that is read in every iteration). Otherwise mma.sync, with the
// queries in registers; their shared memory becomes a third stage.
template <class T, int D, int WARPS, bool BY_GROUPS, bool BYTES>
DEVICE void attention_tiled(const carnot_cuda_attention_params& p) {
  enum {
    KEYS = D <= 64 ? 64 : 32,
    N = KEYS / 8,
    STAGES = BY_GROUPS ? 2 : 3,
    TILE = KEYS * D * 2,
    THREADS = 32 * WARPS
  };
  __shared__ __align__(1024) u8 shared[6 * TILE];
  int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16, first_row = blockIdx.x * 16 * WARPS;
  int tiles = (p.keys + KEYS - 1) / KEYS;
  head_offsets at = head_offsets_of(p);
  const u16* q = (const u16*)p.q + at.q + first_row * p.q_s[2];
  const u16* k = (const u16*)p.k + at.k;
  const u16* v = (const u16*)p.v + at.v;
  const u8* kinds = p.kinds ? p.kinds + at.kinds * tiles : NULL;
  u32 base = shared_address(shared), queries = base + 4 * TILE;
  auto fetch_tile = [&](int tile) {
    u32 to = base + tile % STAGES * 2 * TILE;
    int key = tile * KEYS;
    if (tile < tiles) {
      fetch_rows<D, KEYS, THREADS>(to, k + key * p.k_s[2], p.k_s[2], p.keys - key, p.size);
      fetch_rows<D, KEYS, THREADS>(to + TILE, v + key * p.v_s[2], p.v_s[2], p.keys - key,
                                   p.value_size);
    }
    cp_async_commit();
  };
  fetch_rows<D, 16 * WARPS, THREADS>(queries, q, p.q_s[2], p.queries - first_row, p.size);
  cp_async_commit();
  for (int tile = 0; tile < STAGES - 1; tile++) fetch_tile(tile);
  u32 a[D / 16][4];
  if (!BY_GROUPS) {
    cp_async_wait<STAGES - 1>();
    __syncthreads();
#pragma unroll
    for (int d = 0; d < D / 16; d++)
      ldmatrix4(a[d], queries + place<D>(row + (lane & 15), 2 * d + (lane >> 4)));
  }
  f32 acc[D / 8][4] = {};
  softmax_rows rows = softmax_begin();
  for (int tile = 0; tile < tiles; tile++) {
    u32 keys = base + tile % STAGES * 2 * TILE, values = keys + TILE;
    int key = tile * KEYS, kind = kinds ? kinds[tile] : TILE_MIXED;
    bool masked = p.mask && kind != TILE_OPEN, alike = masked && !p.mask_s[2];
    float2 two = {0, 0};
    if (alike) {
      if (2 * lane < KEYS)
        two = {mask_at<T>(p, p.mask, at.mask, key + 2 * lane),
               mask_at<T>(p, p.mask, at.mask, key + 2 * lane + 1)};
      masked = __any_sync(~0u, two.x != 0 || two.y != 0);
    }
    cp_async_wait<STAGES - 2>();
    if (BY_GROUPS) wgmma_fence_async();
    __syncthreads();
    fetch_tile(tile + STAGES - 1);
    if (p.mask && kind == TILE_CLOSED) continue;
    f32 s[N][4] = {}, shrink[2];
    u32 w[N / 2][4];
    if (BY_GROUPS) {
      u32 own = queries + (row & -64) * D * 2;
      wgmma_begin();
#pragma unroll
      for (int d = 0; d < D / 16; d++)
        wgmma_of<T, 64>::multiply(s[0], wgmma_descriptor(own + d * 32),
                                  wgmma_descriptor(keys + d * 32));
      wgmma_commit();
      wgmma_wait<0>();
    } else {
#pragma unroll
      for (int d = 0; d < D / 16; d++)
#pragma unroll
        for (int n = 0; n < N; n += 2) {
          u32 b[4];
          ldmatrix4(b,
                    keys + place<D>((n + (lane >> 4)) * 8 + (lane & 7), 2 * d + (lane >> 3 & 1)));
          mma<T>::multiply(s[n], a[d], b[0], b[1]);
          mma<T>::multiply(s[n + 1], a[d], b[2], b[3]);
        }
    }
    if (masked && alike)
      add_lanes<N>(s, p.scale, two);
    else if (masked)
      add_mask<T, N>(p, at.mask, s, first_row + row + (lane >> 2), key);
    if (p.keys - key < KEYS) cut_keys<N>(s, p.keys - key);
    if (softmax_update<N>(s, masked ? LOG2_E : p.scale * LOG2_E, rows, shrink))
      scale_rows<D / 8>(acc, shrink);
#pragma unroll
    for (int c = 0; c < N / 2; c++) weights_of<T>(w[c], s + 2 * c);
    if (BY_GROUPS) {
      wgmma_begin();
#pragma unroll
      for (int c = 0; c < N / 2; c++)
        wgmma_of<T, 64>::multiply(acc[0], w[c], wgmma_descriptor(values + c * 16 * D * 2));
      wgmma_commit();
      wgmma_wait<0>();
    } else {
#pragma unroll
      for (int c = 0; c < N / 2; c++)
#pragma unroll
        for (int n = 0; n < D / 8; n += 2) {
          u32 b[4];
          ldmatrix4_transposed(b, values + place<D>(c * 16 + (lane & 15), n + (lane >> 4)));
          mma<T>::multiply(acc[n], w[c], b[0], b[1]);
          mma<T>::multiply(acc[n + 1], w[c], b[2], b[3]);
        }
    }
  }
  // Through shared memory, for stores of 16 bytes; a warp's rows are its own.
  cp_async_wait<0>();
  __syncthreads();
#pragma unroll
  for (int r = 0; r < 2; r++) {
    f32 inverse = inverse_of(p, whole_sum(rows.sum[r]));
#pragma unroll
    for (int n = 0; n < D / 8; n++)
      *(u32*)(shared + place<D>(row + r * 8 + (lane >> 2), n) + (lane & 3) * 4) =
          mma<T>::pair(acc[n][2 * r] * inverse, acc[n][2 * r + 1] * inverse);
  }
  __syncwarp();
  i64 first = at.y + first_row * p.y_s[2];
  f32 factor = BYTES ? 1 / p.result.scale : 0;
#pragma unroll
  for (int i = lane; i < 2 * D; i += 32) {
    int r = row + i / (D / 8), c = i % (D / 8);
    if (first_row + r >= p.queries || c * 8 >= p.value_size) continue;
    i64 to = first + r * p.y_s[2] + c * 8;
    const half8* eight = (const half8*)(shared + place<D>(r, c));
    if (BYTES) {
      f32 v[8];
      unpack<T>(*eight, v);
      *(result_bytes*)((u8*)p.y + to) = quantize_eight<T>(p.result, factor, v);
    } else {
      *(half8*)((u16*)p.y + to) = *eight;
    }
  }
}

#endif
