// Cross-covariance attention of 16-bit floats, without tensor cores: positions pass through shared
// memory, products of columns are summed in registers by tiles of 4 x 4.
#pragma once

#include "kernel/cuda/attention/cross_covariance_params.h"
#include "kernel/cuda/common/functions.cuh"
#include "kernel/cuda/common/numeric.cuh"

template <class T, int SIZE>
struct cross_covariance {
  enum {
    THREADS = CARNOT_CUDA_CROSS_THREADS,
    POSITIONS = CARNOT_CUDA_CROSS_POSITIONS,
    ROW = SIZE / 4,                        // tiles across
    PARTS = THREADS / (ROW * ROW),         // threads of a tile, each with some of the positions
    COLUMNS = 2 * SIZE,                    // of q and of k
    SHARES = THREADS / (2 * SIZE),         // threads of a column's length
    STAGED = POSITIONS * 2 * SIZE,         // floats
    SUMS = PARTS * SIZE * (SIZE + 1),      // of partial products
    LENGTHS = THREADS / COLUMNS * COLUMNS  // partial squares
  };
  const carnot_cuda_cross_covariance_params& p;
  f32 *staged, *sums, *lengths;
  const T* x;  // of the head: q of the first position
  i64 apart;   // from a position to the next

  // Columns behind the head's are zero.
  DEVICE_ONLY void stage(int from) {
    for (int i = threadIdx.x; i < STAGED; i += THREADS) {
      int n = from + i / COLUMNS, c = i % COLUMNS, part = c / SIZE, e = c % SIZE;
      bool has = n < p.positions && e < p.size;
      staged[i] = has ? load(x[n * apart + part * p.heads * p.size + e]) : 0.f;
    }
  }
  DEVICE_ONLY void multiply(f32 (*sum)[4], f32* square) {
    int tile = threadIdx.x / PARTS, part = threadIdx.x % PARTS, row = tile / ROW * 4,
        column = SIZE + tile % ROW * 4;
    if (tile < ROW * ROW)
      for (int n = part; n < POSITIONS; n += PARTS) {
        const f32 *q = staged + n * COLUMNS + row, *k = staged + n * COLUMNS + column;
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) sum[i][j] = fmaf(q[i], k[j], sum[i][j]);
      }
    if (threadIdx.x >= LENGTHS) return;
    for (int n = threadIdx.x / COLUMNS; n < POSITIONS; n += SHARES) {
      f32 v = staged[n * COLUMNS + threadIdx.x % COLUMNS];
      *square = fmaf(v, v, *square);
    }
  }
  DEVICE_ONLY void keep(const f32 (*sum)[4], f32 square) {
    int tile = threadIdx.x / PARTS, part = threadIdx.x % PARTS, row = tile / ROW * 4,
        column = tile % ROW * 4;
    if (tile < ROW * ROW)
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
          sums[(part * SIZE + row + i) * (SIZE + 1) + column + j] = sum[i][j];
    if (threadIdx.x < LENGTHS) lengths[threadIdx.x] = square;
  }
  // 1 / max(length, epsilon) of each column, in place of its first partial square.
  DEVICE_ONLY void invert_lengths() {
    if (threadIdx.x >= COLUMNS) return;
    f32 sum = 0;
    for (int i = 0; i < SHARES; i++) sum += lengths[i * COLUMNS + threadIdx.x];
    lengths[threadIdx.x] = 1 / hi(root(sum), p.epsilon);
  }
  // A thread a row: of its weights.
  DEVICE_ONLY void weigh(int h) {
    if ((int)threadIdx.x >= p.size) return;
    const f32 factor = load(((const T*)p.temperature)[h]) * lengths[threadIdx.x];
    f32 *row = sums + threadIdx.x * (SIZE + 1), top = lowest<f32>(), total = 0;
    for (int e = 0; e < p.size; e++) {
      f32 v = row[e];
      for (int part = 1; part < PARTS; part++) v += row[part * SIZE * (SIZE + 1) + e];
      row[e] = v * factor * lengths[SIZE + e];
      top = hi(top, row[e]);
    }
    for (int e = 0; e < p.size; e++) total += row[e] = expf(row[e] - top);
    for (int e = 0; e < p.size; e++) row[e] /= total;
  }
  DEVICE_ONLY void write(i64 b, int h) {
    const int width = p.heads * p.size;
    for (int n = threadIdx.x; n < p.positions; n += THREADS) {
      f32 v[SIZE];
#pragma unroll
      for (int e = 0; e < SIZE; e++) v[e] = e < p.size ? load(x[n * apart + 2 * width + e]) : 0.f;
      T* y = (T*)p.y + (b * p.positions + n) * width + h * p.size;
      for (int d = 0; d < p.size; d++) {
        f32 sum = 0;
#pragma unroll
        for (int e = 0; e < SIZE; e++)
          sum = fmaf(e < p.size ? sums[d * (SIZE + 1) + e] : 0.f, v[e], sum);
        y[d] = store_as<T>::of(sum);
      }
    }
  }
  DEVICE_ONLY void run() {
    extern __shared__ __align__(16) char shared[];
    staged = (f32*)shared, sums = staged + STAGED, lengths = sums + SUMS;
    const int h = blockIdx.x % p.heads;
    const i64 b = blockIdx.x / p.heads;
    apart = 3 * p.heads * p.size;
    x = (const T*)p.x + b * p.positions * apart + h * p.size;
    f32 sum[4][4] = {}, square = 0;
    for (int from = 0; from < p.positions; from += POSITIONS) {
      __syncthreads();
      stage(from);
      __syncthreads();
      multiply(sum, &square);
    }
    keep(sum, square);
    __syncthreads();
    invert_lengths();
    __syncthreads();
    weigh(h);
    __syncthreads();
    write(b, h);
  }
};
