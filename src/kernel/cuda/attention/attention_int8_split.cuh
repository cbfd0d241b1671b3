// Attention between 8-bit integers for up to 1024 keys: 16 queries per block, whose warps split the
// keys and keep all scores in registers, so that keys are read once, straight into registers.
#pragma once

#include "kernel/cuda/attention/attention_int8.cuh"
#include "kernel/cuda/common/transpose_bytes.cuh"

#if __CUDA_ARCH__ >= 800

// WORDS words at |from|; zeros where they do not exist.
template <int WORDS>
DEVICE void read_words(const u8* from, bool exists, u32* to) {
  if constexpr (WORDS == 1) {
    to[0] = exists ? *(const u32*)from : 0;
  } else if constexpr (WORDS == 2) {
    const uint2 x = exists ? *(const uint2*)from : uint2{0, 0};
    to[0] = x.x, to[1] = x.y;
  } else {
    const uint4 x = exists ? *(const uint4*)from : uint4{0, 0, 0, 0};
    to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
  }
}

// TILES of 32 keys per warp, at most. Lane (g, t) = (lane / 4, lane % 4). Elements of queries and
// keys are multiplied in an order in which those of a lane are contiguous: of every 4 WORDS words
// lane t holds WORDS. Columns of values likewise: column g of the j-th mma is column g WIDE + j.
template <int SIZE, int TILES>
struct attention_int8_split : attention_int8_scores<SIZE> {
  using base = attention_int8_scores<SIZE>;
  using base::all;
  using base::DEPTH;
  enum {
    KEYS = 32,
    N = KEYS / 8,
    WORDS = SIZE == 32 ? 2 : 4,
    RUNS = SIZE / (16 * WORDS),  // of a lane's words in a row
    WIDE = SIZE / 8,
    WARPS = CARNOT_CUDA_ATTENTION_INT8_WARPS
  };

  // The lane's words of a row: registers b0 and b1 of step d are words 2 d and 2 d + 1.
  static DEVICE_ONLY void read_row(const u8* row, bool exists, int t, int size, u32* to) {
#pragma unroll
    for (int i = 0; i < RUNS; i++) {
      const int at = (i * 4 + t) * WORDS * 4;
      read_words<WORDS>(row + at, exists && at < size, to + i * WORDS);
    }
  }
  DEVICE_ONLY void read_queries(const u8* q, int first_row, int g, int t) {
    const carnot_cuda_attention_params& p = all.heads;
    u32 x[2][2 * DEPTH];
    i32 sums[2] = {};
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int row = first_row + g + 8 * r;
      read_row(q + row * p.q_s[2], row < p.queries, t, p.size, x[r]);
    }
#pragma unroll
    for (int w = 0; w < 2 * DEPTH; w++) {
      const u32 mask = (w / WORDS * 4 + t) * WORDS * 4 < p.size ? ~0u : 0;
      this->ones[w / 2][w % 2] = mask & 0x01010101u;
#pragma unroll
      for (int r = 0; r < 2; r++) {
        const u32 word = (x[r][w] ^ all.q.flip) & mask;
        this->queries[w / 2][w % 2 * 2 + r] = word;
        sums[r] = __dp4a((int)word, 0x01010101, sums[r]);
      }
    }
    this->set_query_terms(sums);
  }

  DEVICE_ONLY void run() {
    const carnot_cuda_attention_params& p = all.heads;
    __shared__ f32 tops[WARPS][16], totals[WARPS][16];
    __shared__ i32 results[4 * WIDE][32], weight_sums[16];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    const int g = lane >> 2, t = lane & 3, first_row = blockIdx.x * 16;
    const head_offsets at = head_offsets_of(p);
    const u8 *k = (const u8*)p.k + at.k, *v = (const u8*)p.v + at.v;
    i64 masks[2];
    mask_rows(p, at.mask, first_row + g, masks);
    auto read_values = [&](u32(*x)[WIDE / 4], int key) {
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int row = key + i / 2 * 8 + 2 * t + i % 2;
        read_words<WIDE / 4>(v + row * p.v_s[2] + g * WIDE, row < p.keys && g * WIDE < p.value_size,
                             x[i]);
      }
    };
    u32 x[8][WIDE / 4];
    this->read_queries((const u8*)p.q + at.q, first_row, g, t);
    read_values(x, warp * KEYS);
    for (int i = threadIdx.x; i < 4 * WIDE * 32; i += blockDim.x) results[i / 32][i % 32] = 0;
    if (threadIdx.x < 16) weight_sums[threadIdx.x] = 0;

    f32 s[TILES][N][4], top[2] = {MINUS_INFINITY, MINUS_INFINITY}, total[2] = {};
