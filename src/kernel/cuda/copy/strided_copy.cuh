// Strided copies, tiled transposes, and copies of many parts, of elements of 1 to 16 bytes.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/copy/copy_params.h"

template <class T>
DEVICE void copy(const carnot_cuda_copy_params& p) {
  i64 i = THREAD, from, to;
  if (i >= p.count) return;
  if (p.count < 0x7fffffff)
    offsets<u32>((u32)i, p.rank, p.dims, p.src, p.dst, &from, &to);
  else
    offsets<u64>((u64)i, p.rank, p.dims, p.src, p.dst, &from, &to);
  ((T*)p.y)[to] = ((const T*)p.x)[from];
}

// Tiles of 32x32 through shared memory: dims [batch, rows, columns], x dense along rows, y along
// columns (its last two axes are swapped). src and dst hold the strides of all three.
template <class T>
DEVICE void transpose(const carnot_cuda_copy_params& p) {
  __shared__ T tile[32][33];
  int tx = threadIdx.x & 31, ty = threadIdx.x >> 5;
  i64 row0 = blockIdx.y * 32ll, column0 = blockIdx.x * 32ll;
  const T* x = (const T*)p.x + blockIdx.z * p.src[0];
  T* y = (T*)p.y + blockIdx.z * p.dst[0];
  for (int k = ty; k < 32; k += 8) {
    i64 row = row0 + tx, column = column0 + k;
    if (row < p.dims[1] && column < p.dims[2]) tile[k][tx] = x[row + column * p.src[2]];
  }
  __syncthreads();
  for (int k = ty; k < 32; k += 8) {
    i64 row = row0 + k, column = column0 + tx;
    if (row < p.dims[1] && column < p.dims[2]) y[row * p.dst[1] + column] = tile[tx][k];
  }
}

// The same of 16-bit elements where one of the two axes has eight, which are one vector: a thread
// reads or writes it, and neighbours the elements of the other axis. FROM: x holds the vectors.
template <bool FROM>
DEVICE void transpose_eights(const carnot_cuda_copy_params& p) {
  const i64 i = THREAD, size = p.dims[FROM ? 2 : 1];
  if (i >= p.dims[0] * size) return;
  const i64 batch = i / size, at = i - batch * size;
  const u16* x = (const u16*)p.x + batch * p.src[0];
  u16* y = (u16*)p.y + batch * p.dst[0];
  half8 v = {};
  if (FROM) v = *(const half8*)(x + at * p.src[2]);
#pragma unroll
  for (int k = 0; k < 8; k++) {
    if (FROM)
      y[k * p.dst[1] + at] = (u16)(v.two[k / 2] >> k % 2 * 16);
    else
      v.two[k / 2] |= (u32)x[k * p.src[2] + at] << k % 2 * 16;
  }
  if (!FROM) *(half8*)(y + at * p.dst[1]) = v;
}

template <class T>
DEVICE void concat(const carnot_cuda_concat_params& p) {
  const i64 width = p.ends[p.count - 1], i = THREAD;
  if (i >= p.rows * width) return;
  const i64 row = i / width;
  const int at = (int)(i - row * width);
  int low = 0, high = p.count - 1;
  while (low < high) {
    int middle = (low + high) / 2;
    if (at < p.ends[middle])
      high = middle;
    else
      low = middle + 1;
  }
  const int begin = low ? p.ends[low - 1] : 0;
  T* part = (T*)p.parts[low] + row * p.pitches[low] + (at - begin);
  T* whole = (T*)p.whole + row * p.pitch + p.starts[low] + (at - begin);
  if (p.splits)
    *part = *whole;
  else
    *whole = *part;
}
