// RotaryEmbedding: the generic kernel, and pairs of 16-bit floats that lie side by side.
#pragma once

#include "kernel/cuda/attention/attention_generic_params.h"
#include "kernel/cuda/attention/rotary_params.h"
#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/common/half8.cuh"

// Positions outside the caches give zeros.
DEVICE void rotary(const carnot_cuda_attention_generic_params& p, i64 i) {
  const carnot_cuda_generic_io& io = p.io;
  i64 e = i % p.size, row = i / p.size, half = p.turned / 2;
  i64 step =
      p.heads_last ? row / p.q_heads : row / p.queries / p.q_heads * p.queries + row % p.queries;
  f64 x = real_of(io.in_type[0], io.in[0], i), cosine = 0, sine = 0;
  i64 at = io.in[3] ? whole_of(io.in_type[3], io.in[3], step) : step % p.rows;
  i64 k = p.interleaved ? e / 2 : e % half;
  bool second = p.interleaved ? e % 2 : e >= half;
  if (e < p.turned) {
    i64 apart = p.interleaved ? 1 : half;
    f64 other = real_of(io.in_type[0], io.in[0], second ? i - apart : i + apart);
    if (at >= 0 && at < p.rows) {
      cosine = real_of(io.in_type[1], io.in[1], at * half + k);
      sine = real_of(io.in_type[2], io.in[2], at * half + k);
    }
    x = second ? sine * other + cosine * x : cosine * x - sine * other;
  }
  store_any(io.out_type[0], io.out[0], i, x);
}

// Eight elements of a row, of which the first |turned| eights turn.
template <class T>
DEVICE void rotary_pairs(const carnot_cuda_rotary_params& p) {
  const int i = (int)THREAD;
  if (i >= p.count) return;
  const int row = i / p.eights, at = i - row * p.eights;
  if (at >= p.turned) {
    ((half8*)p.y)[i] = ((const half8*)p.x)[i];
    return;
  }
  f32 x[8], y[8];
  unpack<T>(p.x, i, x);
  const i64 angle = ((i64)(row / p.heads % p.rows) * p.turned + at) * 4;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const f32 c = load(((const T*)p.cosines)[angle + k]), s = load(((const T*)p.sines)[angle + k]);
    y[2 * k] = c * x[2 * k] - s * x[2 * k + 1];
    y[2 * k + 1] = s * x[2 * k] + c * x[2 * k + 1];
  }
  pack<T>(p.y, i, y);
}
