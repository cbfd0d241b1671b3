// Multistage GEMM of 16-bit floats with constant weights, and NHWC convolution as implicit GEMM
// (sm_80): a block computes a BM x BN tile over steps of 64 along K, which cp.async loads into
// swizzled shared memory some stages ahead. Split-K: the blocks of a cluster share the K of one
// tile and add their parts through distributed shared memory in a fixed order. Weights are fetched
// before the previous kernel has ended (programmatic dependent launch).
//
// sm_90a multiplies by wgmma where BM >= 64, other architectures by mma.sync; both leave the
// accumulators of a warp's 16 rows in the same registers.
#pragma once

#include "kernel/cuda/common/wgmma.cuh"
#include "kernel/cuda/gemm/epilogue.cuh"
#include "kernel/cuda/gemm/gemm_stage.cuh"

#if __CUDA_ARCH__ >= 800

// Prefetches |bytes| (a multiple of 16) into L2.
DEVICE void prefetch(const void* from, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
#endif
}

template <class T, int BM, int BN, int STAGES>
struct gemm_multistage {
  enum {
    GROUPED = HAS_WGMMA && BM >= 64,
    ROW_WARPS = BM / 16,
    COLUMN_WARPS = BM >= 64 ? 1 : 4,
    THREADS = ROW_WARPS * COLUMN_WARPS * 32,
    COLUMNS = BN / COLUMN_WARPS,  // of a warp
    STAGE = (BM + BN) * STAGE_PITCH,
    AHEAD = GROUPED ? STAGES - 2 : STAGES - 1,
    STEP = THREADS / 8,  // rows between two vectors of a thread
    A = BM / STEP,
    B = (BN + STEP - 1) / STEP,
    PITCH = BN + 4,           // floats of a row of the accumulators in shared memory
    PIECES = BN / 8,          // vectors of a row of results
    DOWN = THREADS / PIECES,  // rows between two vectors of a thread
    TURNS = BM / DOWN
  };
  const carnot_cuda_gemm_tile_params& p;
  u32 base;
  int piece, row0;  // of this thread's fetches
  i64 from[A];      // of its rows at tap 0; and the position of that tap
  int y[A], x[A];
  const T* weights[B];
  bool is_filter[B];
  int k, last, tap_y, tap_x, channel;  // of the next fetch of x
  int kw;                              // and of weights
  f32 sums[COLUMNS / 8][4];
  gemm_epilogue<T> out;

  DEVICE_ONLY gemm_multistage(const carnot_cuda_gemm_tile_params& params) : p(params) {}

