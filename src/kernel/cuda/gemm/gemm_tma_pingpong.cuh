// Persistent, warp-specialized ping-pong GEMM of 16-bit floats (sm_90a), operands as in
// gemm_tma.cuh, for more tiles than multiprocessors: blocks are resident and walk over tiles of 128
// rows. One producer thread runs ahead, past the ends of tiles; two consumer warpgroups take tiles
// in turns: one multiplies while the other runs its epilogue (bias, residual, activation) in
// registers and stores.
//
// The tensor map of the weights permutes the filters of each 32: filter 8 t + 2 b + e is at 8 b + 2
// t + e, so that a lane's accumulators of four 8-column wgmma fragments are eight adjacent filters.
#pragma once

#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/gemm/gemm_tile_params.h"
#include "kernel/cuda/gemm/tma.cuh"

#if HAS_WGMMA

template <int N>
DEVICE void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N>
DEVICE void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
// The box of filters from |filter| on, in that order.
DEVICE void fetch_filters(u32 to, const void* map, int column, int filter, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, "
      "{%2,%3,%3,%3,%4}], [%5];" ::"r"(to),
      "l"(map), "r"(column), "r"(0), "r"(filter / 32), "r"(barrier)
      : "memory");
}
// v / (1 + 2^(v (c[0] + t (c[1] + t c[2])))), t = min(v v, 36), of eight values, step by step:
// independent instructions hide the latency.
DEVICE void gate8(f32* v, const f32* c) {
  f32 z[8];
#pragma unroll
  for (int k = 0; k < 8; k++) {
    f32 t = fminf(v[k] * v[k], 36);
    z[k] = v[k] * (c[0] + t * (c[1] + t * c[2]));
  }
#pragma unroll
  for (int k = 0; k < 8; k++) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(z[k]));
#pragma unroll
  for (int k = 0; k < 8; k++) z[k] += 1;
#pragma unroll
  for (int k = 0; k < 8; k++) asm volatile("rcp.approx.ftz.f32 %0, %0;" : "+f"(z[k]));
#pragma unroll
  for (int k = 0; k < 8; k++) v[k] *= z[k];
}

template <class T, int BN>
struct gemm_tma_pingpong {
  enum {
    BM = CARNOT_CUDA_GEMM_PINGPONG_ROWS,
    STAGE = (BM + BN) * STAGE_PITCH,
    BAND = 16,
    GROUPS = BN / 32
  };
  const carnot_cuda_gemm_pingpong_params& p;
  u32 base, full, empty;
  int steps, tiles;
  f32 sums[2][BN / 8][4];

  struct place {
    int m, n;
  };  // of a tile: its first row and column

  DEVICE_ONLY gemm_tma_pingpong(const carnot_cuda_gemm_pingpong_params& params) : p(params) {}

  // Bands of tiles, column by column, so that those at work at a time share rows and columns.
  DEVICE_ONLY place find(int tile) {
    int in_band = BAND * p.across, band = tile / in_band, at = tile - band * in_band,
        height = lo((int)BAND, p.down - band * BAND), column = at / height;
    return {(band * BAND + at - column * height) * BM, column * BN};
  }

  DEVICE_ONLY void start() {
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * CARNOT_CUDA_GEMM_TMA_STAGES];
    base = (shared_address(memory) + 1023) & ~1023u;
    full = shared_address(barriers), empty = full + CARNOT_CUDA_GEMM_TMA_STAGES * 8;
    steps = p.taps * p.chunks, tiles = p.down * p.across;
    if (threadIdx.x == 0) {
      for (int i = 0; i < p.stages; i++)
        barrier_init(full + i * 8, 1), barrier_init(empty + i * 8, 1);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }

  // ---- the thread that fetches ----

