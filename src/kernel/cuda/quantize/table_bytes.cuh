// Functions of one byte by a table in shared memory, 16 bytes per thread.
#pragma once

#include "kernel/cuda/common/types.cuh"
#include "kernel/cuda/quantize/table_bytes_params.h"

#ifdef __CUDACC__

DEVICE void look_up_bytes(const carnot_cuda_table_bytes_params& p) {
  __shared__ u8 table[256];
  const i64 first = (blockIdx.x * (i64)blockDim.x + threadIdx.x) * 16;
  const u8* x = (const u8*)p.x;
  u8* y = (u8*)p.y;
  const bool whole = p.aligned && first + 16 <= p.count;
  const uint4 words = whole ? *(const uint4*)(x + first) : uint4{};
  table[threadIdx.x] = ((const u8*)p.table)[threadIdx.x];
  __syncthreads();
  if (whole) {
    const u32 from[4] = {words.x, words.y, words.z, words.w};
    u32 to[4];
#pragma unroll
    for (int w = 0; w < 4; w++) {
      to[w] = 0;
#pragma unroll
      for (int e = 0; e < 4; e++) to[w] |= (u32)table[from[w] >> e * 8 & 255] << e * 8;
    }
    *(uint4*)(y + first) = {to[0], to[1], to[2], to[3]};
    return;
  }
  for (i64 i = first; i < first + 16 && i < p.count; i++) y[i] = table[x[i]];
}

#endif