#pragma unroll
    for (int i = 0; i < TILES; i++) {
      const int key = (warp + i * warps) * KEYS;
      u32 b[N][2 * DEPTH];
#pragma unroll
      for (int n = 0; n < N; n++)
        read_row(k + (key + 8 * n + g) * p.k_s[2], key + 8 * n + g < p.keys, t, p.size, b[n]);
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int w = 0; w < 2 * DEPTH; w++) b[n][w] ^= all.k.flip;
#pragma unroll
      for (int n = 0; n < N; n++) this->multiply_keys(s[i][n], [&](int d) { return b[n] + 2 * d; });
      this->template scale_scores<N>(s[i]);
      this->template mask_scores<N>(s[i], masks, key + 2 * t);
      if (p.keys - key < KEYS) cut_keys<N>(s[i], p.keys - key);
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) top[e >> 1] = fmaxf(top[e >> 1], s[i][n][e]);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      top[r] = max_of_quad(top[r]);
      if (t == 0) tops[warp][g + 8 * r] = top[r];
    }
    __syncthreads();
    for (int w = 0; w < warps; w++)
#pragma unroll
      for (int r = 0; r < 2; r++) top[r] = fmaxf(top[r], tops[w][g + 8 * r]);
#pragma unroll
    for (int r = 0; r < 2; r++)
      if (top[r] == MINUS_INFINITY) top[r] = 0;
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++)
          total[e >> 1] += s[i][n][e] = base::power(s[i][n][e] - top[e >> 1]);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      total[r] = whole_sum(total[r]);
      if (t == 0) totals[warp][g + 8 * r] = total[r];
    }
    __syncthreads();
    f32 factor[2] = {};
    for (int w = 0; w < warps; w++)
#pragma unroll
      for (int r = 0; r < 2; r++) factor[r] += totals[w][g + 8 * r];
#pragma unroll
    for (int r = 0; r < 2; r++) factor[r] = __fdividef(1.f, factor[r]) * all.weight_factor;

    i32 acc[WIDE][4] = {};
    u32 weight_sum[2] = {};
#pragma unroll
    for (int i = 0; i < TILES; i++) {
      u32 w[1][4];
      if (i) read_values(x, (warp + i * warps) * KEYS);
      this->template quantize_weights<N>(w, s[i], factor);
#pragma unroll
      for (int e = 0; e < 4; e++)
        weight_sum[e & 1] = __dp4a(w[0][e], 0x01010101u, weight_sum[e & 1]);
#pragma unroll
      for (int c = 0; c < WIDE / 4; c++) {
        u32 b[2][4];
#pragma unroll
        for (int h = 0; h < 2; h++) {
          u32 rows[4];
#pragma unroll
          for (int e = 0; e < 4; e++) rows[e] = x[4 * h + e][c] ^ all.v.flip;
          transpose4(rows, b[h]);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) mma<u8>::multiply(acc[4 * c + e], w[0], b[0][e], b[1][e]);
      }
    }
    // Sums of integers: any order gives the same.
#pragma unroll
    for (int j = 0; j < WIDE; j++)
#pragma unroll
      for (int e = 0; e < 4; e++) atomicAdd(&results[4 * j + e][lane], acc[j][e]);
#pragma unroll
    for (int r = 0; r < 2; r++) {
      const int sum = sum_of_quad((int)weight_sum[r]);
      if (t == 0) atomicAdd(&weight_sums[g + 8 * r], sum);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < WIDE * 32; i += blockDim.x) {
      const int from = i % 32, e = i / 32 % 4, j = i / 128 * 4;
      const int row = from / 4 + e / 2 * 8, query = first_row + row,
                column = (from % 4 * 2 + e % 2) * WIDE + j;
      if (query >= p.queries || column >= p.value_size) continue;
      const i32 term = all.v.zero * weight_sums[row];
      i32 four[4];
#pragma unroll
      for (int c = 0; c < 4; c++) four[c] = results[4 * (j + c) + e][from] - term;
      this->store_four(four, at.y + query * p.y_s[2] + column);
    }
  }
};

#endif
