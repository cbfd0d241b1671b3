// Warp-specialized GEMM of 16-bit floats, FP8 or 8-bit integers with constant weights, and NHWC
// convolution by TMA im2col, for sm_90a: one producer thread loads steps of 128 bytes along K by
// TMA, of bytes 64 too, the other warpgroups multiply by wgmma. Blocks of a cluster side by side
// fetch a part of their common rows each and multicast it. Split-K over the cluster's third
// dimension: each block finishes some rows, the others send it their accumulators of these, and it
// adds them in the order of ranks. Weights are fetched before the previous kernel has ended.
#pragma once

#include "kernel/cuda/common/cluster.cuh"
#include "kernel/cuda/gemm/epilogue.cuh"
#include "kernel/cuda/gemm/tma_cursor.cuh"

#if HAS_WGMMA

// T: operand type; EPILOGUE: gemm_epilogue, fp8_epilogue or gemm_int8_tma_epilogue; PITCH: bytes of
// a step, 0: by the parameters.
template <class T, int BM, int BN, class EPILOGUE = gemm_epilogue<T>, class SUM = f32,
          int PITCH = STAGE_PITCH>
struct gemm_tma {
  enum {
    THREADS = BM * 2,    // that multiply; one warp more fetches
    ROW = (BN + 4) * 4,  // bytes of a row of the accumulators
    PIECES = BN / 8,
    DOWN = THREADS / PIECES,  // rows between two vectors of a thread
    AHEAD = 4                 // residuals of a thread that are under way
  };
  typedef typename EPILOGUE::residual residual;
  const carnot_cuda_gemm_tma_params& p;
  u32 base, full, empty,
      joined;           // stages; mbarriers: of each stage (full, empty), and of the split-K parts
  u32 x, z;             // in the cluster
  int first, steps;     // of K
  u32 x_row, x_blocks;  // the first row of x that this block loads, and the blocks that receive it
  tma_cursor<carnot_cuda_gemm_tma_params> next;
  SUM sums[BN / 8][4];
  EPILOGUE out;

  DEVICE_ONLY gemm_tma(const carnot_cuda_gemm_tma_params& params, const EPILOGUE& end = {})
      : p(params), next{params, pitch() / (int)sizeof(T)}, out(end) {}

  DEVICE_ONLY int pitch() { return PITCH ? PITCH : p.pitch; }
  DEVICE_ONLY u32 stage_bytes() { return (BM + BN) * pitch(); }

  // Rows of the tile that one block finishes: a multiple of eight.
  DEVICE_ONLY int share() { return (BM / 8 + (int)gridDim.z - 1) / (int)gridDim.z * 8; }
  DEVICE_ONLY int rows_of(u32 rank) { return hi(0, lo(share(), BM - (int)rank * share())); }
  // Where block |owner| has the accumulators of rank |k|: its own overwrite the stages.
  DEVICE_ONLY u32 part(u32 k, u32 owner) {
    return base +
           (k == owner ? owner * share() * ROW : p.parts + (k < owner ? k : k - 1) * share() * ROW);
  }
  DEVICE_ONLY void meet() { asm volatile("bar.sync 1, %0;" ::"r"((int)THREADS) : "memory"); }

  DEVICE_ONLY void start() {
    extern __shared__ char memory[];
    __shared__ u64 barriers[2 * CARNOT_CUDA_GEMM_TMA_STAGES + 1];
    base = (shared_address(memory) + 1023) & ~1023u;
    full = shared_address(barriers), empty = full + CARNOT_CUDA_GEMM_TMA_STAGES * 8,
    joined = empty + CARNOT_CUDA_GEMM_TMA_STAGES * 8;
    x = blockIdx.x % p.across, z = blockIdx.z;
    int all = p.taps * p.chunks, each = (all + gridDim.z - 1) / gridDim.z;
    first = (int)z * each, steps = hi(0, lo(each, all - first));
    if (threadIdx.x == 0) {
      for (int i = 0; i < p.stages; i++) {
        barrier_init(full + i * 8, 1);
        barrier_init(empty + i * 8, p.across * (BM / 64));
      }
      barrier_init(joined, 1);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      barrier_expect(joined, rows_of(z) * ROW * (gridDim.z - 1));
    }
    if (p.across * gridDim.z > 1)
      asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::
                       : "memory");
    else
      __syncthreads();
  }

  // ---- the thread that fetches ----

  DEVICE_ONLY void fetch_weights(int stage) {
    barrier_expect(full + stage * 8, stage_bytes());
    next.fetch_weights(base + stage * stage_bytes() + BM * pitch(), blockIdx.x * BN,
                       full + stage * 8, 0, false);
  }
  DEVICE_ONLY void fetch_x(int stage) {
    next.fetch_x(base + stage * stage_bytes() + x_row * pitch(), full + stage * 8, x_blocks,
                 p.across > 1);
  }
  DEVICE_ONLY void produce() {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&p.x) : "memory");
    x_row = x * (BM / p.across), x_blocks = ((1u << p.across) - 1) << z * p.across;
    next.aim(blockIdx.y * BM + x_row, first);
    int filled = lo(p.stages, steps);
#pragma unroll 1
    for (int s = 0; s < filled; s++) fetch_weights(s);
    wait_for_previous();
