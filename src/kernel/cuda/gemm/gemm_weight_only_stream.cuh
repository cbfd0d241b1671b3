// GEMM of up to eight rows of 16-bit floats by packed integer weights with scales, at the rate of
// the memory, by bulk copies (sm_90a): gemm_weight_only.cuh for whole tiles along K and blocks of
// 32 and more. Blocks are persistent: each walks over column groups. Warps share K in ranges. A
// warp keeps its range of x in shared memory and copies weights into a ring of its own, which runs
// on from one column group to the next.
#pragma once

#include "kernel/cuda/common/mbarrier.cuh"
#include "kernel/cuda/gemm/weight_only_operands.cuh"

#if HAS_WGMMA

// SPAN: steps of 16 k of one scale.
template <class T, int BITS, int SPAN, bool HAS_HALF_SCALES, bool HAS_ZEROS>
struct gemm_weight_only_stream {
  typedef weight_only_type<T> type;
  typedef typename type::number number;
  enum {
    ROWS = CARNOT_CUDA_WEIGHT_ONLY_STREAM_ROWS,
    WARPS = CARNOT_CUDA_WEIGHT_ONLY_THREADS / 32,
    STAGES = CARNOT_CUDA_WEIGHT_ONLY_STREAM_STAGES,
    TILES = CARNOT_CUDA_WEIGHT_ONLY_STREAM_TILES,  // of a stage
    TILE_BYTES = CARNOT_CUDA_WEIGHT_ONLY_TILE,
    TILE_STEPS = BITS == 4 ? 4 : 2,
    GROUPS = TILE_STEPS / SPAN,  // of a tile
    // Of a block of weights, 16 columns.
    SCALE_BYTES = HAS_HALF_SCALES ? 32 : 64,
    ZERO_BYTES = HAS_ZEROS ? 32 : 0,
    // In a stage.
    SCALES_AT = TILES * TILE_BYTES,
    ZEROS_AT = SCALES_AT + TILES * GROUPS * SCALE_BYTES,
    STAGE = CARNOT_CUDA_WEIGHT_ONLY_STREAM_STAGE(GROUPS, SCALE_BYTES + ZERO_BYTES),
    // In shared memory.
    SUMS_AT = CARNOT_CUDA_WEIGHT_ONLY_STREAM_BARRIER_BYTES,
    RING_AT = SUMS_AT + CARNOT_CUDA_WEIGHT_ONLY_STREAM_SUM_BYTES,
    STEP_BYTES = 16 * (int)sizeof(T)  // of a row of x
  };
  static_assert(WARPS * (STAGES + 1) * 8 <= SUMS_AT, "the barriers have their bytes");
  const carnot_cuda_weight_only_params& p;
  char* memory;
  const i64 m0;  // of this block
  const int rows;
  const int warp, lane;
  const int begin, end;  // tiles of this warp
  // The next tiles that are copied.
  int next_tile, next_group, next_stage;

  DEVICE_ONLY gemm_weight_only_stream(const carnot_cuda_weight_only_params& params, char* shared)
      : p(params),
        memory(shared),
        m0((i64)blockIdx.y * params.height),
        rows((int)lo(params.rows - m0, (i64)params.height)),
        warp(threadIdx.x / 32),
        lane(threadIdx.x % 32),
        begin((int)((i64)params.tiles * warp / WARPS)),
        end((int)((i64)params.tiles * (warp + 1) / WARPS)),
        next_tile(begin),
        next_group(blockIdx.x),
        next_stage(0) {}

  // |stage|: STAGES for x.
  DEVICE_ONLY u32 barrier(int stage) const {
    return shared_address(memory) + (warp * (STAGES + 1) + stage) * 8;
  }
  DEVICE_ONLY char* stage_at(int stage) const {
    return memory + RING_AT + (warp * p.stages + stage) * STAGE;
  }
  DEVICE_ONLY char* x_at(int row) const {
    return stage_at(0) + (WARPS - warp) * p.stages * STAGE +
           row * CARNOT_CUDA_WEIGHT_ONLY_STREAM_X_ROW(p.depth);
  }
  DEVICE_ONLY int block_of(int step) const { return step >> p.shift; }

