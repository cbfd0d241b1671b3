// The Attention operator for few queries: keys and values of whole caches, heads that share them,
// lengths, masks and windows as in attention_generic.cuh. A block has a query of a head; its
// threads share the keys, and again the rows of values that are weighted. Sums and softmax are
// float32.
#pragma once

#include "kernel/cuda/attention/attention_generic.cuh"

#ifdef __CUDACC__

template <class T>
struct attention_cached {
  enum {
    VECTOR = 16 / (int)sizeof(T),  // elements of a load
    AHEAD = 4                      // loads of a thread at a time
  };
  struct __align__(16) vector {
    T x[VECTOR];
  };
  const carnot_cuda_attention_generic_params& p;
  i64 item;
  bool aligned;

  // |x| begins at a multiple of VECTOR elements of an operand.
  DEVICE_ONLY void read(const T* x, f32* to) const {
    if (aligned) {
      const vector v = *(const vector*)x;
#pragma unroll
      for (int e = 0; e < VECTOR; e++) to[e] = load(v.x[e]);
    } else {
      for (int e = 0; e < VECTOR; e++) to[e] = load(x[e]);
    }
  }
  // Row 0 of a key head's keys or values, and the distance of rows.
  DEVICE_ONLY const T* rows_of(int input, i64 b, i64 h, i64 size, i64* stride) const {
    *stride = p.heads_last ? p.kv_heads * size : size;
    const i64 first = p.heads_last ? b * p.keys * p.kv_heads + h : (b * p.kv_heads + h) * p.keys;
    return (const T*)p.io.in[input] + first * size;
  }
  // scores[j] of keys 0 .. last - 1; the largest.
  DEVICE_ONLY f32 score(const T* q, i64 b, i64 h, i64 i, i64 last, f32* scores) const {
    const int lanes = (int)p.size / VECTOR, lane = threadIdx.x % lanes, groups = blockDim.x / lanes,
              group = threadIdx.x / lanes;
    i64 stride;
    const T* keys = rows_of(1, b, h / (p.q_heads / p.kv_heads), p.size, &stride) + lane * VECTOR;
    f32 a[VECTOR], top = limits_of<f32>::low();
    read(q + lane * VECTOR, a);
    for (i64 first = 0; first < last; first += groups * AHEAD) {
      f32 k[AHEAD][VECTOR];
#pragma unroll
      for (int n = 0; n < AHEAD; n++)  // behind the last key: that one again
        read(keys + lo(first + n * groups + group, last - 1) * stride, k[n]);
#pragma unroll
      for (int n = 0; n < AHEAD; n++) {
        const i64 j = first + n * groups + group;
        f32 s = 0;
#pragma unroll
        for (int e = 0; e < VECTOR; e++) s = fmaf(a[e], k[n][e], s);
        for (int step = lanes / 2; step; step /= 2) s += __shfl_xor_sync(~0u, s, step);
        if (lane || j >= last) continue;
        s *= (f32)p.scale;
        if (p.softcap > 0) s = (f32)p.softcap * tanhf(s / (f32)p.softcap);
        scores[j] = s += (f32)attention_bias(p, b, h, i, j);
        top = hi(top, s);
      }
    }
    return block_reduce<max_of<f32>, f32>(top, limits_of<f32>::low());
  }
  // exp(scores - top), in place; their sum.
  DEVICE_ONLY f32 exponentials(i64 last, f32 top, f32* scores) const {
    f32 sum = 0;
    for (i64 j = threadIdx.x; j < last; j += blockDim.x)
      sum += scores[j] = top == limits_of<f32>::low() ? 0 : expf(scores[j] - top);
    return block_reduce<add_of<f32>, f32>(sum, 0);
  }
  // y = scores . values / sum
  DEVICE_ONLY void weigh(i64 b, i64 h, i64 last, f32 sum, const f32* scores, T* y) const {
    __shared__ f32 parts[CARNOT_CUDA_THREADS * VECTOR];
    const int lanes = (int)p.value_size / VECTOR, lane = threadIdx.x % lanes,
              groups = blockDim.x / lanes, group = threadIdx.x / lanes;
    i64 stride;
    const T* values = rows_of(2, b, h / (p.q_heads / p.kv_heads), p.value_size, &stride);
    f32 all[VECTOR] = {};
    for (i64 first = group; first < last; first += groups * AHEAD) {
      f32 v[AHEAD][VECTOR];
#pragma unroll
      for (int n = 0; n < AHEAD; n++)
        read(values + lo(first + n * groups, last - 1) * stride + lane * VECTOR, v[n]);
#pragma unroll
      for (int n = 0; n < AHEAD; n++) {
        const f32 w = first + n * groups < last ? scores[first + n * groups] : 0;
#pragma unroll
        for (int e = 0; e < VECTOR; e++) all[e] = w == 0 ? all[e] : fmaf(w, v[n][e], all[e]);
      }
    }
#pragma unroll
    for (int e = 0; e < VECTOR; e++) parts[threadIdx.x * VECTOR + e] = all[e];
    __syncthreads();
    for (int e = threadIdx.x; e < p.value_size; e += blockDim.x) {
      f32 v = 0;
      for (int g = 0; g < groups; g++) v += parts[g * p.value_size + e];
      y[e] = store_as<T>::of(sum == 0 ? 0 : v / sum);  // no key is seen: zeros
    }
    __syncthreads();
  }
  DEVICE_ONLY void run() {
    const carnot_cuda_generic_io& io = p.io;
    f32* scores = (f32*)io.scratch + item * p.keys;
    aligned = ((u64)io.in[0] | (u64)io.in[1] | (u64)io.in[2]) % 16 == 0;
    for (i64 row = item; row < p.rows; row += io.count) {
      const i64 i = row % p.queries, h = row / p.queries % p.q_heads,
                b = row / p.queries / p.q_heads;
      const i64 q_row = p.heads_last ? (b * p.queries + i) * p.q_heads + h : row;
      const i64 length = io.in[6] ? whole_of(io.in_type[6], io.in[6], b) : p.keys;
      const i64 last = lo(hi(length, (i64)0), p.keys);
      const f32 top = score((const T*)io.in[0] + q_row * p.size, b, h, i, last, scores);
      const f32 sum = exponentials(last, top, scores);
      __syncthreads();
      weigh(b, h, last, sum, scores, (T*)io.out[0] + q_row * p.value_size);
    }
  }
};

#endif
