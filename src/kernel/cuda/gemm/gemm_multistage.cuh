// Multistage GEMM of 16-bit floats or 8-bit integers with constant weights, and NHWC convolution as
// implicit GEMM (sm_80): a block computes a BM x BN tile over steps of 128 bytes along K, which
// cp.async loads into swizzled shared memory some stages ahead. Split-K: the blocks of a cluster
// share the K of one tile and add their parts through distributed shared memory in a fixed order.
// Weights are fetched before the previous kernel has ended (programmatic dependent launch).
//
// sm_90a multiplies by wgmma where BM >= 64, other architectures by mma.sync; both leave the
// accumulators of a warp's 16 rows in the same registers.
#pragma once

#include "kernel/cuda/common/stage.cuh"
#include "kernel/cuda/common/wgmma.cuh"
#include "kernel/cuda/gemm/epilogue.cuh"

#if __CUDA_ARCH__ >= 800

// Prefetches |bytes| (a multiple of 16) into L2.
DEVICE void prefetch(const void* from, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes));
#endif
}

// What the GEMM of 16-bit floats computes with. IS_GENERAL: in groups, or of filters that are no
// eights.
template <class T, bool IS_GENERAL>
struct gemm_halves {
  typedef T operand, weight;
  typedef f32 sum;
  typedef carnot_cuda_gemm_tile_params params;
  typedef gemm_epilogue<T, IS_GENERAL> epilogue;
  enum { GENERAL = IS_GENERAL };
  enum { LOAD = 16 };  // bytes of a load of x
  static DEVICE_ONLY const carnot_cuda_gemm_tile_params& tile(const params& p) { return p; }
  // Loads x, or zeros outside of the image.
  static DEVICE_ONLY void load_x(const params& p, u32 to, i64 from, bool there) {
    cp_async16(to, (const T*)p.x + (there ? from : 0), there ? 16 : 0);
  }
  static DEVICE_ONLY int pitch(const params& p) { return p.depth; }  // of weights, in elements
};

template <class N, int BM, int BN, int STAGES>
struct gemm_multistage {
  typedef typename N::operand T;
  typedef typename N::weight weight;
  typedef typename N::sum sum;
  enum {
    DEPTH = STAGE_PITCH / (int)sizeof(T),  // elements of a step
    PIECE = 16 / (int)sizeof(T),           // of a 16-byte vector
    LOADS = 16 / N::LOAD,                  // of x for such a vector
    LOADED = PIECE / LOADS,
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
  const typename N::params& all;
  const carnot_cuda_gemm_tile_params& p;
  u32 base;
  int piece, row0;  // of this thread's fetches
  i64 from[A];      // of its rows at tap 0; and the position of that tap
  int y[A], x[A];
  const weight* weights[B];
  bool is_filter[B];
  int n_end, first_channel;                                        // of the tile's group
  int last, k[LOADS], tap_y[LOADS], tap_x[LOADS], channel[LOADS];  // of the next fetch of x
  int kw;                                                          // and of weights
  sum sums[COLUMNS / 8][4];
  typename N::epilogue out;

  DEVICE_ONLY gemm_multistage(const typename N::params& params) : all(params), p(N::tile(params)) {}

  DEVICE_ONLY void start(i64 m0, int n0, int first, int end) {
    extern __shared__ char memory[];
    base = (shared_address(memory) + 1023) & ~1023u;
    piece = threadIdx.x % 8, row0 = threadIdx.x / 8;
    last = end;
    out.keep(all);
    kw = first + piece * PIECE;
#pragma unroll
    for (int i = 0; i < B; i++) {
      int n = n0 + row0 + i * STEP;
      is_filter[i] = n < n_end && row0 + i * STEP < BN;
      weights[i] = (const weight*)p.w + (is_filter[i] ? (i64)n * N::pitch(all) : 0);
    }
    if (p.prefetch && threadIdx.x < BN && n0 + (int)threadIdx.x < n_end) {
      const weight* at = (const weight*)p.w + (i64)(n0 + threadIdx.x) * N::pitch(all) + first;
      if (end > first) prefetch(at, ((end - first) * (int)sizeof(weight) + 15) & ~15);
    }
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      k[l] = kw + l * LOADED;
      channel[l] = k[l] % p.channels;
      int tap = k[l] / p.channels;
      tap_y[l] = tap / p.kernel_columns, tap_x[l] = tap % p.kernel_columns;
    }
#pragma unroll
    for (int i = 0; i < A; i++) {
      i64 m = m0 + row0 + i * STEP;
      bool inside = m < p.rows;
      u32 r = (u32)(inside ? m : 0), columns = (u32)p.out_columns, image;
      u32 line = r / columns, column = r - line * columns;
      image = line / (u32)p.out_rows, line -= image * (u32)p.out_rows;
      y[i] = inside ? (int)line * p.step[0] - p.begin[0] : -(1 << 30);
      x[i] = (int)column * p.step[1] - p.begin[1];
      from[i] = (((i64)image * p.in_rows + y[i]) * p.in_columns + x[i]) * p.pixel + first_channel;
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
    kw += DEPTH;
  }