  static DEVICE_ONLY void copy(char* to, const void* from, u32 bytes, u32 full) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
        "[%3];" ::"r"(shared_address(to)),
        "l"(from), "r"(bytes), "r"(full)
        : "memory");
  }
  // One lane calls it.
  DEVICE_ONLY void copy_stage() {
    const int tiles = lo((int)TILES, end - next_tile), first = block_of(next_tile * TILE_STEPS),
              blocks = block_of((next_tile + tiles) * TILE_STEPS - 1) - first + 1;
    const i64 block = (i64)next_group * p.blocks + first;
    const u32 full = barrier(next_stage);
    char* to = stage_at(next_stage);
    barrier_expect(full, tiles * TILE_BYTES + blocks * (SCALE_BYTES + ZERO_BYTES));
    copy(to, (const char*)p.w + ((i64)next_group * p.tiles + next_tile) * TILE_BYTES,
         tiles * TILE_BYTES, full);
    copy(to + SCALES_AT, (const char*)p.scales + block * SCALE_BYTES, blocks * SCALE_BYTES, full);
    if (HAS_ZEROS)
      copy(to + ZEROS_AT, (const char*)p.zeros + block * ZERO_BYTES, blocks * ZERO_BYTES, full);
    next_tile += tiles;
    if (next_tile >= end) next_tile = begin, next_group += gridDim.x;
    if (++next_stage == p.stages) next_stage = 0;
  }
  DEVICE_ONLY bool has_next() const { return begin < end && next_group < p.column_groups; }
  // Weights first: they do not depend on the previous kernel.
  DEVICE_ONLY void begin_copies() {
    if (lane == 0) {
      for (int s = 0; s <= STAGES; s++) barrier_init(barrier(s), 1);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
      for (int s = 0; s < p.stages && has_next(); s++) copy_stage();
    }
    __syncwarp();
    wait_for_previous();
    if (begin == end) return;
    if (lane == 0) {
      const int first = begin * TILE_STEPS * STEP_BYTES,
                bytes = (end - begin) * TILE_STEPS * STEP_BYTES;
      barrier_expect(barrier(STAGES), rows * bytes);
      for (int m = 0; m < rows; m++)
        copy(x_at(m) + first, (const char*)p.x + (m0 + m) * p.depth * sizeof(T) + first, bytes,
             barrier(STAGES));
    }
    barrier_wait(barrier(STAGES), 0);
  }
  // Tile |tile|, the |i|-th of |stage|, whose first block of weights is |first|; |x|: this lane's
  // row.
  DEVICE_ONLY void multiply(const char* stage, int i, int tile, int first, const char* x,
                            f32* sums) const {
    const uint4 weights = *(const uint4*)(stage + i * TILE_BYTES + lane * 16);
    const u32 words[4] = {weights.x, weights.y, weights.z, weights.w};
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      const int block = block_of(tile * TILE_STEPS + g * SPAN) - first;
      const char* at = stage + SCALES_AT + block * SCALE_BYTES + lane / 4 * (SCALE_BYTES / 8);
      f32 scales[2], part[4] = {};
      weight_only_scales<T>(HAS_HALF_SCALES, *(const u32*)at,
                            HAS_HALF_SCALES ? 0 : ((const u32*)at)[1], scales);
      u32 zero[2] = {p.zero, p.zero};
      if (HAS_ZEROS)
        weight_only_zeros(*(const u32*)(stage + ZEROS_AT + block * 32 + lane / 4 * 4), zero);
#pragma unroll
      for (int s = g * SPAN; s < (g + 1) * SPAN; s++) {
        const uint2 b = *(const uint2*)(x + (tile * TILE_STEPS + s) * STEP_BYTES);
        u32 a[4];
        unpack_step<BITS>(words, s, zero, a, (number*)0);
        mma<number>::multiply(part, a, b.x, b.y);
      }
#pragma unroll
      for (int e = 0; e < 4; e++) sums[e] = fmaf(part[e], scales[e / 2], sums[e]);
    }
  }
  // Sums of all warps in their order, and the epilogue. |all| [WARPS][ROWS, 16].
  DEVICE_ONLY void finish(int group, const f32* sums, f32* all) const {
#pragma unroll
    for (int e = 0; e < 4; e++)
      all[warp * ROWS * 16 + (lane % 4 * 2 + e % 2) * 16 + e / 2 * 8 + lane / 4] = sums[e];
    __syncthreads();
    const int i = threadIdx.x, n = group * 16 + i % 16;
    if (i >= rows * 16 || n >= p.columns) return;
    f32 v = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) v += all[w * ROWS * 16 + i];
    weight_only_store<T>(p, m0 + i / 16, n, v);
  }
  DEVICE_ONLY void run() {
    begin_copies();
    const char* x = x_at(lo(lane / 4, rows - 1)) + lane % 4 * 8;
    int stage = 0, turn = 0;
    u32 parity = 0;
    for (int group = blockIdx.x; group < p.column_groups; group += gridDim.x) {
      f32 sums[4] = {};
      for (int tile = begin; tile < end; tile += TILES) {
        const int first = block_of(tile * TILE_STEPS);
        const char* from = stage_at(stage);
        barrier_wait(barrier(stage), parity);
        if (tile + TILES <= end) {
#pragma unroll
          for (int i = 0; i < TILES; i++) multiply(from, i, tile + i, first, x, sums);
        } else {
          for (int i = 0; tile + i < end; i++) multiply(from, i, tile + i, first, x, sums);
        }
        __syncwarp();
        if (lane == 0 && has_next()) copy_stage();
        if (++stage == p.stages) stage = 0, parity ^= 1;
      }
      finish(group, sums, (f32*)(memory + SUMS_AT) + turn * WARPS * ROWS * 16);
      turn ^= 1;  // the next sums are written while these are read
    }
  }
};

template <class T, int BITS, int SPAN>
DEVICE void run_gemm_weight_only_stream(const carnot_cuda_weight_only_params& p) {
  extern __shared__ __align__(128) char memory[];
  if (p.has_half_scales) {
    if (p.zeros)
      gemm_weight_only_stream<T, BITS, SPAN, true, true>(p, memory).run();
    else
      gemm_weight_only_stream<T, BITS, SPAN, true, false>(p, memory).run();
  } else if (p.zeros) {
    gemm_weight_only_stream<T, BITS, SPAN, false, true>(p, memory).run();
  } else {
    gemm_weight_only_stream<T, BITS, SPAN, false, false>(p, memory).run();
  }
}

#endif
