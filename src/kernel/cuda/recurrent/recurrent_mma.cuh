// LSTM, GRU (linear before reset) and RNN of 16-bit floats on tensor cores. The blocks of a cluster
// share out the hidden units; each keeps its rows of the weights in shared memory as A operands of
// mma, part of them in registers. The B operand is the state of eight sequences. A block writes its
// part of the new state to all blocks, counted by mbarriers, and multiplies the next input while
// the others' parts arrive. Sums, gates and the state that a unit keeps for itself are float32.
#pragma once

#include "kernel/cuda/common/activation.cuh"
#include "kernel/cuda/common/cluster_mailbox.cuh"
#include "kernel/cuda/common/tensor_core.cuh"
#include "kernel/cuda/recurrent/recurrent_cluster_params.h"

#if __CUDA_ARCH__ >= 800

// tanh by the hardware exponential, for results that are rounded to 16 bits.
DEVICE f32 unit_tanh(f32 x) { return 2 * unit_sigmoid(2 * x) - 1; }

template <class T>
struct recurrent_mma {
  // Chunks of 32 columns that a warp has in registers: of R, and of the next step's input.
  enum { kHeld = 4, kAhead = 8, kSequences = CARNOT_CUDA_RECURRENT_SEQUENCES };
  const carnot_cuda_recurrent_cluster_params& p;
  u64* counters;                      // of the states of even and odd steps
  int rank, direction, first, count;  // count: sequences of this cluster
  int lane, tile, split, tiles;       // the warp has 16 rows and each |splits|th chunk
  int input_chunks, hidden_chunks, pitch;
  bool apart;       // the warp's rows add the reset gate's product between input and state
  half8 *w, *r;     // [tile][chunk][2][lane]
  T* states;        // of even and odd steps: [2][sequence][hidden_pitch]
  f32* parts;       // sums of the warps: [split][sequence][pitch]
  f32 *own, *cell;  // state and cell of the block's units: [item]
  half8 held[2 * kHeld], ahead[kAhead];
  f32 bias_x[2], bias_h[2];  // of the lane's two rows

  DEVICE_ONLY recurrent_mma(const carnot_cuda_recurrent_cluster_params& params, char* shared,
                            u64* both)
      : p(params), counters(both) {
    rank = (int)cluster_rank(), direction = blockIdx.y, first = (int)blockIdx.z * kSequences;
    count = lo((int)kSequences, p.batch - first), lane = threadIdx.x % 32;
    tiles = p.gates * p.units / 16, tile = (int)threadIdx.x / 32 % tiles,
    split = (int)threadIdx.x / 32 / tiles;
    input_chunks = p.input_pitch / 32, hidden_chunks = (p.blocks * p.units + 31) / 32;
    apart = p.gates == 3 && tile * 16 / p.units == 2;
    pitch = (p.gates == 3 ? 4 : p.gates) * p.units + 4;  // 4: bank conflicts
    w = (half8*)shared, r = w + tiles * input_chunks * 64;
    states = (T*)(r + tiles * hidden_chunks * 64);
    parts = (f32*)(states + 2 * kSequences * p.hidden_pitch);
    own = parts + p.splits * kSequences * pitch, cell = own + kSequences * p.units;
  }
  DEVICE_ONLY cluster_mailbox box(int step) const {
    return cluster_mailbox{counters + step % 2, p.blocks};
  }
  DEVICE_ONLY T* state_of(int step) const {
    return states + step % 2 * kSequences * p.hidden_pitch;
  }
  // Row |row| of the block among the rows of a direction's weights; -1: a unit beyond the last.
  DEVICE_ONLY int weight_row(int row) const {
    const int unit = rank * p.units + row % p.units;
    return unit < p.hidden ? row / p.units * p.hidden + unit : -1;
  }

