// Requantization of int32 sums, eight channels at a time, by the rule of
// int8_epilogue_params.h. All kernels give the same bits.
#pragma once

#include "kernel/cuda/common/half8.cuh"
#include "kernel/cuda/quantize/int8_epilogue_params.h"

struct __align__(8) byte8 {
  u32 four[2];
};

// Element |i| of |type| U8 or S8.
DEVICE i32 byte8_at(const byte8& x, int i, int type) {
  u32 bits = x.four[i / 4] >> i % 4 * 8;
  return type == CARNOT_CUDA_INT8_S8 ? (i32)(i8)bits : (i32)(u8)bits;
}

DEVICE f32 int8_activate(int activation, f32 a, f32 b, f32 x) {
  switch (activation) {
    case CARNOT_CUDA_CLAMP: return lo(hi(x, a), b);
    case CARNOT_CUDA_SILU: return x * fn_SIGMOID(0, 0, x);
    case CARNOT_CUDA_HARD_SWISH: return fn_HARD_SWISH(0, 0, x);
    case CARNOT_CUDA_SIGMOID: return fn_SIGMOID(0, 0, x);
    case CARNOT_CUDA_GELU_TANH: return fn_GELU_TANH(0, 0, x);
    case CARNOT_CUDA_GELU: return fn_GELU_ERF(0, 0, x);
    case CARNOT_CUDA_HARD_SIGMOID: return fn_HARD_SIGMOID(a, b, x);
    default: return x;
  }
}

// rint(v) + zero in [low, high]; the conversion gives 0 for NaN and saturates.
DEVICE i32 quantized(f32 v, i32 zero, i32 low, i32 high) {
  i32 q = lo(hi(__float2int_rn(v), -(1 << 30)), 1 << 30) + zero;
  return lo(hi(q, low), high);
}
DEVICE u32 quantized_bits(f32 v, i32 zero, i32 low, i32 high) {
  return (u32)quantized(v, zero, low, high) & 255;
}

// Parameters are copied to registers: their constant memory is no longer cached at the end of a
// kernel.
struct int8_epilogue {
  typedef byte8 residual;
  i32 bias[8];  // of the thread's columns
  f32 scale[8];
  void* to;
  const void* residuals;
  i64 rows;
  int filters;  // / 8
  int residual_type, residual_zero, activation, output, zero_point, low, high;
  int is_twice, inner_zero, inner_low, inner_high;
  f32 residual_scale, a, b, divisor, inner_scale;

  DEVICE_ONLY void keep(const carnot_cuda_int8_epilogue& p, void* y, i64 row_count,
                        int filter_count) {
    to = y, residuals = p.residual, rows = row_count, filters = filter_count / 8;
    residual_type = p.residual_type, residual_zero = p.residual_zero, activation = p.activation;
    output = p.output, zero_point = p.zero_point, low = p.low, high = p.high;
    residual_scale = p.residual_scale, a = p.a, b = p.b, divisor = p.divisor;
    is_twice = p.is_twice, inner_zero = p.inner_zero, inner_low = p.inner_low;
    inner_high = p.inner_high, inner_scale = p.inner_scale;
#ifdef __CUDACC__
    asm volatile(""
                 : "+l"(to), "+l"(residuals), "+r"(filters), "+r"(activation), "+l"(rows),
                   "+r"(residual_type), "+r"(residual_zero), "+r"(output), "+r"(zero_point),
                   "+r"(low), "+r"(high), "+f"(residual_scale), "+f"(divisor));
#endif
  }
  DEVICE_ONLY void read_channels(const carnot_cuda_int8_epilogue& p, int n) {
    for (int i = 0; i < 2 && n < filters; i++) {
      half8 b = ((const half8*)p.bias)[n * 2 + i], s = ((const half8*)p.scale)[n * 2 + i];
      for (int e = 0; e < 4; e++) {
        bias[i * 4 + e] = (i32)b.two[e];
        scale[i * 4 + e] = __uint_as_float(s.two[e]);
      }
    }
  }
  DEVICE_ONLY bool has(i64 row, int n) { return row < rows && n < filters; }
  DEVICE_ONLY byte8 residual_at(i64 row, int n) {
    byte8 none = {};
    return residual_type > CARNOT_CUDA_INT8_F32 && has(row, n)
               ? ((const byte8*)residuals)[row * filters + n]
               : none;
  }
  DEVICE_ONLY void put(const i32* sums, const byte8& residual, i64 row, int n) {
    if (!has(row, n)) return;
    i64 at = row * filters + n;
    f32 v[8];
    for (int e = 0; e < 8; e++) v[e] = __fmul_rn((f32)(sums[e] + bias[e]), scale[e]);
    if (is_twice)
      for (int e = 0; e < 8; e++) {
        i32 q = quantized(v[e], inner_zero, inner_low, inner_high);
        v[e] = __fmul_rn((f32)(q - inner_zero), inner_scale);
      }
    if (residual_type > CARNOT_CUDA_INT8_F32)
      for (int e = 0; e < 8; e++) {
        f32 r = (f32)(byte8_at(residual, e, residual_type) - residual_zero);
        v[e] = __fadd_rn(v[e], __fmul_rn(r, residual_scale));
      }
    else if (residual_type)
      for (int e = 0; e < 8; e++) v[e] = __fadd_rn(v[e], ((const f32*)residuals)[at * 8 + e]);
    if (activation)
      for (int e = 0; e < 8; e++) v[e] = int8_activate(activation, a, b, v[e]);
    if (output == CARNOT_CUDA_INT8_F32) {
      for (int i = 0; i < 2; i++) {
        half8 y;
        for (int e = 0; e < 4; e++) y.two[e] = __float_as_uint(v[i * 4 + e]);
        ((half8*)to)[at * 2 + i] = y;
      }
      return;
    }
    if (divisor != 1)
      for (int e = 0; e < 8; e++) v[e] = __fdiv_rn(v[e], divisor);
    byte8 y = {};
    for (int e = 0; e < 8; e++)
      y.four[e / 4] |= quantized_bits(v[e], zero_point, low, high) << e % 4 * 8;
    ((byte8*)to)[at] = y;
  }
};
