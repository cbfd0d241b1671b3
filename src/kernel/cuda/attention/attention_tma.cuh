// Warp-specialized attention of 16-bit floats and FP8 (sm_90a; FlashAttention-3) for many queries,
// by blocks that stay. One thread loads queries, keys and values by TMA, past the ends of tiles.
// Two or three warpgroups have 64 queries each: while a group turns scores into weights, its last
// weights are multiplied by their values. Of FP8, two warps transpose the values before that: wgmma
// takes FP8 with the summed axis innermost.
#pragma once

#include "kernel/cuda/attention/attention_fp8.cuh"
#include "kernel/cuda/attention/attention_mask.cuh"
#include "kernel/cuda/attention/attention_tma_params.h"
#include "kernel/cuda/attention/online_softmax.cuh"
#include "kernel/cuda/common/stage.cuh"
#include "kernel/cuda/common/tma.cuh"

#if HAS_WGMMA

// OPERAND: type of the operands, T or e4m3; T: type of the mask and of results; D: elements of a
// head, at most, a multiple of 64; GROUPS: warpgroups that multiply; BYTES: results are stored as
// bytes.
template <class OPERAND, class T, int D, int GROUPS, bool BYTES>
struct attention_tma {
  static constexpr bool FP8 = sizeof(OPERAND) == 1;
  enum {
    ROWS = GROUPS * 64,
    KEYS = CARNOT_CUDA_ATTENTION_TMA_KEYS,
    KIND_KEYS = CARNOT_CUDA_ATTENTION_TMA_KEYS / 2,  // of a tile of the classification
    STAGES = FP8 ? CARNOT_CUDA_ATTENTION_TMA_FP8_STAGES(D) : CARNOT_CUDA_ATTENTION_TMA_STAGES(D),
    SLOTS = CARNOT_CUDA_ATTENTION_TMA_QUERY_STAGES,
    PITCH = FP8 ? D : STAGE_PITCH,  // bytes of a row of a box
    COLUMNS = PITCH / (int)sizeof(OPERAND),
    BOXES = D / COLUMNS,
    QUERY_BOX = ROWS * PITCH,
    BOX = KEYS * PITCH,
    TRANSPOSED = D * KEYS,  // bytes of a stage of transposed values
    TRANSPOSERS = 2,        // warps that transpose them
    // Weights of FP8 are up to 2^8, of E4M3's 448.
    SHIFT = FP8 ? 6 : 0,
    SLACK = FP8 ? 2 : 8,
    WARPS = GROUPS * 4,
    MASK_PITCH = KEYS + 4,  // floats of a stage: of the keys, and whether any is not zero
    N = KEYS / 8,
    CHUNK = GROUPS == 2 ? 8 : 4  // tiles of eight keys whose mask is read at a time
  };
  // A ring of stages: the one at hand, and the parity of its barriers' phase.
  struct ring {
    int stage = 0;
    u32 parity = 0;
    DEVICE_ONLY void next(int stages) {
      if (++stage == stages) stage = 0, parity ^= 1;
    }
  };
  struct barriers {
    u32 full, empty;
  };
  const carnot_cuda_attention_tma_params& p;
  const carnot_cuda_attention_params& t;
  u32 queries, keys, values, transposed, results;  // shared memory; the last two of FP8
  f32* masks;                                      // of a mask that all queries share
  barriers of_queries, of_keys, of_values, of_masks, of_transposed;
  // Of the tile at hand: the head's batch indices, the first query, and its line of the
  // classification, NULL without.
  int outer, inner, first_row;
  const u8* kinds;

  DEVICE_ONLY attention_tma(const carnot_cuda_attention_tma_params& params)
      : p(params), t(params.attention) {}