  // Elements |k| to |k| + 7 of a row of |width|, zeros beyond it.
  static DEVICE_ONLY half8 eight(const T* row, int width, int k) {
    half8 v = {};
    if (width % 8 == 0 && (u64)row % 16 == 0) {
      if (k < width) v = *(const half8*)(row + k);
    } else {
#pragma unroll
      for (int i = 0; i < 8; i++)
        if (k + i < width) v.two[i / 2] |= (u32)row[k + i].bits << i % 2 * 16;
    }
    return v;
  }
  // The block's rows as A operands: two of each tile and chunk. Lane l of operand j has columns
  // 8 (l % 4) + 4 j to + 3 of rows l / 4 and l / 4 + 8, so that its part of both B operands is 16
  // bytes of a row.
  DEVICE_ONLY void keep(const void* from, int width, int chunks, half8* to) const {
    const T* weights = (const T*)from + (i64)direction * p.gates * p.hidden * width;
    for (int i = threadIdx.x; i < tiles * chunks * 32; i += blockDim.x) {
      const int k = i / 32 % chunks * 32 + lane % 4 * 8, row = i / 32 / chunks * 16 + lane / 4;
      half8 rows[2];
#pragma unroll
      for (int n = 0; n < 2; n++) {
        const int at = weight_row(row + 8 * n);
        rows[n] = at < 0 ? half8{} : eight(weights + (i64)at * width, width, k);
      }
      half8* here = to + i / 32 * 64 + lane;
      here[0] = {{rows[0].two[0], rows[1].two[0], rows[0].two[1], rows[1].two[1]}};
      here[32] = {{rows[0].two[2], rows[1].two[2], rows[0].two[3], rows[1].two[3]}};
    }
  }
  DEVICE_ONLY f32 bias_of(int which, int row) const {
    const int at = weight_row(row);
    if (!p.bias || at < 0 || split) return 0.f;
    return load(((const T*)p.bias)[(i64)(direction * 2 + which) * p.gates * p.hidden + at]);
  }

  // Index of sequence |b| in [batch, directions, hidden] or [directions, batch, hidden].
  DEVICE_ONLY i64 last_row(int b) const {
    return p.batch_first ? (i64)(first + b) * p.directions + direction
                         : (i64)direction * p.batch + first + b;
  }
  // Item i of the block's units and sequences: eight units of a sequence lie in eight lanes.
  static DEVICE_ONLY int sequence_of(int i) { return i / 8 % 8; }
  static DEVICE_ONLY int unit_of(int i) { return i / 64 * 8 + i % 8; }
  // Whether item i is a unit and a sequence of the layer.
  DEVICE_ONLY bool exists(int i) const {
    return sequence_of(i) < count && rank * p.units + unit_of(i) < p.hidden;
  }
  DEVICE_ONLY f32 initial(const void* from, int i) const {
    if (!from || !exists(i)) return 0.f;
    return load(
        ((const T*)from)[last_row(sequence_of(i)) * p.hidden + rank * p.units + unit_of(i)]);
  }
  DEVICE_ONLY void begin() {
    keep(p.w, p.input, input_chunks, w), keep(p.r, p.hidden, hidden_chunks, r);
    for (int i = threadIdx.x; i < 2 * kSequences * p.hidden_pitch; i += blockDim.x) {
      const int b = i / p.hidden_pitch, unit = i - b * p.hidden_pitch;
      const bool given = p.h0 && b < count && unit < p.hidden;
      states[i] = given ? ((const T*)p.h0)[last_row(b) * p.hidden + unit] : store_as<T>::of(0.f);
    }
    for (int i = threadIdx.x; i < kSequences * p.units; i += blockDim.x)
      own[i] = initial(p.h0, i), cell[i] = initial(p.c0, i);
#pragma unroll
    for (int n = 0; n < 2; n++) {
      const int row = tile * 16 + lane / 4 + 8 * n;
      bias_x[n] = bias_of(0, row), bias_h[n] = bias_of(1, row);
    }
    if (p.blocks > 1 && threadIdx.x == 0) box(0).init(), box(1).init();
    __syncthreads();
    if (p.blocks > 1) cluster_sync();
    if (threadIdx.x == 0) expect(0), expect(1);
#pragma unroll
    for (int j = 0; j < kHeld; j++) {
      const int chunk = split + j * p.splits;
      if (chunk >= hidden_chunks) continue;
      held[2 * j] = weights_of(r, hidden_chunks, chunk)[0];
      held[2 * j + 1] = weights_of(r, hidden_chunks, chunk)[32];
    }
  }
  // Of the state before |step|.
  DEVICE_ONLY void expect(int step) const {
    if (p.blocks > 1) box(step).expect(p.blocks * p.units * kSequences * sizeof(T));
  }
  DEVICE_ONLY void wait(int step) const {
    box(step).wait((step - 1) / 2 % 2);
    if (threadIdx.x == 0) expect(step);
  }

