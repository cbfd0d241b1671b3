// The Attention operator over whole caches (flash decoding): heads that share keys, lengths, masks
// and windows as in attention_generic.cuh. A block has a tile of query rows that read the same
// keys, and a share of these keys; attention_cached_merge combines the shares, in their order.
// Scores, softmax and sums are float32.
#pragma once

#include "kernel/cuda/attention/attention_cached_params.h"
#include "kernel/cuda/attention/attention_generic.cuh"
#include "kernel/cuda/common/block_reduce.cuh"
#include "kernel/cuda/common/tensor_core.cuh"

#ifdef __CUDACC__

// Partial results in the scratch memory, of output row |row| and share |split|.
struct attention_shares {
  const carnot_cuda_attention_cached_params& p;
  DEVICE_ONLY i64 index(i64 split, i64 row) const { return split * p.attention.rows + row; }
  DEVICE_ONLY f32* tops() const { return (f32*)p.attention.io.scratch; }
  DEVICE_ONLY f32* sums() const { return tops() + p.splits * p.attention.rows; }
  DEVICE_ONLY f32* values() const { return sums() + p.splits * p.attention.rows; }
};

// exp(x - top); 0 where no key is seen.
DEVICE f32 weight_of(f32 x, f32 top) { return top == limits_of<f32>::low() ? 0 : expf(x - top); }
// |w| x, where a weight of 0 hides infinities and NaN.
DEVICE f32 weighted(f32 w, f32 x) { return w == 0 ? 0 : w * x; }

// Copies of 16 bytes to shared memory, or zeros where they are not |taken|: by cp.async in groups,
// plain ones below sm_80.
DEVICE void copy_or_clear(uint4* to_shared, const void* from, bool taken) {
#if __CUDA_ARCH__ >= 800
  cp_async16(shared_address(to_shared), from, taken ? 16 : 0);
#else
  *to_shared = taken ? *(const uint4*)from : uint4{};
#endif
}
DEVICE void end_copies() {
#if __CUDA_ARCH__ >= 800
  cp_async_commit();
#endif
}
// All groups but the last N are complete.
template <int N>
DEVICE void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  cp_async_wait<N>();
#endif
}

// Element |i| of a mask. A function of its own: the kernels are loops that fit instruction caches.
static __device__ __noinline__ f32 mask_at(int type, const void* mask, i64 i) {
  const f32 m = (f32)real_of(type, mask, i);
  return type != CARNOT_CUDA_BOOL ? m : m != 0 ? 0 : limits_of<f32>::low();
}

// Neighbouring lanes of a warp, a group, have a key: 16 bytes of it each. Groups compute softmax
// over their keys alone (online softmax) until the end.
template <class T, int ROWS>
struct attention_cached {
  enum {
    VECTOR = 16 / (int)sizeof(T),
    AHEAD = CARNOT_CUDA_ATTENTION_CACHED_AHEAD,
    THREADS = CARNOT_CUDA_THREADS,
    WARPS = THREADS / 32,
    STAGES = CARNOT_CUDA_ATTENTION_CACHED_STAGES(__CUDA_ARCH__ / 100)
  };
  // A query row of the tile: its row of the queries and of the result, where its mask begins, and
  // the keys that it may see.
  struct query_row {
    i64 index, mask;
    int begin, end;
  };
  const carnot_cuda_attention_cached_params& all;
  const carnot_cuda_attention_generic_params& p;
  int split, tile, kv, b;
  int lanes, lane, group, groups;
  int twins, mine;  // lanes that have the scores of the same row; the row of this thread
  int first, last;  // keys
  bool aligned;
  const T *keys, *values;  // this thread's part of key 0
  int key_stride, value_stride;
  uint4* ring;  // [STAGES, keys and values, AHEAD, THREADS]

