// LSTM, GRU (linear before reset) and RNN with their default activations. The blocks of a cluster
// share out the hidden units: each keeps its rows of the weights in shared memory, computes its
// part of the hidden state and writes it to all of them; the projection of the next input is
// computed while the others' parts arrive. Accumulation and state are float32.
#pragma once

#include "kernel/cuda/common/cluster.cuh"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/common/warp_reduce.cuh"
#include "kernel/cuda/recurrent/recurrent_cluster_params.h"

template <class T>
struct __align__(16) recurrent_vector {
  enum { kCount = 16 / sizeof(T) };
  T e[kCount];
};

DEVICE f32 recurrent_sigmoid(f32 v) { return 1.f / (1.f + expf(-v)); }

template <class T>
struct recurrent_layer {
  typedef recurrent_vector<T> vec;
  const carnot_cuda_recurrent_cluster_params& p;
  int rank, direction, first, count;  // count: sequences of this cluster
  int rows;                           // of the block: |gates| times |units|
  f32 *states, *from_x, *from_h, *cell, *fresh, *input, *biases;  // biases: [2][rows]
  T *w, *r;
  // What the thread has of the next input, on its way to |input|.
  enum { kHeld = 2 };
  f32 held[kHeld];

  DEVICE_ONLY recurrent_layer(const carnot_cuda_recurrent_cluster_params& params, char* shared)
      : p(params) {
    rank = (int)cluster_rank(), direction = blockIdx.y, first = (int)blockIdx.z * p.together;
    count = lo(p.together, p.batch - first), rows = p.gates * p.units;
    states = (f32*)shared;
    input = states + 2 * p.together * p.hidden_pitch;
    from_x = input + p.together * p.input_pitch, from_h = from_x + p.together * rows;
    cell = from_h + p.together * rows, fresh = cell + p.together * p.units;
    biases = fresh + p.together * p.units;
    w = (T*)(shared + ((char*)(biases + 2 * rows) - shared + 15) / 16 * 16);
    r = w + rows * p.input_pitch;
  }
  // The hidden state before |step|.
  DEVICE_ONLY f32* state_of(int step) const {
    return states + step % 2 * p.together * p.hidden_pitch;
  }
  // The hidden unit and the row of the weights of row |row| of the block.
  DEVICE_ONLY int unit_of(int row) const { return rank * p.units + row % p.units; }
  DEVICE_ONLY i64 weight_row(int row) const {
    return ((i64)direction * p.gates + row / p.units) * p.hidden + unit_of(row);
  }

  DEVICE_ONLY void keep(const void* from, int width, int pitch, T* to) const {
    for (int i = threadIdx.x; i < rows * pitch; i += blockDim.x) {
      int row = i / pitch, k = i - row * pitch;
      bool inside = unit_of(row) < p.hidden && k < width;
      to[i] = inside ? ((const T*)from)[weight_row(row) * width + k] : store_as<T>::of(0.f);
    }
  }

  // The sums over the warp of N numbers of each lane (a power of two up to 32), one in each lane:
  // halves are exchanged until one is left. Lane l has number l * N / 32.
  template <int N>
  static DEVICE_ONLY f32 sum_each(f32* v) {
    const int lane = threadIdx.x % 32;
    int offset = 16;
#pragma unroll
    for (int half = N / 2; half >= 1; half /= 2, offset /= 2) {
      const bool upper = lane & offset;
#pragma unroll
      for (int i = 0; i < half; i++) {
        f32 other = __shfl_xor_sync(~0u, upper ? v[i] : v[i + half], offset);
        v[i] = (upper ? v[i + half] : v[i]) + other;
      }
    }
    for (; offset; offset /= 2) v[0] += __shfl_xor_sync(~0u, v[0], offset);
    return v[0];
  }

