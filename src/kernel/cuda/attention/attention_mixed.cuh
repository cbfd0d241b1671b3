// Attention of 16-bit floats whose heads are mixed before and behind the softmax (talking heads),
// without tensor cores: a block holds the scores of QUERIES queries, all heads and all keys in
// shared memory, so that the heads of a position are beside one another.
#pragma once

#include "kernel/cuda/attention/attention_mixed_params.h"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/common/numeric.cuh"
#include "kernel/cuda/common/warp_reduce.cuh"

struct __align__(16) f32x4 {
  f32 v[4];
};

template <class T, int QUERIES>
struct attention_mixed {
  enum {
    THREADS = CARNOT_CUDA_MIXED_THREADS,
    WARPS = THREADS / 32,
    HEADS = CARNOT_CUDA_MIXED_HEADS,
    AHEAD = 8,  // vectors of a key that are read at once
    GROUP = 4,
    LANES = 8  // of a warp: vectors of results, and lanes with some of the keys each
  };
  const carnot_cuda_attention_mixed_params& p;
  // Shared: queries [QUERIES][heads * size], scores [QUERIES][heads][pitch], of rows of scores the
  // inverse sums, results of some of the warps; weights and bias of both mixes.
  f32 *queries, *scores, *partial, *inverse, *weights[2], *bias[2];
  int heads, rows;  // rows: of scores
  int first;        // query
  i64 outer;

  DEVICE_ONLY void place(char* shared) {
    const carnot_cuda_attention_params& c = p.call;
    heads = c.inner, rows = QUERIES * heads;
    first = blockIdx.x * QUERIES, outer = blockIdx.y;
    queries = (f32*)shared;
    partial = queries + rows * c.size;
    inverse = partial + WARPS * GROUP * QUERIES * 8;
    for (int m = 0; m < 2; m++) {
      weights[m] = inverse + rows + m * (HEADS * HEADS + HEADS);
      bias[m] = weights[m] + HEADS * HEADS;
    }
    scores = inverse + rows + 2 * (HEADS * HEADS + HEADS);
  }
  DEVICE_ONLY bool has(int q) const { return first + q < p.call.queries; }