  DEVICE_ONLY void fetch_x(int stage) {
    u32 to = base + stage * STAGE;
#pragma unroll
    for (int l = 0; l < LOADS; l++) {
      int dy = tap_y[l] * p.dilation[0], dx = tap_x[l] * p.dilation[1];
      i64 shift = ((i64)dy * p.in_columns + dx) * p.pixel + channel[l];
      bool inside = k[l] < last;
#pragma unroll
      for (int i = 0; i < A; i++) {
        bool there =
            inside && (u32)(y[i] + dy) < (u32)p.in_rows && (u32)(x[i] + dx) < (u32)p.in_columns;
        N::load_x(all, swizzled(to, row0 + i * STEP, piece) + l * N::LOAD, from[i] + shift, there);
      }
      k[l] += DEPTH;
      channel[l] += DEPTH;
      while (channel[l] >= p.channels) {
        channel[l] -= p.channels;
        if (++tap_x[l] == p.kernel_columns) tap_x[l] = 0, tap_y[l]++;
      }
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
      for (int s = 0; s < STAGE_PITCH / 32; s++)
        wgmma_of<T, BN>::multiply(&sums[0][0], da + 2 * s, db + 2 * s);
      wgmma_commit();
    } else
#pragma unroll
      for (int s = 0; s < STAGE_PITCH / 32; s++) {
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
        put_pair(base + ((row + 8 * h) * PITCH + column + 8 * j) * 4, sums[j][2 * h],
                 sums[j][2 * h + 1]);
  }

  // A thread keeps its eight columns |n| and walks down the rows, |AHEAD_ROWS| residuals ahead. The
  // loop over more than that stays rolled: large code must fit the instruction cache.
  template <int FORM, int AHEAD_ROWS>
  DEVICE_ONLY void finish_rows(i64 m, int n) {
    u32 from = base + (threadIdx.x / PIECES * PITCH + threadIdx.x % PIECES * 8) * 4;
    m += threadIdx.x / PIECES;
#pragma unroll 1
    for (int first = 0; first < TURNS; first += AHEAD_ROWS) {
      typename N::epilogue::residual residual[AHEAD_ROWS];
#pragma unroll
      for (int i = 0; i < AHEAD_ROWS; i++) residual[i] = out.residual_at(m + i * DOWN, n);
#pragma unroll
      for (int i = 0; i < AHEAD_ROWS; i++) {
        sum v[8];
        read_own_sums(v, from + i * DOWN * PITCH * 4);
        out.template put<FORM>(v, residual[i], m + i * DOWN, n);
      }
      from += AHEAD_ROWS * DOWN * PITCH * 4, m += AHEAD_ROWS * DOWN;
    }
  }
  DEVICE_ONLY void finish(i64 m, int n) {
    if constexpr (N::epilogue::FORMS == 1)
      finish_rows<0, TURNS>(m, n);
    else if (out.form == 0)
      finish_rows<0, (TURNS < 4 ? TURNS : 4)>(m, n);
    else if (out.form == 1)
      finish_rows<1, (TURNS < 4 ? TURNS : 4)>(m, n);
    else if (out.form == 2)
      finish_rows<2, (TURNS < 4 ? TURNS : 4)>(m, n);
    else
      finish_rows<3, 1>(m, n);
  }
  // Rows [first, end) of the tile, summed over the split-K parts of all ranks.
  template <int FORM>
  DEVICE_ONLY void finish_cluster(i64 m0, int n, int first, int end, u32 ranks) {
#pragma unroll 1
    for (int r = first + threadIdx.x / PIECES; r < end; r += DOWN) {
      u32 from = base + (r * PITCH + threadIdx.x % PIECES * 8) * 4;
      typename N::epilogue::residual residual = out.residual_at(m0 + r, n);
      sum parts[8][8];
#pragma unroll
      for (u32 k = 0; k < 8; k++)
        if (k < ranks) read_sums(parts[k], shared_of(from, k));
#pragma unroll
      for (u32 k = 1; k < 8; k++)
        if (k < ranks)
          for (int e = 0; e < 8; e++) parts[0][e] += parts[k][e];
      out.template put<FORM>(parts[0], residual, m0 + r, n);
    }
  }
  DEVICE_ONLY void finish_parts(i64 m0, int n, u32 rank, u32 ranks) {
    int rows = (BM + (int)ranks - 1) / (int)ranks, first = (int)rank * rows,
        end = lo(first + rows, BM);
    if constexpr (N::epilogue::FORMS == 1)
      finish_cluster<0>(m0, n, first, end, ranks);
    else if (out.form == 0)
      finish_cluster<0>(m0, n, first, end, ranks);
    else if (out.form == 1)
      finish_cluster<1>(m0, n, first, end, ranks);
    else if (out.form == 2)
      finish_cluster<2>(m0, n, first, end, ranks);
    else
      finish_cluster<3>(m0, n, first, end, ranks);
  }

  DEVICE_ONLY void run() {
    u32 ranks = gridDim.z, rank = blockIdx.z;
    int each = N::GENERAL && p.group_filters ? p.group_filters : p.filters,
        groups = N::GENERAL ? p.filters / each : 1;
    int across = (each + BN - 1) / BN, tile = (int)(blockIdx.x % (across * groups)),
        group = N::GENERAL ? tile / across : 0, n0 = group * each + (tile - group * across) * BN;
    i64 m0 = (i64)(blockIdx.x / (across * groups)) * BM;
    n_end = (group + 1) * each, first_channel = group * p.channels;
    int whole = (p.depth + DEPTH - 1) / DEPTH, share = (whole + ranks - 1) / ranks;
    int first = (int)rank * share * DEPTH, end = lo(first + share * DEPTH, p.depth);
    int steps = end > first ? (end - first + DEPTH - 1) / DEPTH : 0;
    start(m0, n0, first, end);
    if constexpr (N::GENERAL) out.end = (n_end + 7) / 8;
    for (int s = 0; s < AHEAD; s++)
      if (s < steps) fetch_weights(s);
    int n = n0 / 8 + threadIdx.x % PIECES;
    out.read_bias(all, n);
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
    finish_parts(m0, n, rank, ranks);
    cluster_sync();  // nobody leaves while others read its part
  }
};

#endif