  DEVICE_ONLY attention_cached(const carnot_cuda_attention_cached_params& params, uint4* memory)
      : all(params), p(params.attention), ring(memory + threadIdx.x) {
    int n = blockIdx.x;
    split = n % all.splits, n /= all.splits;
    tile = n % all.tiles, n /= all.tiles;
    const int heads = (int)p.kv_heads, size = (int)p.size, value_size = (int)p.value_size;
    kv = n % heads, b = n / heads;
    lanes = hi(size, value_size) / VECTOR;
    lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = THREADS / lanes;
    twins = lanes / ROWS, mine = lane / twins;
    aligned = ((u64)p.io.in[1] | (u64)p.io.in[2]) % 16 == 0;
    const i64 row = p.heads_last ? b * p.keys * heads + kv : (b * (i64)heads + kv) * p.keys;
    keys = (const T*)p.io.in[1] + row * size + lane * VECTOR;
    values = (const T*)p.io.in[2] + row * value_size + lane * VECTOR;
    key_stride = p.heads_last ? heads * size : size;
    value_stride = p.heads_last ? heads * value_size : value_size;
  }
  DEVICE_ONLY bool has_key() const { return lane * VECTOR < (int)p.size; }
  DEVICE_ONLY bool has_value() const { return lane * VECTOR < (int)p.value_size; }

  // Row |r| of the tile; behind the last row: that one again.
  DEVICE_ONLY query_row row_of(int r) const {
    const int share = (int)p.q_heads / (int)p.kv_heads, queries = (int)p.queries,
              n = lo(tile * ROWS + r, share * queries - 1), i = n / share,
              h = kv * share + n - i * share;
    const i64 length = p.io.in[6] ? whole_of(p.io.in_type[6], p.io.in[6], b) : p.keys,
              at = p.io.in[6] ? i + length - queries : i;
    i64 end = lo(length, p.io.in[3] ? lo(p.keys, p.mask_length) : p.keys);
    if (p.causal) end = lo(end, at + 1);
    if (p.right >= 0) end = lo(end, at + p.right + 1);
    return {
        p.heads_last ? (b * p.queries + i) * p.q_heads + h : (b * p.q_heads + h) * p.queries + i,
        b * p.mask_s[0] + h * p.mask_s[1] + i * p.mask_s[2],
        p.left < 0 ? 0 : (int)hi(at - p.left, (i64)0), (int)hi(end, (i64)0)};
  }