  DEVICE_ONLY int lane() { return threadIdx.x & 31; }
  DEVICE_ONLY void release(u32 barrier) {
    if (lane() == 0) barrier_arrive(barrier);
  }
  DEVICE_ONLY void wait_full(barriers of, ring at) {
    barrier_wait(of.full + at.stage * 8, at.parity);
  }
  DEVICE_ONLY bool is_shared_mask() { return t.mask && !t.mask_s[2]; }
  DEVICE_ONLY void aim(int tile) {
    int head = tile / p.across, row_tile = tile - head * p.across;
    outer = head / t.inner, inner = head - outer * t.inner, first_row = row_tile * ROWS;
    kinds = NULL;
    if (t.kinds)
      kinds = t.kinds + ((outer * t.kinds_s[0] + inner * t.kinds_s[1]) * (i64)p.across + row_tile) *
                            ((t.keys + KIND_KEYS - 1) / KIND_KEYS);
  }
  DEVICE_ONLY int kind_of(int key) {
    if (!kinds) return TILE_MIXED;
    int left = kinds[key / KIND_KEYS],
        right = key + KIND_KEYS < t.keys ? kinds[key / KIND_KEYS + 1] : left;
    return left == right ? left : TILE_MIXED;
  }
  // The first key from |key| on, a multiple of KEYS, whose tile is not masked out.
  DEVICE_ONLY int open_from(int key) {
    if (kinds)
      while (key < t.keys && kind_of(key) == TILE_CLOSED) key += KEYS;
    return key;
  }

  DEVICE_ONLY void start() {
    extern __shared__ char memory[];
    __shared__ u64 all[2 * SLOTS + 8 * STAGES];
    __shared__ __align__(16) f32 shared_masks[STAGES * MASK_PITCH];
    masks = shared_masks;
    queries = (shared_address(memory) + 1023) & ~1023u;
    keys = queries + SLOTS * BOXES * QUERY_BOX, values = keys + STAGES * BOXES * BOX;
    transposed = values + STAGES * BOXES * BOX, results = transposed + STAGES * TRANSPOSED;
    u32 at = shared_address(all);
    // Not computed anew in the loops.
    asm volatile(""
                 : "+r"(queries), "+r"(keys), "+r"(values), "+r"(transposed), "+r"(results),
                   "+r"(at));
    of_queries = {at, at + SLOTS * 8}, at += 2 * SLOTS * 8;
    of_keys = {at, at + STAGES * 8}, at += 2 * STAGES * 8;
    of_values = {at, at + STAGES * 8}, at += 2 * STAGES * 8;
    of_masks = {at, at + STAGES * 8}, at += 2 * STAGES * 8;
    of_transposed = {at, at + STAGES * 8};
    if (threadIdx.x == 0) {
      for (int i = 0; i < SLOTS; i++)
        barrier_init(of_queries.full + i * 8, 1), barrier_init(of_queries.empty + i * 8, WARPS);
      for (int i = 0; i < STAGES; i++) {
        barrier_init(of_keys.full + i * 8, 1), barrier_init(of_keys.empty + i * 8, WARPS);
        barrier_init(of_values.full + i * 8, 1),
            barrier_init(of_values.empty + i * 8, FP8 ? (int)TRANSPOSERS : (int)WARPS);
        barrier_init(of_transposed.full + i * 8, TRANSPOSERS),
            barrier_init(of_transposed.empty + i * 8, WARPS);
        barrier_init(of_masks.full + i * 8, 1), barrier_init(of_masks.empty + i * 8, WARPS);
      }
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
  }

  // ---- the thread that fetches ----

  // Rows from |row| on of the head at hand. |axes|: the batch axes that the operand has.
  template <int BYTES_OF_BOX>
  DEVICE_ONLY void fetch(u32 to, const void* map, int axes, int row, barriers of, ring at) {
    barrier_wait(of.empty + at.stage * 8, at.parity ^ 1);
    barrier_expect(of.full + at.stage * 8, BOXES * BYTES_OF_BOX);
    for (int i = 0; i < BOXES; i++)
      tma_load_matrix(to + (at.stage * BOXES + i) * BYTES_OF_BOX, map, i * COLUMNS, row,
                      axes & 2 ? inner : 0, axes & 1 ? outer : 0, of.full + at.stage * 8);
  }
  DEVICE_ONLY void produce() {
    ring slot, of_key, of_value;
    asm volatile(
        "prefetch.tensormap [%0];\nprefetch.tensormap [%1];\nprefetch.tensormap [%2];" ::"l"(&p.q),
        "l"(&p.k), "l"(&p.v)
        : "memory");
    wait_for_previous();
#pragma unroll 1
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
      aim(tile);
      fetch<QUERY_BOX>(queries, &p.q, p.axes[0], first_row, of_queries, slot), slot.next(SLOTS);
      int key = open_from(0), last = key;
      fetch<BOX>(keys, &p.k, p.axes[1], key, of_keys, of_key), of_key.next(STAGES);
#pragma unroll 1
      while (last < t.keys) {
        key = open_from(last + KEYS);
        if (key < t.keys)
          fetch<BOX>(keys, &p.k, p.axes[1], key, of_keys, of_key), of_key.next(STAGES);
        fetch<BOX>(values, &p.v, p.axes[2], last, of_values, of_value), of_value.next(STAGES);
        last = key;
      }
    }
  }

