// Attention of 16-bit floats whose heads are mixed before and behind the softmax (talking heads),
// without tensor cores: a block holds the scores of QUERIES queries, all heads and all keys in
// shared memory, so that the heads of a position are beside one another.
#pragma once

#include "kernel/cuda/attention/attention_mixed_params.h"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/common/numeric.cuh"

template <class T, int QUERIES>
struct attention_mixed {
  enum { THREADS = CARNOT_CUDA_MIXED_THREADS, HEADS = CARNOT_CUDA_MIXED_HEADS };
  const carnot_cuda_attention_mixed_params& p;
  // Shared: queries [QUERIES][heads * size], scores [QUERIES][heads][pitch], of rows of scores the
  // largest and the inverse sum, partial results; weights and bias of both mixes.
  f32 *queries, *scores, *partial, *largest, *inverse, *weights[2], *bias[2];
  int heads, rows, lanes;  // rows: of scores; lanes: threads that share a row
  int first;               // query
  i64 outer;

  DEVICE_ONLY void place(char* shared) {
    const carnot_cuda_attention_params& c = p.call;
    heads = c.inner, rows = QUERIES * heads, lanes = THREADS / rows;
    first = blockIdx.x * QUERIES, outer = blockIdx.y;
    queries = (f32*)shared;
    scores = queries + rows * c.size;
    partial = scores + rows * p.pitch;
    largest = partial + THREADS * QUERIES * 8;
    inverse = largest + rows;
    for (int m = 0; m < 2; m++) {
      weights[m] = inverse + rows + m * (HEADS * HEADS + HEADS);
      bias[m] = weights[m] + HEADS * HEADS;
    }
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
    for (int i = threadIdx.x; i < rows * c.size; i += THREADS) {
      int q = i / (heads * c.size), h = i / c.size % heads, e = i % c.size;
      const T* from = (const T*)c.q + outer * c.q_s[0] + h * c.q_s[1] + (first + q) * c.q_s[2] + e;
      queries[i] = has(q) ? load(*from) * c.scale : 0;
    }
  }
  // Scores of one key and head for all queries, a thread each.
  DEVICE_ONLY void multiply() const {
    const carnot_cuda_attention_params& c = p.call;
    const T* k = (const T*)c.k + outer * c.k_s[0];
    for (int i = threadIdx.x; i < c.keys * heads; i += THREADS) {
      int key = i / heads, h = i % heads;
      const half8* row = (const half8*)(k + key * c.k_s[2] + h * c.k_s[1]);
      const f32* q = queries + h * c.size;
      f32 sum[QUERIES] = {};
#pragma unroll 4
      for (int v = 0; v < c.size / 8; v++) {
        f32 x[8];
        unpack<T>(row[v], x);
#pragma unroll
        for (int n = 0; n < QUERIES; n++)
#pragma unroll
          for (int e = 0; e < 8; e++)
            sum[n] = fmaf(x[e], q[n * heads * c.size + v * 8 + e], sum[n]);
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
        if (h < heads) x[h] = at[h * p.pitch] * (factors ? factors[n * heads + h] : 1.f);
      for (int g = 0; g < heads; g++) {
        f32 sum = 0;
        if (p.weights[m]) {
          sum = bias[m][g];
#pragma unroll
          for (int h = 0; h < HEADS; h++)
            if (h < heads) sum = fmaf(x[h], weights[m][h * heads + g], sum);
        } else {
#pragma unroll
          for (int h = 0; h < HEADS; h++)
            if (h == g) sum = x[h];
        }
        at[g * p.pitch] = sum;
      }
    }
  }
  DEVICE_ONLY int row_of() const { return threadIdx.x / lanes; }
  DEVICE_ONLY int lane() const { return threadIdx.x % lanes; }
  DEVICE_ONLY void find_largest_of_part() const {
    f32 top = lowest<f32>();
    if (row_of() < rows)
      for (int key = lane(); key < p.call.keys; key += lanes)
        top = hi(top, scores[row_of() * p.pitch + key]);
    partial[threadIdx.x] = top;
  }
  DEVICE_ONLY void find_largest() const {
    if ((int)threadIdx.x >= rows) return;
    f32 top = lowest<f32>();
    for (int i = 0; i < lanes; i++) top = hi(top, partial[threadIdx.x * lanes + i]);
    largest[threadIdx.x] = top;
  }
  DEVICE_ONLY void exponentiate() const {
    f32 sum = 0;
    if (row_of() < rows)
      for (int key = lane(); key < p.call.keys; key += lanes) {
        f32* s = scores + row_of() * p.pitch + key;
        *s = expf(*s - largest[row_of()]);
        sum += *s;
      }
    partial[threadIdx.x] = sum;
  }
  DEVICE_ONLY void find_sums() const {
    if ((int)threadIdx.x >= rows) return;
    f32 sum = 0;
    for (int i = 0; i < lanes; i++) sum += partial[threadIdx.x * lanes + i];
    inverse[threadIdx.x] = sum == 0 && p.call.zero_empty ? 0.f : 1 / sum;
  }
  // Vectors of eight results, each over some of the keys: partial [part][query][vector][8].
  DEVICE_ONLY int vectors() const { return heads * p.call.value_size / 8; }
  DEVICE_ONLY int parts() const { return hi(1, THREADS / vectors()); }
  DEVICE_ONLY void accumulate(int from) const {
    const carnot_cuda_attention_params& c = p.call;
    const int of_block = lo(vectors(), (int)THREADS), part = threadIdx.x / of_block,
              at = from + threadIdx.x % of_block, h = at / (c.value_size / 8),
              e = at % (c.value_size / 8);
    if (part >= parts() || at >= vectors()) return;
    const T* v = (const T*)c.v + outer * c.v_s[0] + h * c.v_s[1];
    f32 sum[QUERIES][8] = {};
#pragma unroll 4
    for (int key = part; key < c.keys; key += parts()) {
      f32 x[8];
      unpack<T>(((const half8*)(v + key * c.v_s[2]))[e], x);
#pragma unroll
      for (int n = 0; n < QUERIES; n++) {
        const f32 s = scores[(n * heads + h) * p.pitch + key];
#pragma unroll
        for (int i = 0; i < 8; i++) sum[n][i] = fmaf(s, x[i], sum[n][i]);
      }
    }
#pragma unroll
    for (int n = 0; n < QUERIES; n++)
#pragma unroll
      for (int i = 0; i < 8; i++) partial[(n * 8 + i) * THREADS + threadIdx.x] = sum[n][i];
  }
  DEVICE_ONLY void write(int from) const {
    const carnot_cuda_attention_params& c = p.call;
    const int of_block = lo(vectors(), (int)THREADS);
    for (int i = threadIdx.x; i < of_block * QUERIES; i += THREADS) {
      const int n = i / of_block, at = from + i % of_block;
      if (at >= vectors() || !has(n)) continue;
      const int h = at / (c.value_size / 8), e = at % (c.value_size / 8);
      f32 sum[8] = {};
      for (int part = 0; part < parts(); part++)
        for (int k = 0; k < 8; k++)
          sum[k] += partial[(n * 8 + k) * THREADS + part * of_block + i % of_block];
      T* y = (T*)c.y + outer * c.y_s[0] + h * c.y_s[1] + (first + n) * c.y_s[2];
      pack<T>(y, e, sum);
    }
  }
#ifdef __CUDACC__
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
    find_largest_of_part();
    __syncthreads();
    find_largest();
    __syncthreads();
    exponentiate();
    __syncthreads();
    find_sums();
    __syncthreads();
    mix(1, inverse);
    for (int from = 0; from < vectors(); from += THREADS) {
      __syncthreads();
      accumulate(from);
      __syncthreads();
      write(from);
    }
  }
#endif
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
