// Activations in registers, for results that are rounded to 16 bits.
#pragma once

#include "kernel/cuda/common/activation.h"
#include "kernel/cuda/common/functions.cuh"

// 1 / (1 + exp(-x)) by the hardware exponential and reciprocal. Results are rounded to 16 bits,
// so their error does not show; denormals are flushed.
DEVICE f32 unit_sigmoid(f32 x) {
#ifdef __CUDACC__
  f32 e, r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(x * -1.44269504f));
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + e));
  return r;
#else
  return 1 / (1 + expf(-x));
#endif
}
DEVICE f32 activate(int activation, f32 low, f32 high, f32 x) {
  switch (activation) {
    case CARNOT_CUDA_CLAMP: return lo(hi(x, low), high);
    case CARNOT_CUDA_SILU: return x * unit_sigmoid(x);
    case CARNOT_CUDA_HARD_SWISH: return x * lo(hi(x * (1 / 6.f) + .5f, 0.f), 1.f);
    case CARNOT_CUDA_SIGMOID: return unit_sigmoid(x);
    case CARNOT_CUDA_GELU_TANH: return fast_GELU_TANH(0, 0, x);
    case CARNOT_CUDA_GELU: return fast_GELU_ERF(0, 0, x);
    case CARNOT_CUDA_HARD_SIGMOID: return lo(hi(fmaf(low, x, high), 0.f), 1.f);
    default: return x;
  }
}
// The switch is evaluated once for all eight.
DEVICE void activate8(int activation, f32 low, f32 high, f32* v) {
#define CASE(kind)                                                      \
  case kind:                                                            \
    for (int e = 0; e < 8; e++) v[e] = activate(kind, low, high, v[e]); \
    break;
  switch (activation) {
    CASE(CARNOT_CUDA_CLAMP)
    CASE(CARNOT_CUDA_SILU)
    CASE(CARNOT_CUDA_HARD_SWISH)
    CASE(CARNOT_CUDA_SIGMOID)
    CASE(CARNOT_CUDA_GELU)
    CASE(CARNOT_CUDA_GELU_TANH)
    CASE(CARNOT_CUDA_HARD_SIGMOID)
  }
#undef CASE
}