  DEVICE_ONLY void fetch_weights(int stage, int s, int n) {
    barrier_expect(full + stage * 8, STAGE);
    fetch_filters(base + stage * STAGE + BM * STAGE_PITCH, &p.w, s * STAGE_DEPTH, n,
                  full + stage * 8);
  }
  DEVICE_ONLY void produce() {
    tma_cursor<carnot_cuda_gemm_pingpong_params> next{p};
    asm volatile("prefetch.tensormap [%0];\nprefetch.tensormap [%1];" ::"l"(&p.w), "l"(&p.x)
                 : "memory");
    int ahead = lo(p.stages, steps), stage = 0;
    for (int s = 0; s < ahead; s++) fetch_weights(s, s, find(blockIdx.x).n);
    wait_for_previous();
    u32 parity = 1;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      place at = find(tile);
      next.aim(at.m, 0);
#pragma unroll 1
      for (int s = 0; s < steps; s++) {
        if (ahead)
          ahead--;
        else {
          barrier_wait(empty + stage * 8, parity);
          fetch_weights(stage, s, at.n);
        }
        next.fetch_x(base + stage * STAGE, full + stage * 8, 0, false);
        if (++stage == p.stages) stage = 0, parity ^= 1;
      }
    }
  }

  // ---- those that multiply ----

  DEVICE_ONLY void release(int stage) {
    if (threadIdx.x % 128 == 0) barrier_arrive(empty + stage * 8);
  }
  // Leaves the last step under way; returns its stage.
  DEVICE_ONLY int multiply(int count) {
    int stage = count * steps, round = stage / p.stages, before = 0;
    stage -= round * p.stages;
    u32 parity = round & 1;
#pragma unroll 1
    for (int s = 0; s < steps; s++) {
      u32 a = base + stage * STAGE;
      barrier_wait(full + stage * 8, parity);
      u64 da = wgmma_descriptor(a), db = wgmma_descriptor(a + BM * STAGE_PITCH);
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < STAGE_DEPTH / 16; i++)
#pragma unroll
        for (int h = 0; h < 2; h++)
          wgmma_of<T, BN>::multiply(&sums[h][0][0], da + 2 * i + h * (64 * STAGE_PITCH / 16),
                                    db + 2 * i, s + i);
      wgmma_commit();
      wgmma_wait<1>();
      if (s) release(before);
      before = stage;
      if (++stage == p.stages) stage = 0, parity ^= 1;
    }
    return before;
  }

  // Of each 32 columns a lane has vectors of eight columns in four rows.
  i64 first;            // its first piece in the results
  int rows, n, pieces;  // rows and vectors from there to the ends; vectors of a row
  DEVICE_ONLY int below(int i) { return i % 2 * 8 + i / 2 * 64; }
  DEVICE_ONLY bool has(int i, int g) { return below(i) < rows && g * 4 < n; }
  DEVICE_ONLY i64 piece(int i, int g) { return first + (below(i) * pieces + g * 4); }
  DEVICE_ONLY void aim(place at) {
    int lane = threadIdx.x % 32, column = at.n / 8 + lane % 4;
    i64 row = at.m + threadIdx.x % 128 / 32 * 16 + lane / 4;
    pieces = p.gemm.filters / 8, first = row * pieces + column;
    rows = (int)(p.gemm.rows - row), n = pieces - column;
  }
  DEVICE_ONLY f32& sum(int i, int g, int k) {
    return sums[i / 2][g * 4 + k / 2][i % 2 * 2 + k % 2];
  }
  // Bias and residual of 32 columns; a gated activation has no residual before it.
  struct added {
    half8 bias, residual[4];
  };
  template <bool GATE>
  DEVICE_ONLY added read(int g) {
    added r = {};
    if (p.gemm.bias && g * 4 < n) r.bias = ((const half8*)p.gemm.bias)[pieces - n + g * 4];
    if (!GATE && p.gemm.residual)
#pragma unroll
      for (int i = 0; i < 4; i++)
        if (has(i, g)) r.residual[i] = ((const half8*)p.gemm.residual)[piece(i, g)];
    return r;
  }
  // |last|: the stage that the last wgmma of the tile reads; -1: none.
  template <bool GATE>
  DEVICE_ONLY void finish(int last) {
    u32 low = mma<T>::pair(p.gemm.low, p.gemm.low), high = mma<T>::pair(p.gemm.high, p.gemm.high);
    added next = read<GATE>(0);
    wgmma_wait<0>();
    if (last >= 0) release(last);
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      asm volatile("" ::: "memory");  // no reads ahead of their turn: registers are few
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int k = 0; k < 8; k++) {
          sum(i, g, k) += half8_at<T>(next.bias, k);
          if (!GATE) sum(i, g, k) += half8_at<T>(next.residual[i], k);
        }
      if (g + 1 < GROUPS) next = read<GATE>(g + 1);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        f32 v[8];
        half8 y;
#pragma unroll
        for (int k = 0; k < 8; k++) v[k] = sum(i, g, k);
        if (GATE) gate8(v, p.c);
#pragma unroll
        for (int k = 0; k < 4; k++) {
          y.two[k] = mma<T>::pair(v[2 * k], v[2 * k + 1]);
          if (!GATE) y.two[k] = mma<T>::clamp(y.two[k], low, high);
        }
        if (has(i, g)) ((half8*)p.gemm.y)[piece(i, g)] = y;
      }
    }
  }
  // The second group has time until its first tile: it goes through the end of a tile that is
  // nowhere, so that the first group finds that code in the cache.
  DEVICE_ONLY void consume(int side) {
    int count = side, tile = blockIdx.x + side * gridDim.x;
    bool rehearse = side;
    if (side)
      asm volatile("bar.arrive 1, 256;" ::: "memory");
    else
      wait_for_previous();
#pragma unroll 1
    while (tile < tiles || rehearse) {
      int last = -1;
      if (!rehearse) {
        asm volatile("bar.sync %0, 256;" ::"r"(1 + side) : "memory");
        last = multiply(count);
        // The other group begins while the last step is multiplied.
        if (tile + (int)gridDim.x < tiles)
          asm volatile("bar.arrive %0, 256;" ::"r"(2 - side) : "memory");
      }
      aim(find(tile));
      if (rehearse) rows = n = 0;
      if (p.gate)
        finish<true>(last);
      else
        finish<false>(last);
      if (rehearse) {
        rehearse = false;
        wait_for_previous();
      } else {
        count += 2, tile += 2 * gridDim.x;
      }
    }
  }

  DEVICE_ONLY void run() {
    start();
    if (threadIdx.x < 128) {
      give_registers<24>();
      if (threadIdx.x == 0) produce();
    } else {
      take_registers<240>();
      consume(threadIdx.x / 128 - 1);
    }
  }
};

#endif