  // out[b][row] = v[b] · weights[row] + bias, of four rows and SEQUENCES sequences of a warp at a
  // time: weights are read once for these. What rows of units beyond the last give is not read.
  template <int SEQUENCES>
  DEVICE_ONLY void project_some(const void* weights, const T* kept, int width, int pitch,
                                const f32* v, int bias, f32* out) const {
    enum { kRows = 4, kSums = kRows * SEQUENCES };
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int begin = warp * kRows; begin < rows; begin += warps * kRows)
      for (int b = 0; b < count; b += SEQUENCES) {
        const T* row[kRows];
        const f32* from[SEQUENCES];
        f32 sum[kSums] = {};
#pragma unroll
        for (int i = 0; i < kRows; i++) {
          int at = lo(begin + i, rows - 1);
          row[i] = kept + at * pitch;
          if (!p.resident)
            row[i] = (const T*)weights + (unit_of(at) < p.hidden ? weight_row(at) * width : 0);
        }
#pragma unroll
        for (int s = 0; s < SEQUENCES; s++) from[s] = v + lo(b + s, count - 1) * pitch;
        for (int k = lane * vec::kCount; k < (p.resident ? pitch : width); k += 32 * vec::kCount) {
          vec f[kRows];
#pragma unroll
          for (int i = 0; i < kRows; i++) f[i] = *(const vec*)(row[i] + k);
#pragma unroll
          for (int s = 0; s < SEQUENCES; s++) {
            recurrent_vector<f32> x[vec::kCount / 4];
#pragma unroll
            for (int e = 0; e < vec::kCount / 4; e++)
              x[e] = ((const recurrent_vector<f32>*)(from[s] + k))[e];
#pragma unroll
            for (int i = 0; i < kRows; i++)
#pragma unroll
              for (int e = 0; e < vec::kCount; e++)
                sum[s * kRows + i] = fmaf(load(f[i].e[e]), x[e / 4].e[e % 4], sum[s * kRows + i]);
          }
        }
        const f32 all = sum_each<kSums>(sum);
        const int which = lane / (32 / kSums), at = begin + which % kRows, to = b + which / kRows;
        if (lane % (32 / kSums) == 0 && at < rows && to < count)
          out[to * rows + at] = all + biases[bias * rows + at];
      }
  }
  DEVICE_ONLY void project(const void* weights, const T* kept, int width, int pitch, const f32* v,
                           int bias, f32* out) const {
    if (count == 1)
      project_some<1>(weights, kept, width, pitch, v, bias, out);
    else if (count == 2)
      project_some<2>(weights, kept, width, pitch, v, bias, out);
    else
      project_some<4>(weights, kept, width, pitch, v, bias, out);
  }

  DEVICE_ONLY int time_of(int step) const {
    return direction == 1 || p.reverse ? p.time - 1 - step : step;
  }
  DEVICE_ONLY f32 input_at(int step, int i) const {
    const int t = time_of(step), b = count == 1 ? 0 : i / p.input, k = i - b * p.input;
    i64 at = p.batch_first ? (i64)(first + b) * p.time + t : (i64)t * p.batch + first + b;
    return load(((const T*)p.x)[at * p.input + k]);
  }
  DEVICE_ONLY void put_input(int i, f32 v) const {
    const int b = count == 1 ? 0 : i / p.input;
    input[b * p.input_pitch + i - b * p.input] = v;
  }
  // Begins to read the input of |step|.
  DEVICE_ONLY void fetch_input(int step) {
#pragma unroll
    for (int j = 0; j < kHeld; j++) {
      int i = threadIdx.x + j * blockDim.x;
      if (i < count * p.input) held[j] = input_at(step, i);
    }
  }
  DEVICE_ONLY void project_input(int step) const {
#pragma unroll
    for (int j = 0; j < kHeld; j++) {
      int i = threadIdx.x + j * blockDim.x;
      if (i < count * p.input) put_input(i, held[j]);
    }
    for (int i = threadIdx.x + kHeld * blockDim.x; i < count * p.input; i += blockDim.x)
      put_input(i, input_at(step, i));
    __syncthreads();
    project(p.w, w, p.input, p.input_pitch, input, 0, from_x);
  }

  DEVICE_ONLY f32 gate(int b, int g, int u) const {
    int at = b * rows + g * p.units + u;
    return from_x[at] + from_h[at];
  }
  // The new state of unit |u| of the block.
  DEVICE_ONLY f32 next(int b, int u, f32 h) const {
    if (p.gates == 4) {
      f32 i = recurrent_sigmoid(gate(b, 0, u)), o = recurrent_sigmoid(gate(b, 1, u));
      f32 f = p.input_forget ? 1.f - i : recurrent_sigmoid(gate(b, 2, u));
      f32 c = f * cell[b * p.units + u] + i * tanhf(gate(b, 3, u));
      cell[b * p.units + u] = c;
      return o * tanhf(c);
    }
    if (p.gates == 3) {
      f32 z = recurrent_sigmoid(gate(b, 0, u)), reset = recurrent_sigmoid(gate(b, 1, u));
      int at = b * rows + 2 * p.units + u;
      return (1.f - z) * tanhf(from_x[at] + reset * from_h[at]) + z * h;
    }
    return tanhf(gate(b, 0, u));
  }

  // Index of sequence |b| in [batch, directions, hidden] or [directions, batch, hidden].
  DEVICE_ONLY i64 last_row(int b) const {
    return p.batch_first ? (i64)(first + b) * p.directions + direction
                         : (i64)direction * p.batch + first + b;
  }
  DEVICE_ONLY void begin() const {
    for (int i = threadIdx.x; i < 2 * p.together * p.hidden_pitch + p.together * p.input_pitch;
         i += blockDim.x)
      states[i] = 0.f;
    for (int i = threadIdx.x; i < 2 * rows; i += blockDim.x) {
      int which = i / rows, row = i - which * rows, unit = unit_of(row);
      i64 at = ((i64)(direction * 2 + which) * p.gates + row / p.units) * p.hidden + unit;
      biases[i] = p.bias && unit < p.hidden ? load(((const T*)p.bias)[at]) : 0.f;
    }
    if (p.resident) keep(p.w, p.input, p.input_pitch, w), keep(p.r, p.hidden, p.hidden_pitch, r);
    __syncthreads();
    for (int i = threadIdx.x; p.h0 && i < count * p.hidden; i += blockDim.x) {
      int b = i / p.hidden, k = i - b * p.hidden;
      states[b * p.hidden_pitch + k] = load(((const T*)p.h0)[last_row(b) * p.hidden + k]);
    }
    for (int i = threadIdx.x; i < count * p.units; i += blockDim.x) {
      int b = i / p.units, unit = rank * p.units + i % p.units;
      cell[i] =
          p.c0 && unit < p.hidden ? load(((const T*)p.c0)[last_row(b) * p.hidden + unit]) : 0.f;
    }
  }

  DEVICE_ONLY void advance(int step) const {
    const f32* h = state_of(step);
    project(p.r, r, p.hidden, p.hidden_pitch, h, 1, from_h);
    __syncthreads();
    for (int i = threadIdx.x; i < count * p.units; i += blockDim.x) {
      int b = i / p.units, u = i % p.units, unit = rank * p.units + u;
      if (unit >= p.hidden) continue;
      fresh[i] = next(b, u, h[b * p.hidden_pitch + unit]);
    }
    __syncthreads();
    const int own = count * p.units;
    const u32 base = (u32)__cvta_generic_to_shared(state_of(step + 1));
    for (int i = threadIdx.x; i < own * p.blocks; i += blockDim.x) {
      int peer = i / own, at = i - peer * own, b = at / p.units,
          unit = rank * p.units + at % p.units;
      if (unit < p.hidden) write_peer(base + 4 * (b * p.hidden_pitch + unit), peer, fresh[at]);
    }
  }

  // Writes what the thread computed in advance.
  DEVICE_ONLY void store(int step) const {
    const int t = time_of(step);
    for (int i = threadIdx.x; p.y && i < count * p.units; i += blockDim.x) {
      int b = i / p.units, unit = rank * p.units + i % p.units;
      i64 to = p.batch_first ? ((i64)(first + b) * p.time + t) * p.directions + direction
                             : ((i64)t * p.directions + direction) * p.batch + first + b;
      if (unit < p.hidden) ((T*)p.y)[to * p.hidden + unit] = store_as<T>::of(fresh[i]);
    }
  }

  DEVICE_ONLY void run() {
    begin();
    __syncthreads();
    if (p.time) fetch_input(0), project_input(0);
    cluster_sync();
    __syncthreads();
    for (int step = 0; step < p.time; step++) {
      if (step + 1 < p.time) fetch_input(step + 1);
      advance(step);
      cluster_arrive();
      store(step);
      if (step + 1 < p.time) project_input(step + 1);
      cluster_wait();
      __syncthreads();
    }
    for (int i = threadIdx.x; i < count * p.units; i += blockDim.x) {
      int b = i / p.units, unit = rank * p.units + i % p.units;
      if (unit >= p.hidden) continue;
      i64 at = last_row(b) * p.hidden + unit;
      if (p.last_h)
        ((T*)p.last_h)[at] = store_as<T>::of(state_of(p.time)[b * p.hidden_pitch + unit]);
      if (p.last_c) ((T*)p.last_c)[at] = store_as<T>::of(cell[i]);
    }
  }
};

template <class T>
DEVICE void recurrent_cluster(const carnot_cuda_recurrent_cluster_params& p) {
  extern __shared__ __align__(16) char shared[];
  recurrent_layer<T>(p, shared).run();
}
