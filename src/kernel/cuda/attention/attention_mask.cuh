// Masks of the attention kernels on tensor cores, and the kernel that classifies the tiles of a
// mask.
#pragma once

#include "kernel/cuda/attention/attention_operands.cuh"
#include "kernel/cuda/common/tensor_core.cuh"

#if __CUDA_ARCH__ >= 800

#define LOG2_E 1.44269504f
// Scores times the scale plus the mask, of which read(r, n) returns two elements. All loads
// precede their uses.
template <int N, class R>
DEVICE void add_pairs(f32 (*s)[4], f32 scale, R read) {
  float2 m[2][N];
#pragma unroll
  for (int i = 0; i < 2 * N; i++) m[i / N][i % N] = read(i / N, i % N);
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      s[n][e] = fmaf(s[n][e], scale, e & 1 ? m[e >> 1][n].y : m[e >> 1][n].x);
}
// Rows of a mask with an odd number of keys begin at any element. One type at a time: the loads do
// not depend on one another.
template <class V, int N>
DEVICE void add_singles(const carnot_cuda_attention_params& p, const V* mask, const i64* at,
                        f32 (*s)[4], int key) {
  add_pairs<N>(s, p.scale, [&](int r, int n) {
    const V* from = mask + at[r] + key + 8 * n;
    const int left = p.keys - key - 8 * n;
    return float2{left > 0 ? load(from[0]) : 0.f, left > 1 ? load(from[1]) : 0.f};
  });
}
// Offsets in the mask of the lane's two queries, the first of which is |row|.
DEVICE void mask_rows(const carnot_cuda_attention_params& p, i64 mask, int row, i64* at) {
  for (int r = 0; r < 2; r++) at[r] = mask + min(row + 8 * r, p.queries - 1) * p.mask_s[2];
}
// A mask read in pairs has an even number of keys.
template <int N>
DEVICE void add_float_mask(const carnot_cuda_attention_params& p, const i64* at, f32 (*s)[4],
                           int key) {
  if (p.mask_in_pairs)
    add_pairs<N>(s, p.scale, [&](int r, int n) {
      return key + 8 * n < p.keys ? *(const float2*)((const f32*)p.mask + at[r] + key + 8 * n)
                                  : float2{};
    });
  else
    add_singles<f32, N>(p, (const f32*)p.mask, at, s, key);
}
// |row|: the first query of the lane.
template <class T, int N>
DEVICE void add_mask(const carnot_cuda_attention_params& p, i64 mask, f32 (*s)[4], int row,
                     int first) {
  int key = first + (threadIdx.x & 3) * 2;
  i64 at[2];
  mask_rows(p, mask, row, at);
  if (p.mask_is_float)
    add_float_mask<N>(p, at, s, key);
  else if (!p.mask_in_pairs)
    add_singles<T, N>(p, (const T*)p.mask, at, s, key);
  else
    add_pairs<N>(s, p.scale, [&](int r, int n) {
      u32 bits = key + 8 * n < p.keys ? *(const u32*)((const T*)p.mask + at[r] + key + 8 * n) : 0;
      return float2{load(T{(u16)bits}), load(T{(u16)(bits >> 16)})};
    });
}
// A mask that all queries share: two keys per lane, distributed by shuffles.
template <int N>
DEVICE void add_lanes(f32 (*s)[4], f32 scale, float2 mask) {
  add_pairs<N>(s, scale, [&](int r, int n) {
    int from = 4 * n + (threadIdx.x & 3);
    return float2{__shfl_sync(~0u, mask.x, from), __shfl_sync(~0u, mask.y, from)};
  });
}
// Keys beyond the last get the score -inf. |left|: keys from the first of |s| on, none where it is
// not positive.
template <int N>
DEVICE void cut_keys(f32 (*s)[4], int left) {
#pragma unroll
  for (int n = 0; n < N; n++)
#pragma unroll
    for (int e = 0; e < 4; e++)
      if (8 * n + (int)(threadIdx.x & 3) * 2 + (e & 1) >= left) s[n][e] = MINUS_INFINITY;
}

// What a tile of the mask requires: OPEN: all zeros, nothing to add; CLOSED: all keys masked
// out, skip the tile; MIXED: read the mask. Mask values below -1e30 count as masked out where
// the query has another key.
enum { TILE_OPEN, TILE_CLOSED, TILE_MIXED };
template <class V>
DEVICE void attention_mask_kinds(const carnot_cuda_attention_params& p) {
  enum { ROWS = 6, WARPS = 32 };  // at most 192 queries of a tile
  int warp = threadIdx.x >> 5, lane = threadIdx.x & 31,
      tiles = (p.keys + p.tile_keys - 1) / p.tile_keys;
  int first = blockIdx.x * p.tile_rows, rows = min(p.tile_rows, p.queries - first);
  const V* mask = (const V*)p.mask + (blockIdx.y * (i64)p.queries + first) * p.keys;
  u8* kinds = p.kinds + (blockIdx.y * (i64)gridDim.x + blockIdx.x) * tiles;
  u32 open_rows = 0;
  for (int tile = 0; tile < tiles; tile++) {
    int key = tile * p.tile_keys + lane;
    f32 m[ROWS][2];
#pragma unroll
    for (int i = 0; i < 2 * ROWS; i++) {
      i64 row = min(warp + WARPS * (i / 2), rows - 1);
      m[i / 2][i % 2] =
          load(mask[row * p.keys + min(i % 2 && p.tile_keys > 32 ? key + 32 : key, p.keys - 1)]);
    }
    bool any = false;
    u32 open = 0;
#pragma unroll
    for (int i = 0; i < 2 * ROWS; i++) {
      any |= !(m[i / 2][i % 2] == 0);
      if (!(m[i / 2][i % 2] < -1e30f)) open |= 1u << i / 2;
    }
    any = __syncthreads_or(any);
    bool closed = !__syncthreads_or(open);
    if (threadIdx.x == 0) kinds[tile] = !any ? TILE_OPEN : closed ? TILE_CLOSED : TILE_MIXED;
    open_rows |= open;
  }
  bool every = true;
  for (int i = 0; i < ROWS; i++) every &= __any_sync(~0u, open_rows >> i & 1);
  if (!__syncthreads_and(every))
    for (int tile = threadIdx.x; tile < tiles; tile += blockDim.x)
      if (kinds[tile] == TILE_CLOSED) kinds[tile] = TILE_MIXED;
}

#endif
