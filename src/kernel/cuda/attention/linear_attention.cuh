// LinearAttention (generic kernel).
#pragma once

#include "kernel/cuda/attention/attention_generic_params.h"
#include "kernel/cuda/common/generic.cuh"

// One thread a column of the state of a batch's key head.
DEVICE void linear_attention(const carnot_cuda_attention_generic_params& p, i64 item) {
  const carnot_cuda_generic_io& io = p.io;
  i64 j = item % p.value_size, part = item / p.value_size, b = part / p.kv_heads,
      h = part % p.kv_heads;
  i64 share = p.q_heads / p.kv_heads, first = part * p.size * p.value_size + j, n = p.value_size;
  f64* state = (f64*)io.scratch + first;
  for (i64 i = 0; i < p.size; i++)
    state[i * n] = io.in[3] ? real_of(io.in_type[3], io.in[3], first + i * n) : 0;
  for (i64 t = 0; t < p.queries; t++) {
    i64 at = b * p.queries + t, row = at * p.kv_heads + h;
    bool by_key = p.decay_width != p.kv_heads;
    f64 change = real_of(io.in_type[2], io.in[2], row * n + j);
    for (i64 i = 0; io.in[4] && i < p.size; i++)
      state[i * n] *=
          exp(real_of(io.in_type[4], io.in[4], at * p.decay_width + (by_key ? h * p.size + i : h)));
    if (io.in[5]) {
      for (i64 i = 0; i < p.size; i++)
        change -= real_of(io.in_type[1], io.in[1], row * p.size + i) * state[i * n];
      change *= real_of(io.in_type[5], io.in[5], at * p.beta_width + (p.beta_width > 1 ? h : 0));
    }
    for (i64 i = 0; i < p.size; i++)
      state[i * n] += real_of(io.in_type[1], io.in[1], row * p.size + i) * change;
    for (i64 g = at * p.q_heads + h * share; g < at * p.q_heads + (h + 1) * share; g++) {
      f64 y = 0;
      for (i64 i = 0; i < p.size; i++)
        y += p.scale * real_of(io.in_type[0], io.in[0], g * p.size + i) * state[i * n];
      if (io.out[0]) store_any(io.out_type[0], io.out[0], g * n + j, y);
    }
  }
  for (i64 i = 0; io.out[1] && i < p.size; i++)
    store_any(io.out_type[1], io.out[1], first + i * n, state[i * n]);
}
