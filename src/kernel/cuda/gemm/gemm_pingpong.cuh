// Persistent, warp-specialized ping-pong GEMM (sm_90a), operands as in gemm_tma.cuh, for more tiles
// than multiprocessors: blocks are resident and walk over tiles of 128 rows. One producer thread
// runs ahead, past the ends of tiles; two consumer warpgroups take tiles in turns: one multiplies
// while the other runs its epilogue in registers and stores.
//
// With MAY_KEEP, where there is one column of tiles and its weights fit, a block loads them once
// and keeps them. Residual tiles are loaded ahead too: with STAGED_RESIDUAL 16-bit floats take
// stages behind the tile's operands, else they have slots behind stages and weights.
//
// The filters of each 32 are permuted in shared memory: filter 8 t + 2 b + e is at 8 b + 2 t + e,
// so that a lane's accumulators of four 8-column wgmma fragments are eight adjacent filters.
#pragma once

#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/gemm/gemm_tile_params.h"
#include "kernel/cuda/gemm/tma_cursor.cuh"

#if HAS_WGMMA

// The compiler moves other additions behind the branches of take_sums, which then copy sums.
DEVICE i32 add_here(i32 a, i32 b) {
  i32 sum;
  asm volatile("add.s32 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}

// SELF derives from this. It has fetch_filters_of(to, step, n, barrier), which loads the weights of
// a step for the tile's columns from |n| on, and finish(last), the epilogue of a tile: |last| is
// the stage that the tile's last wgmma reads, -1 where there is none. With |SLOT|, the bytes of a
// residual tile, it has fetch_residual(to, m, n, barrier), and |has_residual| says whether there is
// one. T: operand type of 1 or 2 bytes.
template <class SELF, class T, class SUM, int BN, bool STAGED_RESIDUAL, int PITCH = 128,
          int RESIDENT = 1, int SLOT = 0, bool MAY_KEEP = false>
struct gemm_pingpong {
  enum {
    BM = CARNOT_CUDA_GEMM_PINGPONG_ROWS,
    BAND = 16,
    GROUPS = BN / 32,
    SLOTS = CARNOT_CUDA_GEMM_PINGPONG_SLOTS,
    WARPS = 4,  // of a group
    // A staged residual: boxes of 64 columns, two of them a stage.
    BOXES = STAGED_RESIDUAL ? (BN + 63) / 64 : 0,
    BOX_BYTES = BM * 128
  };
  const carnot_cuda_gemm_pingpong_params& p;
  u32 base, full, empty;
  u32 kept, kept_full;                           // weights that stay
  u32 residuals, residual_full, residual_empty;  // slots of residual tiles
  bool has_residual = false;
  int stage_bytes;
  int order;  // of the tile at hand among the block's
  SUM sums[2][BN / 8][4];

  struct place {
    int m, n;
  };  // of a tile: its first row and column

  DEVICE_ONLY gemm_pingpong(const carnot_cuda_gemm_pingpong_params& params) : p(params) {}
  DEVICE_ONLY SELF& self() { return *(SELF*)this; }
  DEVICE_ONLY bool keeps_weights() { return MAY_KEEP && p.keeps_weights; }
  DEVICE_ONLY int pitch() { return PITCH ? PITCH : p.pitch; }
  DEVICE_ONLY int depth() { return pitch() / (int)sizeof(T); }  // elements of a step
  DEVICE_ONLY u32 stage_at(int stage) { return base + stage * stage_bytes; }
  DEVICE_ONLY u32 weights_at(int stage, int s) {
    return keeps_weights() ? kept + s * BN * pitch() : stage_at(stage) + BM * pitch();
  }

  // Bands of tiles, column by column, so that those at work at a time share rows and columns.
  DEVICE_ONLY place find(int tile) {
    int in_band = BAND * p.across, band = tile / in_band, at = tile - band * in_band,
        height = lo((int)BAND, p.down - band * BAND), column = at / height;
    return {(band * BAND + at - column * height) * BM, column * BN};
  }

  DEVICE_ONLY void start() {
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * CARNOT_CUDA_GEMM_TMA_STAGES + 1 + 2 * SLOTS];
    stage_bytes = (keeps_weights() ? BM : BM + BN) * pitch();
    base = (shared_address(memory) + 1023) & ~1023u;
    kept = base + p.stages * stage_bytes;
    residuals = kept + (keeps_weights() ? p.steps * BN * pitch() : 0);
    full = shared_address(barriers), empty = full + CARNOT_CUDA_GEMM_TMA_STAGES * 8;
    kept_full = empty + CARNOT_CUDA_GEMM_TMA_STAGES * 8;
    residual_full = kept_full + 8, residual_empty = residual_full + SLOTS * 8;
    if (threadIdx.x == 0) {
      for (int i = 0; i < p.stages; i++)
        barrier_init(full + i * 8, 1), barrier_init(empty + i * 8, 1);
      if (MAY_KEEP) barrier_init(kept_full, 1);
      for (int i = 0; SLOT && i < SLOTS; i++)
        barrier_init(residual_full + i * 8, 1), barrier_init(residual_empty + i * 8, WARPS);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }

  // ---- the thread that fetches ----

  DEVICE_ONLY void fetch_weights(int stage, int s, int n) {
    barrier_expect(full + stage * 8, stage_bytes);
    if (!keeps_weights()) self().fetch_filters_of(weights_at(stage, s), s, n, full + stage * 8);
  }
  DEVICE_ONLY void fetch_kept_weights() {
    barrier_expect(kept_full, p.steps * BN * pitch());
    for (int s = 0; s < p.steps; s++) self().fetch_filters_of(weights_at(0, s), s, 0, kept_full);
  }
  DEVICE_ONLY void fetch_residual_of(place at) {
    int slot = order % SLOTS;
    barrier_wait(residual_empty + slot * 8, (order / SLOTS & 1) ^ 1);
    barrier_expect(residual_full + slot * 8, SLOT);
    self().fetch_residual(residuals + slot * SLOT, at.m, at.n, residual_full + slot * 8);
  }
  DEVICE_ONLY void fetch_staged_residual(int stage, int part, place at) {
    int boxes = lo(2, BOXES - part * 2);
    barrier_expect(full + stage * 8, boxes * BOX_BYTES);
    for (int i = 0; i < boxes; i++)
      tma_load_tiled(stage_at(stage) + i * BOX_BYTES, &p.residual, at.n + (part * 2 + i) * 64, at.m,
                     full + stage * 8, 0, false);
  }
  DEVICE_ONLY void produce() {
    tma_cursor<carnot_cuda_gemm_pingpong_params> next{p, depth()};
    asm volatile("prefetch.tensormap [%0];\nprefetch.tensormap [%1];" ::"l"(&p.w), "l"(&p.x)
                 : "memory");
    int ahead = keeps_weights() ? 0 : lo(p.stages, p.steps), stage = 0;
    if (keeps_weights()) fetch_kept_weights();
    for (int s = 0; s < ahead; s++) fetch_weights(s, s, find(blockIdx.x).n);
    wait_for_previous();
    u32 parity = 1;
    order = 0;
#pragma unroll 1
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x, order++) {
      place at = find(tile);
      next.aim(at.m, 0);
      if constexpr (SLOT)
        if (has_residual) fetch_residual_of(at);
#pragma unroll 1
      for (int s = 0; s < p.steps; s++) {
        if (ahead)
          ahead--;
        else {
          barrier_wait(empty + stage * 8, parity);
          fetch_weights(stage, s, at.n);
        }
        next.fetch_x(stage_at(stage), full + stage * 8, 0, false);
        if (++stage == p.stages) stage = 0, parity ^= 1;
      }
#pragma unroll 1
      for (int part = 0; BOXES && part < p.stages_each - p.steps; part++) {
        barrier_wait(empty + stage * 8, parity);
        fetch_staged_residual(stage, part, at);
        if (++stage == p.stages) stage = 0, parity ^= 1;
      }
    }
  }

  // ---- those that multiply ----

  DEVICE_ONLY void release(int stage) {
    if (threadIdx.x % 128 == 0) barrier_arrive(empty + stage * 8);
  }
  // 32 bytes of a step; without |add| the sums begin.
  template <int BYTES>
  DEVICE_ONLY void multiply_slice(u64 a, u64 b, int slice, int add) {
#pragma unroll
    for (int h = 0; h < 2; h++)
      wgmma_of<T, BN>::multiply(&sums[h][0][0], a + 2 * slice + h * (64 * BYTES / 16),
                                b + 2 * slice, add);
  }
  // Leaves the last step under way; returns its stage. Steps of BYTES: the wgmma of a step are one
  // group where their number is known.
  template <int BYTES>
  DEVICE_ONLY int multiply_steps() {
    int stage = order * p.stages_each, round = stage / p.stages, before = 0;
    stage -= round * p.stages;
    u32 parity = round & 1;
#pragma unroll 1
    for (int s = 0; s < p.steps; s++) {
      u32 a = stage_at(stage);
      barrier_wait(full + stage * 8, parity);
      u64 da = wgmma_descriptor(a, BYTES), db = wgmma_descriptor(weights_at(stage, s), BYTES);
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < BYTES / 32; i++) multiply_slice<BYTES>(da, db, i, s + i);
      wgmma_commit();
      wgmma_wait<1>();
      if (s) release(before);
      before = stage;
      if (++stage == p.stages) stage = 0, parity ^= 1;
    }
    return before;
  }
  DEVICE_ONLY int multiply() {
    return PITCH || p.pitch == STAGE_PITCH ? multiply_steps<STAGE_PITCH>()
                                           : multiply_steps<STAGE_PITCH / 2>();
  }

  // Of each 32 columns a lane has vectors of eight columns in four rows.
  i64 first;            // the first vector, of rows that are next to one another
  int rows, n, pieces;  // rows and vectors from the first to the ends; vectors of a row
  DEVICE_ONLY int below(int i) { return i % 2 * 8 + i / 2 * 64; }
  DEVICE_ONLY bool has(int i, int g) { return below(i) < rows && g * 4 < n; }
  // The lane's vector of eight columns in a matrix whose rows are next to one another.
  DEVICE_ONLY i64 vector_at(int i, int g) { return first + (below(i) * pieces + g * 4); }
  // The lane's vector V of eight columns in a matrix whose rows are |pitch| columns apart. The row
  // is computed here, registers are few; an address is one multiplication.
  template <class V>
  DEVICE_ONLY V* vector_of(const void* matrix, int pitch, int i, int g) {
    int row = (int)p.gemm.rows - rows + below(i);
    return (V*)((char*)matrix + (i64)row * (pitch * (int)sizeof(V) / 8)) + (pieces - n + g * 4);
  }
  DEVICE_ONLY void aim(place at) {
    int lane = threadIdx.x % 32, column = at.n / 8 + lane % 4;
    i64 row = at.m + threadIdx.x % 128 / 32 * 16 + lane / 4;
    pieces = p.gemm.filters / 8, first = row * pieces + column;
    rows = (int)(p.gemm.rows - row), n = pieces - column;
  }
  DEVICE_ONLY SUM& sum(int i, int g, int k) {
    return sums[i / 2][g * 4 + k / 2][i % 2 * 2 + k % 2];
  }
  // v[i][k] = of(sum, k) of the lane's columns [32 g, 32 g + 32), by row. With it an epilogue can
  // be a loop over |g|: unrolled, a long one misses the instruction cache.
  template <int G = 0, class V, class F>
  DEVICE_ONLY void take_sums(int g, V (*v)[8], const F& of) {
    if (g == G) {
#pragma unroll
      for (int i = 0; i < 4; i++)
#pragma unroll
        for (int k = 0; k < 8; k++) v[i][k] = of(sum(i, G, k), k);
      asm volatile("" ::: "memory");  // a branch, not a selection of each value
    } else if constexpr (G + 1 < GROUPS) {
      take_sums<G + 1>(g, v, of);
    }
  }
  // Columns [128 part, 128 part + 128) of the tile's staged residual: finds their stage and waits
  // for it where |is_tile|, reads the lane's vectors in it, and releases it when the group has
  // read.
  int residual_stage;
  u32 residual_at;  // the lane's first vector in it
  DEVICE_ONLY void find_staged_residual(int part, bool is_tile) {
    int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    int at = order * p.stages_each + p.steps + part, round = at / p.stages;
    residual_stage = at - round * p.stages;
    residual_at = stage_at(residual_stage) + row * 128 + ((lane % 4 ^ lane / 4) << 4);
    if (is_tile) barrier_wait(full + residual_stage * 8, round & 1);
  }
  DEVICE_ONLY half8 staged_residual(int i, int g) {
    half8 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.two[0]), "=r"(v.two[1]), "=r"(v.two[2]), "=r"(v.two[3])
                 : "r"((residual_at ^ g % 2 * 64) + (g / 2 % 2 * BOX_BYTES + below(i) * 128)));
    return v;
  }
  // Loads from shared memory may be under way still; TMA writes there by another proxy.
  DEVICE_ONLY void release_staged_residual() {
    wgmma_fence_async();
    asm volatile("bar.sync %0, 128;" ::"r"(2 + threadIdx.x / 128) : "memory");
    release(residual_stage);
  }
  // The residual of the tile at hand is in its slot; and no longer needed, said by each warp.
  DEVICE_ONLY u32 residual_slot() { return residuals + order % SLOTS * SLOT; }
  DEVICE_ONLY void wait_for_residual() {
    barrier_wait(residual_full + order % SLOTS * 8, order / SLOTS & 1);
  }
  DEVICE_ONLY void release_residual() {
    asm volatile("bar.warp.sync -1;" ::: "memory");
    if (threadIdx.x % 32 == 0) barrier_arrive(residual_empty + order % SLOTS * 8);
  }
  // The second group has time until its first tile: it goes through the end of a tile that is
  // nowhere, so that the first group finds that code in the cache.
  DEVICE_ONLY void consume(int side) {
    int tile = blockIdx.x + side * gridDim.x;
    bool rehearse = side;
    order = side;
    if (side)
      asm volatile("bar.arrive 1, 256;" ::: "memory");
    else
      wait_for_previous();
#pragma unroll 1
    while (tile < p.tiles || rehearse) {
      int last = -1;
      if (!rehearse) {
        asm volatile("bar.sync %0, 256;" ::"r"(1 + side) : "memory");
        if (keeps_weights() && order == side) barrier_wait(kept_full, 0);
        last = multiply();
        // The other group begins while the last step is multiplied. It waits for stages by parity,
        // which is of no use while an earlier load to one, the residual, is under way.
        bool is_other_next = tile + (int)gridDim.x < p.tiles;
        for (int part = 0; BOXES && is_other_next && part < p.stages_each - p.steps; part++)
          find_staged_residual(part, true);
        if (is_other_next) asm volatile("bar.arrive %0, 256;" ::"r"(2 - side) : "memory");
      }
      aim(find(tile));
      if (rehearse) rows = n = 0;
      self().finish(last);
      if (rehearse) {
        rehearse = false;
        wait_for_previous();
      } else {
        order += 2, tile += 2 * gridDim.x;
      }
    }
  }

  DEVICE_ONLY void run() {
    start();
    if (threadIdx.x < 128) {
      give_registers<24>();
      if (threadIdx.x == 0) produce();
    } else {
      take_registers<(RESIDENT == 1 ? 240 : 104)>();
      consume(threadIdx.x / 128 - 1);
    }
  }
};

#endif