  DEVICE_ONLY uint4* slot(int stage, int value, int n) const {
    return ring + ((stage * 2 + value) * AHEAD + n) * THREADS;
  }
  // Keys |at| + group, + groups, .. and their values; zeros behind the last one.
  DEVICE_ONLY void fetch(int at, int stage) const {
    if (!aligned) return fetch_elements(at, stage);
#pragma unroll
    for (int n = 0; n < AHEAD; n++) {
      const int row = at + n * groups + group;
      copy_or_clear(slot(stage, 0, n), keys + row * (i64)key_stride, row < last && has_key());
      copy_or_clear(slot(stage, 1, n), values + row * (i64)value_stride, row < last && has_value());
    }
    end_copies();
  }
  DEVICE_ONLY void fetch_elements(int at, int stage) const {
#pragma unroll 1
    for (int n = 0; n < 2 * AHEAD * VECTOR; n++) {
      const int e = n % VECTOR, value = n / VECTOR % 2, row = at + n / VECTOR / 2 * groups + group;
      const bool taken = row < last && (value ? has_value() : has_key());
      const T* from = value ? values + row * (i64)value_stride : keys + row * (i64)key_stride;
      ((T*)slot(stage, value, n / VECTOR / 2))[e] = taken ? from[e] : T{};
    }
  }
  DEVICE_ONLY static void unpack(const uint4* from, f32 (&to)[VECTOR]) {
    const uint4 x = *from;
#pragma unroll
    for (int e = 0; e < VECTOR; e++) to[e] = load(((const T*)&x)[e]);
  }
  // Sums s[r] over the lanes of a group: half of the rows goes to half of the lanes, while there
  // are several rows. A lane gets the sum of its row.
  DEVICE_ONLY f32 sum_of_lanes(f32 (&s)[ROWS]) const {
    int step = lanes / 2;
#pragma unroll
    for (int half = ROWS / 2; half; half /= 2, step /= 2) {
      const bool upper = lane & step;
#pragma unroll
      for (int r = 0; r < half; r++) {
        const f32 other = __shfl_xor_sync(~0u, upper ? s[r] : s[r + half], step);
        s[r] = (upper ? s[r + half] : s[r]) + other;
      }
    }
    for (; step; step /= 2) s[0] += __shfl_xor_sync(~0u, s[0], step);
    return s[0];
  }
  // Row |r|'s number of the same group, which the lanes of that row have.
  DEVICE_ONLY f32 of_row(f32 x, int r) const {
    return __shfl_sync(~0u, x, (threadIdx.x % 32 - lane) + r * twins);
  }
  template <class C>
  DEVICE_ONLY f32 over_groups(f32 x) const {
    for (int step = 16; step >= lanes; step /= 2) x = C::of(x, __shfl_xor_sync(~0u, x, step));
    return x;
  }
  DEVICE_ONLY f32 score_of(f32 s, const query_row& row, int j) const {
    if (p.softcap > 0) s = (f32)p.softcap * tanhf(s / (f32)p.softcap);
    return p.io.in[3] ? s + mask_at(p.io.in_type[3], p.io.in[3], row.mask + j) : s;
  }
  DEVICE_ONLY void run() {
    __shared__ query_row rows[ROWS];
    __shared__ f32 tops[WARPS][ROWS], sums[WARPS][ROWS];
    if (threadIdx.x < ROWS) rows[threadIdx.x] = row_of(threadIdx.x);
    __syncthreads();
    const query_row row = rows[mine];
    const int begin = rows[0].begin, count = hi(rows[ROWS - 1].end - begin, 0),
              part = (count + all.splits - 1) / all.splits, step = groups * AHEAD;
    first = begin + lo(split * part, count), last = begin + lo(split * part + part, count);
#pragma unroll 1
    for (int s = 0; s < STAGES - 1; s++) fetch(first + s * step, s);
    f32 q[ROWS][VECTOR], y[ROWS][VECTOR] = {}, top = limits_of<f32>::low(), sum = 0;
#pragma unroll
    for (int r = 0; r < ROWS; r++)
#pragma unroll
      for (int e = 0; e < VECTOR; e++) {
        const T* x = (const T*)p.io.in[0] + rows[r].index * p.size + lane * VECTOR;
        q[r][e] = has_key() ? load(x[e]) * (f32)p.scale : 0;
      }
    int stage = 0;
    for (int at = first; at < last; at += step) {
      fetch(at + (STAGES - 1) * step, stage ? stage - 1 : STAGES - 1);
      wait_for_copies<STAGES - 1>();
      f32 w[AHEAD], now = top;
#pragma unroll
      for (int n = 0; n < AHEAD; n++) {
        f32 k[VECTOR], s[ROWS] = {};
        unpack(slot(stage, 0, n), k);
#pragma unroll
        for (int e = 0; e < VECTOR; e++)
#pragma unroll
          for (int r = 0; r < ROWS; r++) s[r] = fmaf(q[r][e], k[e], s[r]);
        const int j = at + n * groups + group;
        w[n] = sum_of_lanes(s);
        w[n] = j >= row.begin && j < lo(row.end, last) ? score_of(w[n], row, j)
                                                       : limits_of<f32>::low();
        now = hi(now, w[n]);
      }
      const f32 shrink = weight_of(top, now);
      sum *= shrink, top = now;
#pragma unroll
      for (int n = 0; n < AHEAD; n++) sum += w[n] = weight_of(w[n], top);
      if (__any_sync(~0u, shrink != 1)) {
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
          const f32 f = of_row(shrink, r);
#pragma unroll
          for (int e = 0; e < VECTOR; e++) y[r][e] = weighted(f, y[r][e]);
        }
      }
#pragma unroll
      for (int n = 0; n < AHEAD; n++) {
        f32 v[VECTOR];
        unpack(slot(stage, 1, n), v);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
          const f32 f = of_row(w[n], r);
#pragma unroll
          for (int e = 0; e < VECTOR; e++) y[r][e] = f == 0 ? y[r][e] : fmaf(f, v[e], y[r][e]);
        }
      }
      stage = stage == STAGES - 1 ? 0 : stage + 1;
    }
    finish(y, top, sum, rows, tops, sums);
  }
  // Combines the groups of the block, by way of the ring's memory.
  DEVICE_ONLY void finish(const f32 (&y)[ROWS][VECTOR], f32 top, f32 sum, const query_row* rows,
                          f32 (&tops)[WARPS][ROWS], f32 (&sums)[WARPS][ROWS]) const {
    const int warp = threadIdx.x / 32, size = (int)p.value_size;
    const bool is_first = threadIdx.x % 32 < lanes;  // of the warp's groups
    f32* parts = (f32*)(ring - threadIdx.x);         // [WARPS, ROWS, size]
    f32 whole = over_groups<max_of<f32>>(top);
    if (is_first) tops[warp][mine] = whole;
    wait_for_copies<0>();
    __syncthreads();
    for (int w = 0; w < WARPS; w++) whole = hi(whole, tops[w][mine]);
    const f32 factor = weight_of(top, whole);
    sum = over_groups<add_of<f32>>(sum * factor);
    if (is_first) sums[warp][mine] = sum;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const f32 f = of_row(factor, r);
#pragma unroll
      for (int e = 0; e < VECTOR; e++) {
        const f32 v = over_groups<add_of<f32>>(weighted(f, y[r][e]));
        if (is_first && has_value()) parts[(warp * ROWS + r) * size + lane * VECTOR + e] = v;
      }
    }
    __syncthreads();
    const int count = lo((int)ROWS, (int)(p.q_heads / p.kv_heads * p.queries) - tile * ROWS) * size;
    for (int n = threadIdx.x; n < count; n += THREADS) {
      const int r = n / size, e = n - r * size;
      f32 v = 0;
      sum = 0, top = limits_of<f32>::low();
#pragma unroll
      for (int w = 0; w < WARPS; w++) {
        v += parts[w * ROWS * size + n];
        sum += sums[w][r], top = hi(top, tops[w][r]);
      }
      write(rows[r].index, e, v, top, sum);
    }
  }
  DEVICE_ONLY void write(i64 row, int e, f32 v, f32 top, f32 sum) const {
    if (all.splits == 1) {
      ((T*)p.io.out[0])[row * p.value_size + e] =
          store_as<T>::of(sum == 0 ? 0 : v / sum);  // no key is seen: zeros
      return;
    }
    const attention_shares shares = {all};
    const i64 at = shares.index(split, row);
    shares.values()[at * p.value_size + e] = v;
    if (e == 0) shares.tops()[at] = top, shares.sums()[at] = sum;
  }
};

