// Attention between 8-bit integers: tiles of keys and values in shared memory, 16 queries per warp,
// both GEMMs by integer tensor cores. Softmax's result is quantized, which needs its sum first: the
// keys are read twice, once for maximum and sum and once for the weights.
//
// With x' signed and zeros moved along:
//   sum (q - q0) (k - k0) = sum q' k' - q0' sum k' - k0' sum (q' - q0')
//   sum p (v - v0)        = sum p v' - v0' sum p
// The sums of keys come from the tensor cores too, by queries of ones.
#pragma once

#include "kernel/cuda/attention/attention_int8_params.h"
#include "kernel/cuda/attention/attention_mask.cuh"
#include "kernel/cuda/attention/online_softmax.cuh"
#include "kernel/cuda/quantize/int8_epilogue.cuh"

#if __CUDA_ARCH__ >= 800

// Shared memory offset of the 16 bytes |c| of row |r| of SIZE bytes, swizzled: eight rows of one
// chunk use different banks.
template <int SIZE>
DEVICE u32 byte_chunk(int r, int c) {
  const int turn = SIZE == 32 ? r >> 2 & 1 : SIZE == 64 ? r >> 1 & 3 : r & 7;
  return r * SIZE + (c ^ turn) * 16;
}
// ROWS rows of a head of |size| bytes, |rows| of which exist; what lies outside is zero.
template <int SIZE, int ROWS, int THREADS, bool ALIGNED>
DEVICE void fetch_bytes(u32 to, const u8* from, i64 stride, int rows, int size) {
  enum { CHUNKS = SIZE / 16, STEP = THREADS / CHUNKS };
  const int c = threadIdx.x % CHUNKS, there = lo(size - 16 * c, 16);
  for (int r = threadIdx.x / CHUNKS; r < ROWS; r += STEP) {
    const int count = r < rows ? hi(there, 0) : 0;
    const u8* chunk = from + r * stride + 16 * c;
    if constexpr (ALIGNED) {
      cp_async16(to + byte_chunk<SIZE>(r, c), count ? chunk : from, count);
    } else {
      u32 four[4] = {};
      for (int i = 0; i < count; i++) four[i / 4] |= (u32)chunk[i] << i % 4 * 8;
      asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" ::"r"(to + byte_chunk<SIZE>(r, c)),
                   "r"(four[0]), "r"(four[1]), "r"(four[2]), "r"(four[3])
                   : "memory");
    }
  }
}
DEVICE int sum_of_quad(int x) {
  x += __shfl_xor_sync(~0u, x, 1);
  return x + __shfl_xor_sync(~0u, x, 2);
}
DEVICE f32 max_of_quad(f32 x) {
  x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
  return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

// What both kernels do with scores, weights and results. N: mma of eight keys.
template <int SIZE>
struct attention_int8_scores {
  enum { DEPTH = SIZE / 32 };
  const carnot_cuda_attention_int8_params& all;
  u32 queries[DEPTH][4];  // A fragments of 16 queries
  u32 ones[DEPTH][2];     // of queries of ones: a column's two registers are those of all rows
  int query_term[2];      // -k0' sum (q' - q0')

  // |sums|: of the lane's elements of its two queries.
  DEVICE_ONLY void set_query_terms(const i32* sums) {
#pragma unroll
    for (int r = 0; r < 2; r++)
      query_term[r] = -all.k.zero * (sum_of_quad(sums[r]) - all.heads.size * all.q.zero);
  }
  // Sums of eight keys, scaled. keys(d): the two registers of step |d|.
  template <class F>
  DEVICE_ONLY void multiply_keys(f32* s, F keys) {
    i32 acc[4] = {}, columns[4] = {};
#pragma unroll
    for (int d = 0; d < DEPTH; d++) {
      const u32* b = keys(d);
      const u32 one[4] = {ones[d][0], ones[d][0], ones[d][1], ones[d][1]};
      mma<i8>::multiply(acc, queries[d], b[0], b[1]);
      if (all.q.zero) mma<i8>::multiply(columns, one, b[0], b[1]);
    }
#pragma unroll
    for (int e = 0; e < 4; e++)
      s[e] =
          __fmul_rn((f32)(acc[e] - all.q.zero * columns[e] + query_term[e >> 1]), all.score_scale);
  }
  // 1.5 * 2^23: adding it rounds to an integer, of which the sum's bits hold the low byte.
  static DEVICE_ONLY f32 magic() { return int8_epilogue::magic(); }
  template <int N, class F>
  static DEVICE_ONLY void for_each(f32 (*s)[4], F f) {
#pragma unroll
    for (int n = 0; n < N; n++)
#pragma unroll
      for (int e = 0; e < 4; e++) s[n][e] = f(s[n][e]);
  }
  // |x|, an integer before it is rounded, as its dequantized value.
  static DEVICE_ONLY f32 rounded(const carnot_cuda_score_rounding& r, f32 x) {
    x = fminf(fmaxf(x, r.low), r.high);
    return __fmul_rn(__fadd_rn(__fadd_rn(x, magic()), -magic()), r.scale);
  }
  template <int N>
  static DEVICE_ONLY void round_to(const carnot_cuda_score_rounding& r, f32 (*s)[4]) {
    if (r.scale == 0) return;
    for_each<N>(s, [&](f32 x) {
      const f32 v = __fdiv_rn(x, r.scale);
      return rounded(r, v == v ? v : 0.f);
    });
  }
  // Sums to what the mask is added to.
  template <int N>
  DEVICE_ONLY void scale_scores(f32 (*s)[4]) {
    if (all.scores.scale != 0) for_each<N>(s, [&](f32 x) { return rounded(all.scores, x); });
    if (all.divides)
      for_each<N>(s, [&](f32 x) { return __fdiv_rn(x, all.factor); });
    else
      for_each<N>(s, [&](f32 x) { return __fmul_rn(x, all.factor); });
    round_to<N>(all.scaled, s);
  }
  // |at|: of the lane's queries in the mask; |key|: its first key.
  template <int N>
  DEVICE_ONLY void mask_scores(f32 (*s)[4], const i64* at, int key) {
    if (all.heads.mask) add_float_mask<N>(all.heads, at, s, key);
    round_to<N>(all.masked, s);
  }
  static DEVICE_ONLY f32 power(f32 x) { return power_of_2(x * LOG2_E); }
  // Powers as A fragments of quantized weights: k = 4 t + i of 16 is key 8 (i / 2) + 2 t + i % 2.
  template <int N>
  DEVICE_ONLY void quantize_weights(u32 (*w)[4], const f32 (*s)[4], const f32* factor) {
#pragma unroll
    for (int c = 0; c < N / 4; c++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int r = i & 1, n = 4 * c + i / 2 * 2;
        u32 bits[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
          const f32 x = s[n + e / 2][2 * r + e % 2] * factor[r];
          bits[e] = __float_as_uint(fminf(fmaxf(x, 0.f), all.weight_high) + magic());
        }
        w[c][i] = __byte_perm(__byte_perm(bits[0], bits[1], 0x40),
                              __byte_perm(bits[2], bits[3], 0x40), 0x5410);
      }
  }
  DEVICE_ONLY u32 quantize(f32 y) {
    return quantized_bits(y, all.out_zero, all.out_low, all.out_high);
  }
  DEVICE_ONLY void store(i32 x, i64 at) {
    const f32 y = __fmul_rn((f32)x, all.out_scale);
    if (all.is_quantized)
      ((u8*)all.heads.y)[at] = (u8)quantize(y);
    else
      ((f32*)all.heads.y)[at] = y;
  }
  DEVICE_ONLY void store_four(const i32* x, i64 at) {
    f32 y[4];
    u32 four = 0;
#pragma unroll
    for (int e = 0; e < 4; e++) y[e] = __fmul_rn((f32)x[e], all.out_scale);
    if (!all.is_quantized) {
      *(float4*)((f32*)all.heads.y + at) = {y[0], y[1], y[2], y[3]};
      return;
    }
#pragma unroll
    for (int e = 0; e < 4; e++) four |= quantize(y[e]) << e * 8;
    *(u32*)((u8*)all.heads.y + at) = four;
  }
};

template <int SIZE, bool ALIGNED>
struct attention_int8 : attention_int8_scores<SIZE> {
  using base = attention_int8_scores<SIZE>;
  using base::all;
  enum { WARPS = 4, THREADS = 32 * WARPS, KEYS = 64, N = KEYS / 8, STAGES = 3, TILE = KEYS * SIZE };
  f32 most[2], sum[2];  // of the lane's two queries

  // Bytes of the head that exist of four from |first| on, 255 each.
  DEVICE_ONLY u32 existing(int first) {
    const int left = all.heads.size - first;
    return left >= 4 ? ~0u : left <= 0 ? 0 : (1u << 8 * left) - 1;
  }
  DEVICE_ONLY void read_queries(u32 from, int row, int lane) {
    i32 sums[2] = {};
#pragma unroll
    for (int d = 0; d < base::DEPTH; d++) {
      u32* a = this->queries[d];
      ldmatrix4(a, from + byte_chunk<SIZE>(row + (lane & 15), 2 * d + (lane >> 4)));
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const u32 mask = existing(32 * d + i / 2 * 16 + (lane & 3) * 4);
        a[i] = (a[i] ^ all.q.flip) & mask;
        this->ones[d][i / 2] = mask & 0x01010101u;
        sums[i & 1] = __dp4a((int)a[i], 0x01010101, sums[i & 1]);
      }
    }
    this->set_query_terms(sums);
  }
  // Scores of 16 queries and KEYS keys.
  DEVICE_ONLY void scores_of(f32 (*s)[4], u32 keys, int lane) {
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      u32 b[base::DEPTH][4];
#pragma unroll
      for (int d = 0; d < base::DEPTH; d++) {
        ldmatrix4(b[d], keys + byte_chunk<SIZE>((n + (lane >> 4)) * 8 + (lane & 7),
                                                2 * d + (lane >> 3 & 1)));
#pragma unroll
        for (int i = 0; i < 4; i++) b[d][i] ^= all.k.flip;
      }
#pragma unroll
      for (int i = 0; i < 2; i++)
        this->multiply_keys(s[n + i], [&](int d) { return b[d] + 2 * i; });
    }
    this->template scale_scores<N>(s);
  }
  // Maximum and sum over the keys so far.
  DEVICE_ONLY void update(const f32 (*s)[4]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
      f32 top = most[r], total = 0;
#pragma unroll
      for (int n = 0; n < N; n++) top = fmaxf(top, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
      top = max_of_quad(top);
      const f32 from = top == MINUS_INFINITY ? 0.f : top;
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 2 * r; e < 2 * r + 2; e++) total += base::power(s[n][e] - from);
      sum[r] = fmaf(sum[r], base::power(most[r] - from), total);
      most[r] = top;
    }
  }

  DEVICE_ONLY void run() {
    const carnot_cuda_attention_params& p = all.heads;
    __shared__ __align__(1024) u8 shared[STAGES * 2 * TILE];
    const int lane = threadIdx.x & 31, row = threadIdx.x / 32 * 16,
              first_row = blockIdx.x * 16 * WARPS, tiles = (p.keys + KEYS - 1) / KEYS;
    const head_offsets at = head_offsets_of(p);
    i64 masks[2];
    mask_rows(p, at.mask, first_row + row + (lane >> 2), masks);
    const u8 *k = (const u8*)p.k + at.k, *v = (const u8*)p.v + at.v;
    const u32 stages = shared_address(shared);
    auto fetch = [&](int step) {
      const u32 to = stages + step % STAGES * 2 * TILE;
      const int tile = step < tiles ? step : step - tiles, key = tile * KEYS;
      if (step < 2 * tiles)
        fetch_bytes<SIZE, KEYS, THREADS, ALIGNED>(to, k + key * p.k_s[2], p.k_s[2], p.keys - key,
                                                  p.size);
      if (step >= tiles && step < 2 * tiles)
        fetch_bytes<SIZE, KEYS, THREADS, ALIGNED>(to + TILE, v + key * p.v_s[2], p.v_s[2],
                                                  p.keys - key, p.value_size);
      cp_async_commit();
    };
    // The queries wait where the third stage will be.
    const u32 own = stages + (STAGES - 1) * 2 * TILE;
    fetch_bytes<SIZE, 16 * WARPS, THREADS, ALIGNED>(
        own, (const u8*)p.q + at.q + first_row * p.q_s[2], p.q_s[2], p.queries - first_row, p.size);
    cp_async_commit();
    for (int step = 0; step < STAGES - 1; step++) fetch(step);
    cp_async_wait<STAGES - 1>();
    __syncthreads();
    read_queries(own, row, lane);
    most[0] = most[1] = MINUS_INFINITY, sum[0] = sum[1] = 0;
    f32 from[2], factor[2];
    i32 acc[SIZE / 8][4] = {};
    u32 weight_sum[2] = {};
    for (int step = 0; step < 2 * tiles; step++) {
      const int key = (step < tiles ? step : step - tiles) * KEYS;
      const u32 keys = stages + step % STAGES * 2 * TILE, values = keys + TILE;
      f32 s[N][4];
      cp_async_wait<STAGES - 2>();
      __syncthreads();
      fetch(step + STAGES - 1);
      scores_of(s, keys, lane);
      this->template mask_scores<N>(s, masks, key + (lane & 3) * 2);
      if (p.keys - key < KEYS) cut_keys<N>(s, p.keys - key);
      if (step < tiles) {
        update(s);
        continue;
      }
      if (step == tiles)
#pragma unroll
        for (int r = 0; r < 2; r++) {
          from[r] = most[r] == MINUS_INFINITY ? 0.f : most[r];
          factor[r] = __fdividef(1.f, whole_sum(sum[r])) * all.weight_factor;
        }
      u32 w[N / 4][4];
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) s[n][e] = base::power(s[n][e] - from[e >> 1]);
      this->template quantize_weights<N>(w, s, factor);
#pragma unroll
      for (int c = 0; c < N / 4; c++) {
#pragma unroll
        for (int i = 0; i < 4; i++)
          weight_sum[i & 1] = __dp4a(w[c][i], 0x01010101u, weight_sum[i & 1]);
#pragma unroll
        for (int n = 0; n < SIZE / 16; n++) {
          // Two keys of two columns each: columns 2 g are the first mma's, 2 g + 1 the second's.
          u32 b[4];
          ldmatrix4_transposed(b, values + byte_chunk<SIZE>(c * 32 + lane, n));
#pragma unroll
          for (int i = 0; i < 2; i++) {
            const u32 order = i ? 0x7531 : 0x6420;
            mma<u8>::multiply(acc[2 * n + i], w[c], __byte_perm(b[0], b[1], order) ^ all.v.flip,
                              __byte_perm(b[2], b[3], order) ^ all.v.flip);
          }
        }
      }
    }
    cp_async_wait<0>();
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int query = first_row + row + (lane >> 2) + 8 * r;
      const i32 term = all.v.zero * sum_of_quad((int)weight_sum[r]);
      if (query >= p.queries) continue;
      const i64 to = at.y + query * p.y_s[2];
#pragma unroll
      for (int n = 0; n < SIZE / 16; n++) {
        const int column = 16 * n + (lane & 3) * 4;
        const i32 four[4] = {acc[2 * n][2 * r] - term, acc[2 * n + 1][2 * r] - term,
                             acc[2 * n][2 * r + 1] - term, acc[2 * n + 1][2 * r + 1] - term};
        if (all.in_fours && column < p.value_size)
          this->store_four(four, to + column);
        else
          for (int e = 0; e < 4 && column + e < p.value_size; e++)
            this->store(four[e], to + column + e);
      }
    }
  }
};

#endif