  // The warp that fetches a mask that all queries share; beyond the last key it is -inf.
  DEVICE_ONLY void produce_masks() {
    ring at;
    wait_for_previous();
#pragma unroll 1
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
      aim(tile);
      i64 mask = outer * t.mask_s[0] + inner * t.mask_s[1];
#pragma unroll 1
      for (int key = 0; key < t.keys; key += KEYS, at.next(STAGES)) {
        f32 v[KEYS / 32];
        bool any = false;
#pragma unroll
        for (int i = 0; i < KEYS / 32; i++) {
          int column = key + i * 32 + lane();
          v[i] = column < t.keys ? mask_at<T>(t, t.mask, mask, column) : MINUS_INFINITY;
          any |= column < t.keys && v[i] != 0;
        }
        any = __any_sync(~0u, any);
        barrier_wait(of_masks.empty + at.stage * 8, at.parity ^ 1);
        f32* to = masks + at.stage * MASK_PITCH;
#pragma unroll
        for (int i = 0; i < KEYS / 32; i++) to[i * 32 + lane()] = v[i];
        if (lane() == 0) to[KEYS] = any;
        __syncwarp();
        release(of_masks.full + at.stage * 8);
      }
    }
  }

  // ---- the warps that transpose FP8 values ----

  // The keys of each 16 are in the order of fp8_weights_of.
  DEVICE_ONLY void transpose_tile(u32 from, u32 to, int part) {
    const int i = lane() & 7, matrix = lane() >> 3;
#pragma unroll 2
    for (int n = part; n < KEYS / 32 * (D / 16); n += TRANSPOSERS) {
      const int j = n / (D / 16), c = n % (D / 16), key = j * 32 + lane();
      u32 v[4], y[4];
      ldmatrix4_transposed(
          v, from + key * PITCH + ((c ^ (PITCH == STAGE_PITCH ? key & 7 : key >> 1 & 3)) << 4));
      y[0] = __byte_perm(v[0], v[1], 0x6420), y[1] = __byte_perm(v[2], v[3], 0x6420);
      y[2] = __byte_perm(v[0], v[1], 0x7531), y[3] = __byte_perm(v[2], v[3], 0x7531);
      stmatrix4(swizzled(to, c * 16 + 2 * i + (matrix >> 1), 2 * j + (matrix & 1)), y);
    }
  }
  DEVICE_ONLY void transpose_values(int part) {
    ring at;
    wait_for_previous();
#pragma unroll 1
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
      aim(tile);
#pragma unroll 1
      for (int key = open_from(0); key < t.keys; key = open_from(key + KEYS), at.next(STAGES)) {
        wait_full(of_values, at);
        barrier_wait(of_transposed.empty + at.stage * 8, at.parity ^ 1);
        transpose_tile(values + at.stage * BOXES * BOX, transposed + at.stage * TRANSPOSED, part);
        wgmma_fence_async();
        __syncwarp();
        release(of_transposed.full + at.stage * 8), release(of_values.empty + at.stage * 8);
      }
    }
  }

  // ---- those that multiply ----

  f32 s[N][4], acc[D / 64][8][4];
  u32 w[N * (int)sizeof(OPERAND) / 4][4];
  ring slot, of_key, of_value, of_mask;

  int group;  // of the warp
  // First row of the warp in the tile.
  DEVICE_ONLY int warp_row() { return (int)(threadIdx.x - 128) / 32 * 16; }
  // s = queries keys^T, under way.
  DEVICE_ONLY void multiply_keys() {
    enum { STEPS = PITCH / 32 };  // of a box
    u64 a = wgmma_descriptor(queries + slot.stage * BOXES * QUERY_BOX + group * 64 * PITCH, PITCH),
        b = wgmma_descriptor(keys + of_key.stage * BOXES * BOX, PITCH);
#pragma unroll
    for (int d = 0; d < BOXES * STEPS; d++)
      wgmma_of<OPERAND, KEYS>::multiply(s[0], a + d / STEPS * (QUERY_BOX / 16) + d % STEPS * 2,
                                        b + d / STEPS * (BOX / 16) + d % STEPS * 2, d);
    wgmma_commit();
  }
  DEVICE_ONLY barriers of_multiplied() { return FP8 ? of_transposed : of_values; }
  // acc += weights values, under way.
  DEVICE_ONLY void multiply_values() {
    if constexpr (FP8) {
      u64 b = wgmma_descriptor(transposed + of_value.stage * TRANSPOSED);
#pragma unroll
      for (int c = 0; c < N / 4; c++)
        D == 64 ? multiply_fp8_64(acc[0][0], w[c], b + c * 2)
                : multiply_fp8_128(acc[0][0], w[c], b + c * 2);
    } else {
      u64 b = wgmma_descriptor(values + of_value.stage * BOXES * BOX);
#pragma unroll
      for (int c = 0; c < N / 2; c++)
#pragma unroll
        for (int i = 0; i < BOXES; i++)
          wgmma_of<OPERAND, 64>::multiply(acc[i][0], w[c],
                                          b + i * (BOX / 16) + c * (16 * STAGE_PITCH / 16));
    }
    wgmma_commit();
  }
  DEVICE_ONLY void keep_weights() {
    if constexpr (FP8) {
      fp8_weights_of<N>(w, s);
    } else {
#pragma unroll
      for (int c = 0; c < N / 2; c++) weights_of<T>(w[c], s + 2 * c);
    }
  }
  // Elements of a dense mask in 16-bit pairs, which arrive while the scores are computed where
  // registers are enough.
  static constexpr bool MAY_READ_AHEAD = GROUPS == 2;
  u32 mask_pairs[2][MAY_READ_AHEAD ? N : 1];
  DEVICE_ONLY bool reads_ahead() {
    return MAY_READ_AHEAD && t.mask && t.mask_s[2] && t.mask_in_pairs && !t.mask_is_float;
  }
  DEVICE_ONLY int query() { return first_row + warp_row() + (lane() >> 2); }  // the lane's first
  DEVICE_ONLY void read_ahead(i64 mask, int key) {
    if (!reads_ahead() || kind_of(key) == TILE_OPEN) return;
    const int column = key + (lane() & 3) * 2;
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const u16* line =
          (const u16*)t.mask + mask + min(query() + 8 * r, t.queries - 1) * t.mask_s[2] + column;
#pragma unroll
      for (int n = 0; n < (MAY_READ_AHEAD ? N : 1); n++)
        mask_pairs[r][n] = column + 8 * n < t.keys ? *(const u32*)(line + 8 * n) : 0;
    }
  }
  DEVICE_ONLY void add_dense_mask(i64 mask, int key) {
    if (reads_ahead()) {
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
          u32 pair = mask_pairs[e >> 1][MAY_READ_AHEAD ? n : 0];
          s[n][e] = fmaf(s[n][e], t.scale, load(T{(u16)(e & 1 ? pair >> 16 : pair)}));
        }
    } else {
#pragma unroll
      for (int n = 0; n < N; n += CHUNK) add_mask<T, CHUNK>(t, mask, s + n, query(), key + n * 8);
    }
  }
  // Scales the scores and adds the mask that all queries share, unless it is zero.
  DEVICE_ONLY bool add_shared_mask() {
    const f32* shared = masks + of_mask.stage * MASK_PITCH;
    wait_full(of_masks, of_mask);
    bool masked = shared[KEYS] != 0;
    if (masked)
      add_pairs<N>(s, t.scale, [&](int r, int n) {
        return *(const float2*)(shared + 8 * n + (lane() & 3) * 2);
      });
    __syncwarp();
    release(of_masks.empty + of_mask.stage * 8), of_mask.next(STAGES);
    return masked;
  }
  // Scores of a tile of keys to weights. Returns whether earlier sums shrink.
  DEVICE_ONLY bool weigh(i64 mask, int key, softmax_rows& rows, f32* shrink) {
    bool masked = false;
    if (is_shared_mask())
      masked = add_shared_mask();
    else if (t.mask && kind_of(key) != TILE_OPEN)
      masked = true, add_dense_mask(mask, key);
    if (t.keys - key < KEYS) cut_keys<N>(s, t.keys - key);
    return softmax_update<N, SHIFT, SLACK>(s, masked ? LOG2_E : t.scale * LOG2_E, rows, shrink);
  }
  DEVICE_ONLY void store_result(softmax_rows& rows) {
    enum { RESULT_BOX = ROWS * STAGE_PITCH };
    u32 own = FP8 ? results : queries + slot.stage * BOXES * QUERY_BOX;
#pragma unroll
    for (int r = 0; r < 2; r++) {
      f32 inverse = inverse_of(t, whole_sum(rows.sum[r])) * (FP8 ? p.value_scale : 1);
#pragma unroll
      for (int n = 0; n < D / 8; n++) {
        f32* from = acc[n / 8][n % 8];
        u32 to = swizzled(own + n / 8 * RESULT_BOX, warp_row() + r * 8 + (lane() >> 2), n % 8) +
                 (lane() & 3) * 4;
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to),
                     "r"(mma<T>::pair(from[2 * r] * inverse, from[2 * r + 1] * inverse))
                     : "memory");
      }
    }
    __syncwarp();
    i64 first = outer * t.y_s[0] + inner * t.y_s[1] + first_row * t.y_s[2];
    f32 factor = BYTES ? 1 / t.result.scale : 0;
