// Cross-covariance attention of 16-bit floats, without tensor cores: positions pass through shared
// memory, products of columns are summed in registers by tiles of 4 x 4. Each block of a head
// computes all weights, and the results of some positions.
#pragma once

#include "kernel/cuda/attention/cross_covariance_params.h"
#include "kernel/cuda/common/functions.cuh"
#include "kernel/cuda/common/numeric.cuh"

template <class T, int SIZE>
struct cross_covariance {
  enum {
    THREADS = CARNOT_CUDA_CROSS_THREADS,
    POSITIONS = CARNOT_CUDA_CROSS_POSITIONS,
    ROW = SIZE / 4,                 // tiles across
    PARTS = THREADS / (ROW * ROW),  // threads of a tile, each with some of the positions
    COLUMNS = 2 * SIZE,             // of q and of k
    SHARES = THREADS / COLUMNS,     // threads of a column's length
    STAGED = POSITIONS * COLUMNS,   // floats
    READS = STAGED / THREADS,
    PITCH = SIZE + 4,  // of a row of weights
    LANES = 4,         // threads that share a row of weights
    GROUP = 8          // results of a thread
  };
  const carnot_cuda_cross_covariance_params& p;
  f32 *staged, *sums, *lengths;
  const T* x;  // of the head: q of the first position
  i64 apart;   // from a position to the next

  // Columns behind the head's are zero. Addresses are clamped instead of branched around: the loads
  // are issued at once.
  DEVICE_ONLY void read(int from, T* ahead) {
#pragma unroll
    for (int i = 0; i < READS; i++) {
      int at = threadIdx.x + i * THREADS, n = lo(from + at / COLUMNS, p.positions - 1),
          c = at % COLUMNS, part = c / SIZE, e = lo(c % SIZE, p.size - 1);
      ahead[i] = x[n * apart + part * p.heads * p.size + e];
    }
  }
  DEVICE_ONLY void stage(int from, const T* ahead) {
#pragma unroll
    for (int i = 0; i < READS; i++) {
      int at = threadIdx.x + i * THREADS;
      bool has = from + at / COLUMNS < p.positions && at % COLUMNS % SIZE < p.size;
      staged[at] = has ? load(ahead[i]) : 0.f;
    }
  }
  DEVICE_ONLY void multiply(f32 (*sum)[4], f32* square) {
    int tile = threadIdx.x / PARTS, part = threadIdx.x % PARTS, row = tile / ROW * 4,
        column = SIZE + tile % ROW * 4;
    if (tile < ROW * ROW)
#pragma unroll 4
      for (int n = part; n < POSITIONS; n += PARTS) {
        const float4 q = *(const float4*)(staged + n * COLUMNS + row),
                     k = *(const float4*)(staged + n * COLUMNS + column);
        const f32 a[4] = {q.x, q.y, q.z, q.w}, b[4] = {k.x, k.y, k.z, k.w};
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
          for (int j = 0; j < 4; j++) sum[i][j] = fmaf(a[i], b[j], sum[i][j]);
      }
    if (threadIdx.x >= SHARES * COLUMNS) return;
#pragma unroll 8
    for (int n = threadIdx.x / COLUMNS; n < POSITIONS; n += SHARES) {
      f32 v = staged[n * COLUMNS + threadIdx.x % COLUMNS];
      *square = fmaf(v, v, *square);
    }
  }
  DEVICE_ONLY void keep(const f32 (*sum)[4], f32 square) {
    int tile = threadIdx.x / PARTS, part = threadIdx.x % PARTS, row = tile / ROW * 4,
        column = tile % ROW * 4;
    if (tile < ROW * ROW)
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) sums[(part * SIZE + row + i) * PITCH + column + j] = sum[i][j];
    if (threadIdx.x < SHARES * COLUMNS) lengths[threadIdx.x] = square;
  }
  // 1 / max(length, epsilon) of each column, in place of its first partial square.
  DEVICE_ONLY void invert_lengths() {
    if (threadIdx.x >= COLUMNS) return;
    f32 sum = 0;
    for (int i = 0; i < SHARES; i++) sum += lengths[i * COLUMNS + threadIdx.x];
    lengths[threadIdx.x] = 1 / hi(root(sum), p.epsilon);
  }
  // Four threads a row: of its weights; 0 behind the head's size.
  DEVICE_ONLY void weigh(int h) {
    enum { EACH = SIZE / LANES };
    const int d = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    const bool has = d < SIZE;
    const f32 factor = has ? load(((const T*)p.temperature)[h]) * lengths[d] : 0;
    f32 *row = sums + (has ? d : 0) * PITCH, v[EACH], top = lowest<f32>(), total = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const int e = lane + i * LANES;
      v[i] = 0;
#pragma unroll
      for (int part = 0; part < PARTS; part++) v[i] += row[part * SIZE * PITCH + e];
      v[i] *= factor * lengths[SIZE + e];
      if (e < p.size) top = hi(top, v[i]);
    }
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) top = hi(top, __shfl_xor_sync(~0u, top, step));
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      v[i] = lane + i * LANES < p.size ? expf(v[i] - top) : 0.f;
      total += v[i];
    }