  DEVICE_ONLY const half8* weights_of(const half8* from, int chunks, int chunk) const {
    return from + (tile * chunks + chunk) * 64 + lane;
  }
  // Adds the products of 32 columns to two sums.
  static DEVICE_ONLY void multiply(f32* even, f32* odd, const half8& a, const half8& b,
                                   const half8& v) {
    mma<T>::multiply(even, a.two, v.two[0], v.two[1]);
    mma<T>::multiply(odd, b.two, v.two[2], v.two[3]);
  }
  DEVICE_ONLY int time_of(int step) const {
    return direction == 1 || p.reverse ? p.time - 1 - step : step;
  }
  DEVICE_ONLY half8 input_of(int step, int chunk) const {
    const int t = time_of(step), b = lane / 4;
    if (b >= count) return half8{};
    const i64 row = p.batch_first ? (i64)(first + b) * p.time + t : (i64)t * p.batch + first + b;
    return eight((const T*)p.x + row * p.input, p.input, chunk * 32 + lane % 4 * 8);
  }
  // Begins to read the input of |step|.
  DEVICE_ONLY void fetch_input(int step) {
#pragma unroll
    for (int j = 0; j < kAhead; j++)
      if (split + j * p.splits < input_chunks) ahead[j] = input_of(step, split + j * p.splits);
  }
  DEVICE_ONLY void project_input(int step, f32* sum) const {
    f32 odd[4] = {};
    for (int i = 0; i < 4; i++) sum[i] = bias_x[i / 2];
#pragma unroll
    for (int j = 0; j < kAhead; j++) {
      if (split + j * p.splits >= input_chunks) continue;
      const half8* a = weights_of(w, input_chunks, split + j * p.splits);
      multiply(sum, odd, a[0], a[32], ahead[j]);
    }
    for (int chunk = split + kAhead * p.splits; chunk < input_chunks; chunk += p.splits) {
      const half8* a = weights_of(w, input_chunks, chunk);
      multiply(sum, odd, a[0], a[32], input_of(step, chunk));
    }
    for (int i = 0; i < 4; i++) sum[i] += odd[i];
  }
  DEVICE_ONLY void project_state(int step, f32* sum) const {
    const T* h = state_of(step) + lane / 4 * p.hidden_pitch + lane % 4 * 8;
    f32 odd[4] = {};
    for (int i = 0; i < 4; i++) sum[i] += bias_h[i / 2];
#pragma unroll
    for (int j = 0; j < kHeld; j++) {
      const int chunk = split + j * p.splits;
      if (chunk >= hidden_chunks) continue;
      multiply(sum, odd, held[2 * j], held[2 * j + 1], *(const half8*)(h + chunk * 32));
    }
    for (int chunk = split + kHeld * p.splits; chunk < hidden_chunks; chunk += p.splits) {
      const half8* a = weights_of(r, hidden_chunks, chunk);
      multiply(sum, odd, a[0], a[32], *(const half8*)(h + chunk * 32));
    }
    for (int i = 0; i < 4; i++) sum[i] += odd[i];
  }
  // The lane's sums: two rows of two sequences. |below|: rows that they are moved by.
  DEVICE_ONLY void put_sums(const f32* sum, int below) const {
    f32* to = parts + (split * kSequences + lane % 4 * 2) * pitch + tile * 16 + lane / 4 + below;
    to[0] = sum[0], to[pitch] = sum[1], to[8] = sum[2], to[pitch + 8] = sum[3];
  }

