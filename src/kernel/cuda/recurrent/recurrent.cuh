// LSTM, GRU and RNN with their default activations (generic kernel): one block per sequence and
// direction, state and gates in float64 scratch. Formulas as in ops/lstm.c and ops/gru.c.
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/recurrent/recurrent_params.h"

struct sequence {
  i64 direction, index, rows;
  f64 *h, *c, *gates, *more, *last;
};

DEVICE f64 optional_at(const carnot_cuda_generic_io& io, int input, i64 i) {
  return io.in[input] ? real_of(io.in_type[input], io.in[input], i) : 0;
}

// out[j] += v · w[j], for rows [first, last) of |input|'s matrix of this direction, and its bias.
DEVICE void project(const carnot_cuda_recurrent_params& p, const sequence& s, int input, i64 width,
                    const f64* v, i64 x_at, i64 first, i64 last, f64* out) {
  const carnot_cuda_generic_io& io = p.io;
  for (i64 j = first + threadIdx.x; j < last; j += blockDim.x) {
    i64 from = (s.direction * s.rows + j) * width;
    f64 sum = optional_at(io, 3, (s.direction * 2 + (input == 2)) * s.rows + j);
    for (i64 k = 0; k < width; k++)
      sum += real_of(io.in_type[input], io.in[input], from + k) *
             (v ? v[k] : real_of(io.in_type[0], io.in[0], x_at + k));
    out[j] = input == 1 ? sum : out[j] + sum;
  }
  __syncthreads();
}

DEVICE f64 clipped(const carnot_cuda_recurrent_params& p, f64 v) {
  return p.clip > 0 ? (v > p.clip ? p.clip : v < -p.clip ? -p.clip : v) : v;
}

DEVICE void lstm_step(const carnot_cuda_recurrent_params& p, const sequence& s) {
  i64 n = p.hidden, peep = s.direction * 3 * n;
  project(p, s, 2, n, s.h, 0, 0, 4 * n, s.gates);
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) {
    f64 i = s.gates[k] + optional_at(p.io, 7, peep + k) * s.c[k];
    f64 f = s.gates[2 * n + k] + optional_at(p.io, 7, peep + 2 * n + k) * s.c[k];
    i = m_sigmoid(clipped(p, i));
    f = p.flag ? 1 - i : m_sigmoid(clipped(p, f));
    f64 c = f * s.c[k] + i * tanh(clipped(p, s.gates[3 * n + k]));
    f64 o = s.gates[n + k] + optional_at(p.io, 7, peep + n + k) * c;
    s.c[k] = c;
    s.h[k] = m_sigmoid(clipped(p, o)) * tanh(clipped(p, c));
  }
}

DEVICE void gru_step(const carnot_cuda_recurrent_params& p, const sequence& s) {
  i64 n = p.hidden;
  project(p, s, 2, n, s.h, 0, 0, 2 * n, s.gates);
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) {
    s.gates[k] = m_sigmoid(clipped(p, s.gates[k]));
    f64 reset = s.gates[n + k] = m_sigmoid(clipped(p, s.gates[n + k]));
    s.more[2 * n + k] = 0;
    s.last[k] = p.flag ? s.h[k] : reset * s.h[k];
  }
  __syncthreads();
  project(p, s, 2, n, s.last, 0, 2 * n, 3 * n, s.more);
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) {
    f64 g = s.gates[2 * n + k] + (p.flag ? s.gates[n + k] : 1) * s.more[2 * n + k];
    s.h[k] = (1 - s.gates[k]) * tanh(clipped(p, g)) + s.gates[k] * s.h[k];
  }
}

DEVICE void rnn_step(const carnot_cuda_recurrent_params& p, const sequence& s) {
  project(p, s, 2, p.hidden, s.h, 0, 0, p.hidden, s.gates);
  for (i64 k = threadIdx.x; k < p.hidden; k += blockDim.x) s.h[k] = tanh(clipped(p, s.gates[k]));
}

DEVICE void recurrent(const carnot_cuda_recurrent_params& p, i64 item) {
  i64 n = p.hidden;
  sequence s = {item / p.batch, item % p.batch, p.gates * n};
  s.h = (f64*)p.io.scratch + item * (3 * n + 2 * s.rows);
  s.c = s.h + n, s.last = s.c + n, s.gates = s.last + n, s.more = s.gates + s.rows;
  i64 state = (p.batch_first ? s.index * p.directions + s.direction : item) * n;
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) {
    s.h[k] = optional_at(p.io, 5, state + k);
    s.c[k] = p.gates == 4 ? optional_at(p.io, 6, state + k) : 0;
  }
  i64 length = p.io.in[4] ? whole_of(p.io.in_type[4], p.io.in[4], s.index) : p.time;
  length = length < 0 ? 0 : length > p.time ? p.time : length;
  bool backward = s.direction == 1 || p.reverse;
  __syncthreads();
  for (i64 step = 0; step < p.time; step++) {
    bool runs = step < length;
    i64 t = backward && runs ? length - 1 - step : step;
    i64 at = p.batch_first ? s.index * p.time + t : t * p.batch + s.index;
    if (runs) {
      project(p, s, 1, p.input, 0, at * p.input, 0, s.rows, s.gates);
      if (p.gates == 4) lstm_step(p, s);
      if (p.gates == 3) gru_step(p, s);
      if (p.gates == 1) rnn_step(p, s);
    }
    __syncthreads();
    i64 to = p.batch_first ? (s.index * p.time + t) * p.directions + s.direction
                           : (t * p.directions + s.direction) * p.batch + s.index;
    for (i64 k = threadIdx.x; p.io.out[0] && k < n; k += blockDim.x)
      store_any(p.io.out_type[0], p.io.out[0], to * n + k, runs ? s.h[k] : 0);
  }
  for (i64 k = threadIdx.x; k < n; k += blockDim.x) {
    if (p.io.out[1]) store_any(p.io.out_type[1], p.io.out[1], state + k, s.h[k]);
    if (p.io.out[2]) store_any(p.io.out_type[2], p.io.out[2], state + k, s.c[k]);
  }
}
