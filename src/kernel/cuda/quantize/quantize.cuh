// QuantizeLinear, DequantizeLinear and casts to and from small formats (generic kernels).
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/quantize/quantize_params.h"

DEVICE i64 scale_place(const carnot_cuda_quantize_params& p, i64 i) {
  if (p.per_tensor) return 0;
  i64 n = i % p.inner, at = i / p.inner % p.length, outer = i / p.inner / p.length;
  return p.blocks ? (outer * p.blocks + at / p.block_size) * p.inner + n : at;
}

DEVICE f64 rounded_to(int type, f64 v) {
  if (type == CARNOT_CUDA_F64) return v;
  if (type == CARNOT_CUDA_F16) return load(store_as<f16>::of((f32)v));
  if (type == CARNOT_CUDA_BF16) return load(store_as<bf16>::of((f32)v));
  return (f32)v;
}

DEVICE void quantize_linear(const carnot_cuda_quantize_params& p, i64 i) {
  i64 s = scale_place(p, i);
  f64 scale = real_of(p.io.in_type[1], p.io.in[1], s);
  f64 zero = p.io.in[2] ? real_of(p.io.in_type[2], p.io.in[2], s) : 0;
  f64 value = rounded_to(p.precision, real_of(p.io.in_type[0], p.io.in[0], i) / scale);
  int to = p.io.out_type[0];
  if (is_small_float(to))
    put_bits(bits_of(to), p.io.out[0], i, small_float_from(to, (f32)(value + zero), p.saturate));
  else
    store_any(to, p.io.out[0], i, rint(value) + zero);
}

DEVICE void dequantize_linear(const carnot_cuda_quantize_params& p, i64 i) {
  i64 s = scale_place(p, i);
  f64 scale = real_of(p.io.in_type[1], p.io.in[1], s);
  f64 zero = p.io.in[2] ? real_of(p.io.in_type[2], p.io.in[2], s) : 0;
  f32 value = (f32)(real_of(p.io.in_type[0], p.io.in[0], i) - zero) * (f32)scale;
  store_any(p.io.out_type[0], p.io.out[0], i, value);
}

// Reals keep the low bits of the whole number in integers under a byte, as ONNX's cases want.
DEVICE void cast(const carnot_cuda_cast_params& p, i64 i) {
  int from = p.io.in_type[0], to = p.io.out_type[0];
  const void* x = p.io.in[0];
  void* y = p.io.out[0];
  if (is_small_float(to))
    put_bits(bits_of(to), y, i,
             small_float_from(to, load_any<f32>(from, x, i), p.saturate, p.round_mode));
  else if (is_real(to))
    store_any(to, y, i, load_any<f32>(from, x, i));
  else if (is_real(from) && to > CARNOT_CUDA_BOOL)
    store_any(to, y, i, caster<i64>::of(real_of(from, x, i)));
  else if (is_real(from))
    store_any(to, y, i, real_of(from, x, i));
  else
    store_any(to, y, i, whole_of(from, x, i));
}