  // The new state of item i, whose state was |h|.
  DEVICE_ONLY f32 next(int i, f32 h) const {
    const int sums = p.gates == 3 ? 4 : p.gates;
    const f32* from = parts + sequence_of(i) * pitch + unit_of(i);
    f32 v[4] = {};
    for (int s = 0; s < p.splits; s++, from += kSequences * pitch)
#pragma unroll
      for (int g = 0; g < 4; g++)
        if (g < sums) v[g] += from[g * p.units];
    if (p.gates == 4) {
      const f32 in = unit_sigmoid(v[0]), forget = p.input_forget ? 1.f - in : unit_sigmoid(v[2]),
                c = forget * cell[i] + in * unit_tanh(v[3]);
      cell[i] = c;
      return unit_sigmoid(v[1]) * unit_tanh(c);
    }
    if (p.gates == 3) {
      const f32 z = unit_sigmoid(v[0]), fresh = unit_tanh(v[3] + unit_sigmoid(v[1]) * v[2]);
      return fresh + z * (h - fresh);
    }
    return unit_tanh(v[0]);
  }
  // The values of eight lanes, in each of them.
  static DEVICE_ONLY half8 gather(f32 v) {
    const u32 mine = store_as<T>::of(v).bits, other = __shfl_xor_sync(~0u, mine, 1);
    const u32 two = threadIdx.x % 2 ? other | mine << 16 : mine | other << 16;
    const u32 far = __shfl_xor_sync(~0u, two, 2);
    const bool second = threadIdx.x & 2, upper = threadIdx.x & 4;
    const u32 a = second ? far : two, b = second ? two : far;
    const u32 c = __shfl_xor_sync(~0u, a, 4), d = __shfl_xor_sync(~0u, b, 4);
    return upper ? half8{{c, d, a, b}} : half8{{a, b, c, d}};
  }
  // The gates of the block's units, once all sums are there.
  DEVICE_ONLY void finish(int step) const {
    const int t = time_of(step);
    for (int i = threadIdx.x; i < kSequences * p.units; i += blockDim.x) {
      const f32 h = next(i, own[i]);
      own[i] = h;
      const int b = sequence_of(i), unit = rank * p.units + unit_of(i);
      if (step + 1 < p.time) {
        const half8 all = gather(h);
        T* to = state_of(step + 1) + b * p.hidden_pitch + unit / 8 * 8;
        for (int peer = lane % 8; peer < p.blocks; peer += 8)
          box(step + 1).send((half8*)to, peer, all);
      }
      if (!p.y || !exists(i)) continue;
      const i64 row = p.batch_first ? ((i64)(first + b) * p.time + t) * p.directions + direction
                                    : ((i64)t * p.directions + direction) * p.batch + first + b;
      ((T*)p.y)[row * p.hidden + unit] = store_as<T>::of(h);
    }
  }

  DEVICE_ONLY void run() {
    begin();
    if (p.time) fetch_input(0);
    for (int step = 0; step < p.time; step++) {
      f32 input[4], sum[4] = {};
      project_input(step, input);
      if (step + 1 < p.time) fetch_input(step + 1);
      if (step) wait(step);
      if (!apart)
        for (int i = 0; i < 4; i++) sum[i] = input[i];
      project_state(step, sum);
      put_sums(sum, 0);
      if (apart) put_sums(input, p.units);
      __syncthreads();
      finish(step);
    }
    for (int i = threadIdx.x; i < kSequences * p.units; i += blockDim.x) {
      if (!exists(i)) continue;
      const i64 at = last_row(sequence_of(i)) * p.hidden + rank * p.units + unit_of(i);
      if (p.last_h) ((T*)p.last_h)[at] = store_as<T>::of(own[i]);
      if (p.last_c) ((T*)p.last_c)[at] = store_as<T>::of(cell[i]);
    }
  }
};

template <class T>
DEVICE void recurrent_by_mma(const carnot_cuda_recurrent_cluster_params& p) {
  extern __shared__ __align__(16) char shared[];
  __shared__ u64 counters[2];
  wait_for_previous();
  recurrent_mma<T>(p, shared, counters).run();
}
#endif