  DEVICE_ONLY void stage_weights() const {
    for (int m = 0; m < 2; m++) {
      if (!p.weights[m]) continue;
      for (int i = threadIdx.x; i < heads * heads; i += THREADS)
        weights[m][i] = load(((const T*)p.weights[m])[i]);
      for (int i = threadIdx.x; i < heads; i += THREADS)
        bias[m][i] = p.bias[m] ? load(((const T*)p.bias[m])[i]) : 0;
    }
  }
  DEVICE_ONLY void stage_queries() const {
    const carnot_cuda_attention_params& c = p.call;
    const int wide = c.size / 8;
    for (int i = threadIdx.x; i < rows * wide; i += THREADS) {
      int q = i / (heads * wide), h = i / wide % heads, e = i % wide;
      const T* from = (const T*)c.q + outer * c.q_s[0] + h * c.q_s[1] + (first + q) * c.q_s[2];
      f32 x[8] = {};
      if (has(q)) unpack<T>(((const half8*)from)[e], x);
      for (int k = 0; k < 8; k++) queries[i * 8 + k] = x[k] * c.scale;
    }
  }
  // Scores of one key and head for all queries, a thread each.
  DEVICE_ONLY void multiply() const {
    const carnot_cuda_attention_params& c = p.call;
    const T* k = (const T*)c.k + outer * c.k_s[0];
    const int wide = c.size / 8;
    for (int i = threadIdx.x; i < c.keys * heads; i += THREADS) {
      int key = i / heads, h = i % heads;
      const half8* row = (const half8*)(k + key * c.k_s[2] + h * c.k_s[1]);
      const f32* q = queries + h * c.size;
      f32 sum[QUERIES] = {};
      for (int from = 0; from < wide; from += AHEAD) {
        half8 read[AHEAD];
#pragma unroll
        for (int v = 0; v < AHEAD; v++) read[v] = row[lo(from + v, wide - 1)];  // no branches
#pragma unroll
        for (int v = 0; v < AHEAD; v++) {
          if (from + v >= wide) continue;
          f32 x[8];
          unpack<T>(read[v], x);
#pragma unroll
          for (int n = 0; n < QUERIES; n++) {
            const f32x4* a = (const f32x4*)(q + n * heads * c.size + (from + v) * 8);
            f32x4 low = a[0], high = a[1];
#pragma unroll
            for (int e = 0; e < 4; e++) {
              sum[n] = fmaf(x[e], low.v[e], sum[n]);
              sum[n] = fmaf(x[4 + e], high.v[e], sum[n]);
            }
          }
        }
      }
#pragma unroll
      for (int n = 0; n < QUERIES; n++) scores[(n * heads + h) * p.pitch + key] = sum[n];
    }
  }
  // Of one query and key, the heads in registers. |factors|: of the rows; NULL: 1.
  DEVICE_ONLY void mix(int m, const f32* factors) const {
    if (!p.weights[m] && !factors) return;
    const int keys = p.call.keys;
    for (int i = threadIdx.x; i < QUERIES * keys; i += THREADS) {
      int n = i / keys;
      f32 *at = scores + n * heads * p.pitch + i % keys, x[HEADS];
#pragma unroll
      for (int h = 0; h < HEADS; h++)
        x[h] = h < heads ? at[h * p.pitch] * (factors ? factors[n * heads + h] : 1.f) : 0.f;
      if (!p.weights[m]) {
#pragma unroll
        for (int h = 0; h < HEADS; h++)
          if (h < heads) at[h * p.pitch] = x[h];
        continue;
      }
      for (int g = 0; g < heads; g++) {
        f32 sum = bias[m][g];
#pragma unroll
        for (int h = 0; h < HEADS; h++)
          if (h < heads) sum = fmaf(x[h], weights[m][h * heads + g], sum);
        at[g * p.pitch] = sum;
      }
    }
  }
  // A warp a row: its exponentials, and the inverse of their sum.
  DEVICE_ONLY void exponentiate() const {
    const int lane = threadIdx.x % 32;
    for (int row = threadIdx.x / 32; row < rows; row += WARPS) {
      f32 *s = scores + row * p.pitch, top = lowest<f32>(), sum = 0;
      for (int key = lane; key < p.call.keys; key += 32) top = hi(top, s[key]);
      top = warp_reduce_max(top);
      for (int key = lane; key < p.call.keys; key += 32) {
        f32 e = expf(s[key] - top);
        s[key] = e, sum += e;
      }
      sum = warp_reduce_sum(sum);
      if (lane == 0) inverse[row] = sum == 0 && p.call.zero_empty ? 0.f : 1 / sum;
    }
  }
  // Vectors of eight results in groups of four a warp; where warps are left they share the keys.
  DEVICE_ONLY int vectors() const { return heads * p.call.value_size / 8; }
  DEVICE_ONLY int groups() const { return (vectors() + GROUP - 1) / GROUP; }
  DEVICE_ONLY int parts() const { return hi(1, WARPS / groups()); }
  DEVICE_ONLY void accumulate(int from) const {
    const carnot_cuda_attention_params& c = p.call;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, some = lo(groups(), (int)WARPS),
              part = warp / some, at = (from + warp % some) * GROUP + lane / LANES,
              h = at / (c.value_size / 8), e = at % (c.value_size / 8), apart = LANES * parts();
    if (part >= parts()) return;
    const bool valid = at < vectors();
    const half8* v = (const half8*)((const T*)c.v + outer * c.v_s[0] + h * c.v_s[1]) + e;
    f32 sum[QUERIES][8] = {};
    for (int key = part * LANES + lane % LANES; key < c.keys && valid; key += 4 * apart) {
      half8 read[4];
#pragma unroll
      for (int k = 0; k < 4; k++) read[k] = v[lo(key + k * apart, c.keys - 1) * (c.v_s[2] / 8)];
#pragma unroll
      for (int k = 0; k < 4; k++) {
        if (key + k * apart >= c.keys) continue;
        f32 x[8];
        unpack<T>(read[k], x);
#pragma unroll
        for (int n = 0; n < QUERIES; n++) {
          const f32 s = scores[(n * heads + h) * p.pitch + key + k * apart];
#pragma unroll
          for (int i = 0; i < 8; i++) sum[n][i] = fmaf(s, x[i], sum[n][i]);
        }
      }
    }
#pragma unroll
    for (int n = 0; n < QUERIES; n++)
#pragma unroll
      for (int i = 0; i < 8; i++) {
#pragma unroll
        for (int step = 1; step < LANES; step *= 2)
          sum[n][i] += __shfl_xor_sync(~0u, sum[n][i], step);
        if (lane % LANES == 0)
          partial[((warp * GROUP + lane / LANES) * QUERIES + n) * 8 + i] = sum[n][i];
      }
  }
  DEVICE_ONLY void write(int from) const {
    const carnot_cuda_attention_params& c = p.call;
    const int some = lo(groups(), (int)WARPS);
    for (int i = threadIdx.x; i < some * GROUP * QUERIES; i += THREADS) {
      const int n = i % QUERIES, slot = i / QUERIES, at = from * GROUP + slot;
      if (at >= vectors() || !has(n)) continue;
      const int h = at / (c.value_size / 8), e = at % (c.value_size / 8);
      f32 sum[8] = {};
      for (int part = 0; part < parts(); part++)
        for (int k = 0; k < 8; k++)
          sum[k] += partial[((part * some * GROUP + slot) * QUERIES + n) * 8 + k];
      T* y = (T*)c.y + outer * c.y_s[0] + h * c.y_s[1] + (first + n) * c.y_s[2];
      pack<T>(y, e, sum);
    }
  }
  DEVICE_ONLY void run() {
    extern __shared__ __align__(16) char shared[];
    place(shared);
    stage_weights();
    wait_for_previous();
    stage_queries();
    __syncthreads();
    multiply();
    __syncthreads();
    mix(0, nullptr);
    __syncthreads();
    exponentiate();
    __syncthreads();
    mix(1, inverse);
    for (int from = 0; from < groups(); from += WARPS) {
      __syncthreads();
      accumulate(from);
      __syncthreads();
      write(from);
    }
  }
};

// A thread for each position of all heads.
template <class T>
DEVICE void mix_heads(const carnot_cuda_mix_heads_params& p) {
  const i64 i = THREAD;
  if (i >= p.count) return;
  const i64 batch = i / p.inner, at = i % p.inner;
  const T* x = (const T*)p.x + batch * p.heads * p.inner + at;
  T* y = (T*)p.y + batch * p.results * p.inner + at;
  for (int g = 0; g < p.results; g++) {
    f32 sum = p.bias ? load(((const T*)p.bias)[g]) : 0;
    for (int h = 0; h < p.heads; h++)
      sum = fmaf(load(x[h * p.inner]), load(((const T*)p.w)[h * p.results + g]), sum);
    y[g * p.inner] = store_as<T>::of(sum);
  }
}