#pragma unroll 1
    for (int s = 0; s < filled; s++) fetch_x(s);
    u32 parity = 0;
#pragma unroll 1
    for (int s = filled, stage = 0; s < steps; s++) {
      barrier_wait(empty + stage * 8, parity);
      fetch_weights(stage);
      fetch_x(stage);
      if (++stage == p.stages) stage = 0, parity ^= 1;
    }
  }

  // ---- those that multiply ----

  // Those who fetch into |stage| next may do so.
  DEVICE_ONLY void release(int stage) {
    int i = threadIdx.x % 128;
    if (i < p.across) barrier_arrive(shared_of(empty + stage * 8, z * p.across + i));
  }
  // Steps of BYTES: the wgmma of a step are one group where their number is known.
  template <int BYTES>
  DEVICE_ONLY void multiply_steps() {
    u32 parity = 0;
#pragma unroll 1
    for (int s = 0, stage = 0, before = 0; s < steps; s++) {
      u32 a = base + stage * stage_bytes();
      barrier_wait(full + stage * 8, parity);
      u64 da = wgmma_descriptor(a + threadIdx.x / 128 * 64 * BYTES, BYTES),
          db = wgmma_descriptor(a + BM * BYTES, BYTES);
      wgmma_begin();
#pragma unroll
      for (int i = 0; i < BYTES / 32; i++)
        wgmma_of<T, BN>::multiply(&sums[0][0], da + 2 * i, db + 2 * i, s + i);
      wgmma_commit();
      wgmma_wait<1>();
      if (s && s - 1 + p.stages < steps) release(before);
      before = stage;
      if (++stage == p.stages) stage = 0, parity ^= 1;
    }
    wgmma_wait<0>();
  }
  DEVICE_ONLY void multiply() {
    if (PITCH || p.pitch == STAGE_PITCH)
      multiply_steps<STAGE_PITCH>();
    else
      multiply_steps<STAGE_PITCH / 2>();
  }

  DEVICE_ONLY void keep_sums() {
    u32 to = base + (threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4) * ROW + threadIdx.x % 4 * 8;
#pragma unroll
    for (int j = 0; j < BN / 8; j++)
#pragma unroll
      for (int h = 0; h < 2; h++)
        put_pair(to + h * 8 * ROW + j * 32, sums[j][2 * h], sums[j][2 * h + 1]);
  }
  // Each thread to one of the blocks that finish rows.
  DEVICE_ONLY void send_sums() {
    u32 owner = threadIdx.x, rank = owner * p.across + x;
    if (owner >= gridDim.z || owner == z || !rows_of(owner)) return;
    dsmem_copy(shared_of(part(z, owner), rank), base + owner * share() * ROW, rows_of(owner) * ROW,
               shared_of(joined, rank));
  }
  // |residual|: of the thread's first rows, read early.
  template <int FORM>
  DEVICE_ONLY void finish_as(i64 m, int n, residual* residuals) {
    int row = threadIdx.x / PIECES, rows = rows_of(z);
    if (row >= DOWN) return;
#pragma unroll 1
    for (; row < rows; row += DOWN) {
      u32 from = row * ROW + threadIdx.x % PIECES * 32;
      SUM v[8];
      read_own_sums(v, part(0, z) + from);
#pragma unroll 4
      for (int k = 1; k < (int)gridDim.z; k++) {
        SUM more[8];
        read_own_sums(more, part(k, z) + from);
        for (int e = 0; e < 8; e++) v[e] += more[e];
      }
      out.template put<FORM>(v, residuals[0], m + row, n);
      for (int i = 1; i < AHEAD; i++) residuals[i - 1] = residuals[i];
      residuals[AHEAD - 1] = out.residual_at(m + row + AHEAD * DOWN, n);
    }
  }
  DEVICE_ONLY void finish(i64 m, int n, residual* residuals) {
    if constexpr (EPILOGUE::FORMS == 1)
      finish_as<0>(m, n, residuals);
    else if (out.form == 0)
      finish_as<0>(m, n, residuals);
    else if (out.form == 1)
      finish_as<1>(m, n, residuals);
    else if (out.form == 2)
      finish_as<2>(m, n, residuals);
    else
      finish_as<3>(m, n, residuals);
  }
  DEVICE_ONLY void consume() {
    i64 m = (i64)blockIdx.y * BM + z * share();
    int n = blockIdx.x * PIECES + threadIdx.x % PIECES;
    residual residuals[AHEAD];
    out.keep(p.gemm);
    out.read_bias(p.gemm, n);
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
      residuals[i] = out.residual_at(m + threadIdx.x / PIECES + i * DOWN, n);
    multiply();
    meet();
    keep_sums();
    wgmma_fence_async();
    meet();
    if (gridDim.z > 1) {
      send_sums();
      barrier_wait(joined, 0);
      asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    }
    finish(m, n, residuals);
    // What this block sends is read out of its memory.
    if (gridDim.z > 1) asm volatile("barrier.cluster.wait.aligned;" ::: "memory");
  }

  DEVICE_ONLY void run() {
    start();
    if (threadIdx.x < THREADS)
      consume();
    else if (threadIdx.x == THREADS)
      produce();
  }
};

#endif