template <class T, int ROWS>
DEVICE void run_attention_cached(const carnot_cuda_attention_cached_params& p) {
  extern __shared__ uint4 memory[];
  attention_cached<T, ROWS>(p, memory).run();
}

// Combines the shares of an output row by a block, in an order that their number alone decides.
template <class T>
DEVICE void attention_cached_merge(const carnot_cuda_attention_cached_params& p) {
  enum { THREADS = CARNOT_CUDA_THREADS, MOST = CARNOT_CUDA_ATTENTION_CACHED_SPLITS };
  __shared__ f32 weights[MOST], parts[THREADS];
  const attention_shares shares = {p};
  const int n = threadIdx.x, size = (int)p.attention.value_size, groups = THREADS / size;
  const i64 row = blockIdx.x, at = shares.index(lo(n, p.splits - 1), row);
  const f32 mine = n < p.splits ? shares.tops()[at] : limits_of<f32>::low();
  const f32 part = n < p.splits ? shares.sums()[at] : 0;
  const f32 w = weight_of(mine, block_reduce<max_of<f32>, f32>(mine, limits_of<f32>::low()));
  if (n < MOST) weights[n] = w;
  const f32 sum = block_reduce<add_of<f32>, f32>(w * part, 0);  // its barriers show the weights
  f32 y = 0;
#pragma unroll 8
  for (int s = n / size; s < p.splits; s += groups)
    y += weighted(weights[s], shares.values()[shares.index(s, row) * size + n % size]);
  parts[n] = y;
  __syncthreads();
  if (n >= size) return;
  for (int g = 1; g < groups; g++) y += parts[g * size + n];
  ((T*)p.attention.io.out[0])[row * size + n] = store_as<T>::of(sum == 0 ? 0 : y / sum);
}

#endif