  DEVICE_ONLY void start(i64 m0, int n0, int first, int end) {
    extern __shared__ char memory[];
    base = (shared_address(memory) + 1023) & ~1023u;
    piece = threadIdx.x % 8, row0 = threadIdx.x / 8;
    last = end;
    out.keep(p);
    k = kw = first + piece * 8;
#pragma unroll
    for (int i = 0; i < B; i++) {
      int n = n0 + row0 + i * STEP;
      is_filter[i] = n < p.filters && row0 + i * STEP < BN;
      weights[i] = (const T*)p.w + (is_filter[i] ? (i64)n * p.depth : 0);
    }
    if (p.prefetch && threadIdx.x < BN && n0 + (int)threadIdx.x < p.filters) {
      const T* at = (const T*)p.w + (i64)(n0 + threadIdx.x) * p.depth + first;
      if (end > first) prefetch(at, (end - first) * 2);
    }
    channel = k % p.channels;
    int tap = k / p.channels;
    tap_y = tap / p.kernel_columns, tap_x = tap % p.kernel_columns;
#pragma unroll
    for (int i = 0; i < A; i++) {
      i64 m = m0 + row0 + i * STEP;
      bool inside = m < p.rows;
      u32 r = (u32)(inside ? m : 0), columns = (u32)p.out_columns, image;
      u32 line = r / columns, column = r - line * columns;
      image = line / (u32)p.out_rows, line -= image * (u32)p.out_rows;
      y[i] = inside ? (int)line * p.step[0] - p.begin[0] : -(1 << 30);
      x[i] = (int)column * p.step[1] - p.begin[1];
      from[i] = (((i64)image * p.in_rows + y[i]) * p.in_columns + x[i]) * p.pixel;
    }
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++) sums[j][0] = sums[j][1] = sums[j][2] = sums[j][3] = 0;
  }

  DEVICE_ONLY void fetch_weights(int stage) {
    u32 to = base + stage * STAGE + BM * STAGE_PITCH;
#pragma unroll
    for (int i = 0; i < B; i++)
      if (BN % STEP == 0 || row0 + i * STEP < BN)
        cp_async16(swizzled(to, row0 + i * STEP, piece), weights[i] + (kw < last ? kw : 0),
                   is_filter[i] && kw < last ? 16 : 0);
    kw += STAGE_DEPTH;
  }

  DEVICE_ONLY void fetch_x(int stage) {
    u32 to = base + stage * STAGE;
    int dy = tap_y * p.dilation[0], dx = tap_x * p.dilation[1];
    i64 shift = ((i64)dy * p.in_columns + dx) * p.pixel + channel;
    bool inside = k < last;
#pragma unroll
    for (int i = 0; i < A; i++) {
      bool there =
          inside && (u32)(y[i] + dy) < (u32)p.in_rows && (u32)(x[i] + dx) < (u32)p.in_columns;
      cp_async16(swizzled(to, row0 + i * STEP, piece),
                 (const T*)p.x + (there ? from[i] + shift : 0), there ? 16 : 0);
    }
    k += STAGE_DEPTH;
    channel += STAGE_DEPTH;
    while (channel >= p.channels) {
      channel -= p.channels;
      if (++tap_x == p.kernel_columns) tap_x = 0, tap_y++;
    }
  }

  DEVICE_ONLY void multiply(int stage) {
    u32 a = base + stage * STAGE, b = a + BM * STAGE_PITCH;
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = warp % ROW_WARPS * 16,
        column = warp / ROW_WARPS * COLUMNS;
    if constexpr (GROUPED) {
      wgmma_begin();
      u64 da = wgmma_descriptor(a + row / 64 * 64 * STAGE_PITCH), db = wgmma_descriptor(b);
#pragma unroll
      for (int s = 0; s < STAGE_DEPTH / 16; s++)
        wgmma_of<T, BN>::multiply(&sums[0][0], da + 2 * s, db + 2 * s);
      wgmma_commit();
    } else
#pragma unroll
      for (int s = 0; s < STAGE_DEPTH / 16; s++) {
        u32 ra[4];
        ldmatrix4(ra, swizzled(a, row + (lane & 15), s * 2 + (lane >> 4)));
#pragma unroll
        for (int j = 0; j < COLUMNS / 8; j += 2) {
          u32 rb[4];
          ldmatrix4(rb, swizzled(b, column + (j + (lane >> 4)) * 8 + (lane & 7),
                                 s * 2 + (lane >> 3 & 1)));
          mma<T>::multiply(sums[j], ra, rb[0], rb[1]);
          mma<T>::multiply(sums[j + 1], ra, rb[2], rb[3]);
        }
      }
  }

  DEVICE_ONLY void keep_sums() {
    int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, row = warp % ROW_WARPS * 16 + (lane >> 2),
        column = warp / ROW_WARPS * COLUMNS + (lane & 3) * 2;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        asm volatile("st.shared.v2.f32 [%0], {%1,%2};" ::"r"(
                         base + ((row + 8 * h) * PITCH + column + 8 * j) * 4),
                     "f"(sums[j][2 * h]), "f"(sums[j][2 * h + 1])
                     : "memory");
  }

  // A thread keeps its eight columns |n| and walks down the rows.
  DEVICE_ONLY void finish(i64 m, int n) {
    u32 from = base + (threadIdx.x / PIECES * PITCH + threadIdx.x % PIECES * 8) * 4;
    m += threadIdx.x / PIECES;
    half8 residual[TURNS];
#pragma unroll
    for (int i = 0; i < TURNS; i++) residual[i] = out.residual_at(m + i * DOWN, n);
#pragma unroll
    for (int i = 0; i < TURNS; i++) {
      f32 v[8];
      read_own_sums(v, from + i * DOWN * PITCH * 4);
      out.put(v, residual[i], m + i * DOWN, n);
    }
  }
  // Rows [first, end) of the tile, summed over the split-K parts of all ranks.
  DEVICE_ONLY void finish_cluster(i64 m0, int n, int first, int end, u32 ranks) {
    for (int r = first + threadIdx.x / PIECES; r < end; r += DOWN) {
      u32 from = base + (r * PITCH + threadIdx.x % PIECES * 8) * 4;
      half8 residual = out.residual_at(m0 + r, n);
      f32 parts[8][8];
#pragma unroll
      for (u32 k = 0; k < 8; k++)
        if (k < ranks) read_sums(parts[k], shared_of(from, k));
#pragma unroll
      for (u32 k = 1; k < 8; k++)
        if (k < ranks)
          for (int e = 0; e < 8; e++) parts[0][e] += parts[k][e];
      out.put(parts[0], residual, m0 + r, n);
    }
  }

  DEVICE_ONLY void run() {
    u32 ranks = gridDim.z, rank = blockIdx.z;
    int across = (p.filters + BN - 1) / BN, n0 = (int)(blockIdx.x % across) * BN;
    i64 m0 = (i64)(blockIdx.x / across) * BM;
    int all = (p.depth + STAGE_DEPTH - 1) / STAGE_DEPTH, share = (all + ranks - 1) / ranks;
    int first = (int)rank * share * STAGE_DEPTH, end = lo(first + share * STAGE_DEPTH, p.depth);
    int steps = end > first ? (end - first + STAGE_DEPTH - 1) / STAGE_DEPTH : 0;
    start(m0, n0, first, end);
    for (int s = 0; s < AHEAD; s++)
      if (s < steps) fetch_weights(s);
    int n = n0 / 8 + threadIdx.x % PIECES;
    out.read_bias(p, n);
    wait_for_previous();
    for (int s = 0; s < AHEAD; s++) {
      if (s < steps) fetch_x(s);
      cp_async_commit();
    }
    for (int s = 0; s < steps; s++) {
      cp_async_wait<AHEAD - 1>();
      if (GROUPED) wgmma_fence_async();
      __syncthreads();
      multiply(s % STAGES);
      int next = s + AHEAD;
      if (next < steps) {
        fetch_weights(next % STAGES);
        fetch_x(next % STAGES);
      }
      cp_async_commit();
      if (GROUPED) wgmma_wait<1>();
    }
    if (GROUPED) wgmma_wait<0>();
    cp_async_wait<0>();
    __syncthreads();
    keep_sums();
    if (ranks == 1) {
      __syncthreads();
      finish(m0, n);
      return;
    }
    cluster_sync();
    int rows = (BM + (int)ranks - 1) / (int)ranks, mine = (int)rank * rows;
    finish_cluster(m0, n, mine, lo(mine + rows, BM), ranks);
    cluster_sync();  // nobody leaves while others read its part
  }
};

#endif