#pragma unroll
    for (int i = lane(); i < 2 * D; i += 32) {
      int r = warp_row() + i / (D / 8), c = i % (D / 8);
      half8 eight;
      asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(eight.two[0]), "=r"(eight.two[1]), "=r"(eight.two[2]), "=r"(eight.two[3])
                   : "r"(swizzled(own + c / 8 * RESULT_BOX, r, c % 8)));
      if (first_row + r >= t.queries || c * 8 >= t.value_size) continue;
      i64 to = first + r * t.y_s[2] + c * 8;
      if (BYTES) {
        f32 v[8];
        unpack<T>(eight, v);
        *(result_bytes*)((u8*)t.y + to) = quantize_eight<T>(t.result, factor, v);
      } else {
        *(half8*)((u16*)t.y + to) = eight;
      }
    }
    // TMA writes there next, by another proxy.
    wgmma_fence_async();
    __syncwarp();
    release(of_queries.empty + slot.stage * 8), slot.next(SLOTS);
  }
  DEVICE_ONLY void consume() {
    group = __shfl_sync(~0u, (int)threadIdx.x / 128 - 1, 0);
    wait_for_previous();
#pragma unroll 1
    for (int tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
      aim(tile);
      softmax_rows rows = softmax_begin();
      f32 shrink[2];
      i64 mask = outer * t.mask_s[0] + inner * t.mask_s[1];
      int key = open_from(0);
#pragma unroll
      for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) acc[n / 8][n % 8][e] = 0;
      wait_full(of_queries, slot);
      wait_full(of_keys, of_key);
      wgmma_begin();
      multiply_keys();
      read_ahead(mask, key);
      wgmma_wait<0>();
      release(of_keys.empty + of_key.stage * 8), of_key.next(STAGES);
      weigh(mask, key, rows, shrink);
      keep_weights();
#pragma unroll 1
      while ((key = open_from(key + KEYS)) < t.keys) {
        wait_full(of_keys, of_key);
        wait_full(of_multiplied(), of_value);
        wgmma_begin();
        multiply_keys();
        multiply_values();
        read_ahead(mask, key);
        wgmma_wait<1>();
        release(of_keys.empty + of_key.stage * 8), of_key.next(STAGES);
        bool shrinks = weigh(mask, key, rows, shrink);
        // The weights are computed before the wait.
#pragma unroll
        for (int n = 0; n < N; n++)
          asm volatile("" : "+f"(s[n][0]), "+f"(s[n][1]), "+f"(s[n][2]), "+f"(s[n][3]));
        if (shrinks) {
          wgmma_wait<0>();
          scale_rows<D / 8>(acc[0], shrink);
        }
        wgmma_wait<0>();
        release(of_multiplied().empty + of_value.stage * 8), of_value.next(STAGES);
        keep_weights();
      }
      wait_full(of_multiplied(), of_value);
      wgmma_begin();
      multiply_values();
      wgmma_wait<0>();
      release(of_multiplied().empty + of_value.stage * 8), of_value.next(STAGES);
      store_result(rows);
    }
  }

  DEVICE_ONLY void run() {
    start();
    if (threadIdx.x < 128) {
      give_registers<(!FP8 ? 24 : GROUPS == 2 ? 40 : 32)>();
      if (threadIdx.x == 0) produce();
      if (threadIdx.x / 32 == 1 && is_shared_mask()) produce_masks();
      if (FP8 && threadIdx.x / 32 >= 2) transpose_values((int)threadIdx.x / 32 - 2);
    } else {
      take_registers<(GROUPS == 3 ? 160 : FP8 ? 232 : 240)>();
      consume();
    }
  }
};

#endif