#pragma unroll
    for (int step = 1; step < LANES; step *= 2) total += __shfl_xor_sync(~0u, total, step);
    if (!has) return;
#pragma unroll
    for (int i = 0; i < EACH; i++) row[lane + i * LANES] = v[i] / total;
  }
  // Eight results of a position a thread.
  DEVICE_ONLY void write(i64 b, int h, int block) {
    const int width = p.heads * p.size, groups = (p.size + GROUP - 1) / GROUP;
    for (int i = block * THREADS + threadIdx.x; i < p.positions * groups; i += p.blocks * THREADS) {
      const int n = i / groups, first = i % groups * GROUP;
      const T* from = x + n * apart + 2 * width;
      T raw[SIZE];
      f32 v[SIZE], sum[GROUP] = {};
#pragma unroll
      for (int e = 0; e < SIZE; e++) raw[e] = from[lo(e, p.size - 1)];
#pragma unroll
      for (int e = 0; e < SIZE; e++) v[e] = e < p.size ? load(raw[e]) : 0.f;
#pragma unroll
      for (int e = 0; e < SIZE; e += 4)
#pragma unroll
        for (int d = 0; d < GROUP; d++) {
          const float4 w = *(const float4*)(sums + (first + d) * PITCH + e);
          sum[d] = fmaf(w.x, v[e],
                        fmaf(w.y, v[e + 1], fmaf(w.z, v[e + 2], fmaf(w.w, v[e + 3], sum[d]))));
        }
      T* y = (T*)p.y + (b * p.positions + n) * width + h * p.size + first;
#pragma unroll
      for (int d = 0; d < GROUP; d++)
        if (first + d < p.size) y[d] = store_as<T>::of(sum[d]);
    }
  }
  DEVICE_ONLY void run() {
    extern __shared__ __align__(16) char shared[];
    staged = (f32*)shared, sums = staged + STAGED, lengths = sums + PARTS * SIZE * PITCH;
    const int block = blockIdx.x % p.blocks, h = blockIdx.x / p.blocks % p.heads;
    const i64 b = blockIdx.x / p.blocks / p.heads;
    apart = 3 * p.heads * p.size;
    x = (const T*)p.x + b * p.positions * apart + h * p.size;
    f32 sum[4][4] = {}, square = 0;
    T ahead[READS];
    read(0, ahead);
    for (int from = 0; from < p.positions; from += POSITIONS) {
      __syncthreads();
      stage(from, ahead);
      __syncthreads();
      if (from + POSITIONS < p.positions) read(from + POSITIONS, ahead);
      multiply(sum, &square);
    }
    keep(sum, square);
    __syncthreads();
    invert_lengths();
    __syncthreads();
    weigh(h);
    __syncthreads();
    write(b, h, block);
  }
};
