// Depthwise causal convolution along time with a carried state (generic kernel).
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/conv/causal_conv_params.h"

// Element |at| of state and input in sequence: outputs where the window begins before |length|,
// then the new state.
DEVICE f64 in_lane(const carnot_cuda_causal_conv_params& p, i64 lane, i64 at) {
  i64 before = p.taps - 1;
  if (at >= before) return real_of(p.io.in_type[0], p.io.in[0], lane * p.length + at - before);
  return p.io.in[3] ? real_of(p.io.in_type[3], p.io.in[3], lane * before + at) : 0;
}
DEVICE void causal_conv(const carnot_cuda_causal_conv_params& p, i64 i) {
  const carnot_cuda_generic_io& io = p.io;
  i64 before = p.taps - 1, lane = i / (p.length + before), at = i % (p.length + before),
      c = lane % p.channels;
  if (at >= p.length) {
    if (io.out[1])
      store_any(io.out_type[1], io.out[1], lane * before + at - p.length, in_lane(p, lane, at));
  } else if (io.out[0]) {
    f64 sum = io.in[2] ? real_of(io.in_type[2], io.in[2], c) : 0;
    for (i64 k = 0; k < p.taps; k++)
      sum += real_of(io.in_type[1], io.in[1], c * p.taps + k) * in_lane(p, lane, at + k);
    store_any(io.out_type[0], io.out[0], lane * p.length + at,
              p.silu ? sum / (1 + exp(-sum)) : sum);
  }
}
