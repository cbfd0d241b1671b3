// Requantization of int32 sums, eight channels at a time, by the rule of
// int8_epilogue_params.h. All kernels and all forms give the same bits.
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
// Flips the sign bits of bytes of |type|: as uint8 they are 128 more than as int8.
DEVICE u32 sign_flip(int type) { return type == CARNOT_CUDA_INT8_S8 ? 0x80808080u : 0; }

// 2^23 + byte |e| of |four|, exact. |base|: 2^23 + an integer below 2^16, whose upper bytes are
// taken.
DEVICE f32 byte_float(u32 four, int e, f32 base) {
#ifdef __CUDACC__
  return __uint_as_float(__byte_perm(four, __float_as_uint(base), 0x7660 + e));
#else
  return 0x1p23f + (f32)(four >> e * 8 & 255);
#endif
}
// Four integers saturated to uint8.
DEVICE u32 saturated4(const i32* q) {
#if __CUDA_ARCH__ >= 750
  u32 four;
  asm("{\n.reg .b32 upper;\ncvt.pack.sat.u8.s32.b32 upper, %4, %3, 0;\n"
      "cvt.pack.sat.u8.s32.b32 %0, %2, %1, upper;\n}"
      : "=r"(four)
      : "r"(q[0]), "r"(q[1]), "r"(q[2]), "r"(q[3]));
  return four;
#else
  u32 four = 0;
  for (int e = 0; e < 4; e++) four |= (u32)lo(hi(q[e], 0), 255) << e * 8;
  return four;
#endif
}

// Of eight values: one branch for all.
#define EACH_OF_8(value)                    \
  for (int e = 0; e < 8; e++) v[e] = value; \
  return
DEVICE void int8_activate8(int activation, f32 a, f32 b, f32* v) {
  switch (activation) {
    case CARNOT_CUDA_CLAMP: EACH_OF_8(lo(hi(v[e], a), b));
    case CARNOT_CUDA_SILU: EACH_OF_8(v[e] * fn_SIGMOID(0, 0, v[e]));
    case CARNOT_CUDA_HARD_SWISH: EACH_OF_8(fn_HARD_SWISH(0, 0, v[e]));
    case CARNOT_CUDA_SIGMOID: EACH_OF_8(fn_SIGMOID(0, 0, v[e]));
    case CARNOT_CUDA_GELU_TANH: EACH_OF_8(fn_GELU_TANH(0, 0, v[e]));
    case CARNOT_CUDA_GELU: EACH_OF_8(fn_GELU_ERF(0, 0, v[e]));
    case CARNOT_CUDA_HARD_SIGMOID: EACH_OF_8(fn_HARD_SIGMOID(a, b, v[e]));
    default: return;
  }
}
#undef EACH_OF_8

// rint(v) + zero in [low, high]; the conversion gives 0 for NaN and saturates.
DEVICE i32 quantized(f32 v, i32 zero, i32 low, i32 high) {
  i32 q = lo(hi(__float2int_rn(v), -(1 << 30)), 1 << 30) + zero;
  return lo(hi(q, low), high);
}
DEVICE u32 quantized_bits(f32 v, i32 zero, i32 low, i32 high) {
  return (u32)quantized(v, zero, low, high) & 255;
}

// Integers are kept as uint8: those of int8 have 128 added. What only GENERAL needs stays in the
// parameters; the rest is copied to registers, as the parameters' constant memory is no longer
// cached at the end of a kernel.
struct int8_epilogue {
  typedef byte8 residual;
  enum { FORMS = CARNOT_CUDA_INT8_FORMS };
  const carnot_cuda_int8_epilogue* all;
  i32 bias[8];  // of the thread's columns
  f32 scale[8];
  void* to;
  const void* residuals;
  i64 rows;
  int filters;  // / 8
  int form, zero, low, high;
  u32 flip, residual_flip;
  f32 residual_base, residual_scale, inner_low, inner_high, inner_factor, residual_factor;

  DEVICE_ONLY void keep(const carnot_cuda_int8_epilogue& p, void* y, i64 row_count,
                        int filter_count) {
    int offset = p.output == CARNOT_CUDA_INT8_S8 ? 128 : 0;
    all = &p, to = y, residuals = p.residual, rows = row_count, filters = filter_count / 8;
    form = p.form, zero = p.zero_point + offset, low = p.low + offset, high = p.high + offset;
    flip = sign_flip(p.output), residual_flip = sign_flip(p.residual_type);
    residual_base = (f32)((1 << 23) + p.residual_zero + (residual_flip ? 128 : 0));
    residual_scale = p.residual_scale;
    inner_factor = p.inner_factor, residual_factor = p.residual_factor;
    inner_low = (f32)(p.inner_low - p.inner_zero), inner_high = (f32)(p.inner_high - p.inner_zero);
  }
  // Whether sums are narrow (CARNOT_CUDA_INT8_NARROW_SUM).
  static DEVICE_ONLY bool is_narrow(const carnot_cuda_int8_epilogue& p, int filter_count) {
    return p.scale[filter_count] != 0;
  }
  // 1.5 * 2^23 and its bits: adding it rounds to an integer, which is what the bits exceed these
  // by.
  static DEVICE_ONLY f32 magic() { return 12582912.0f; }
  static DEVICE_ONLY i32 magic_bits() { return 0x4b400000; }
  DEVICE_ONLY i32 biased(i32 sum, int e) { return sum + bias[e]; }
  // f32(sum + bias).
  template <bool NARROW>
  DEVICE_ONLY f32 float_of(i32 biased_sum) {
    if constexpr (NARROW) return __fadd_rn(__int_as_float(biased_sum), -magic());
    return (f32)biased_sum;
  }
  // rint(v) + zero.
  template <bool NARROW>
  DEVICE_ONLY i32 integer_of(f32 v) {
    if constexpr (NARROW) return __float_as_int(__fadd_rn(v, magic())) + (zero - magic_bits());
    return __float2int_rn(v) + zero;
  }
  DEVICE_ONLY void pin() {
#ifdef __CUDACC__
    asm volatile("" : "+l"(to), "+l"(residuals), "+l"(rows), "+r"(filters), "+r"(form));
    asm volatile("" : "+r"(zero), "+r"(low), "+r"(high), "+r"(flip));
    asm volatile("" : "+f"(residual_scale), "+f"(inner_factor), "+f"(residual_factor));
#endif
  }
  // Biases and scales of the thread's columns, four numbers each.
  template <bool NARROW = false>
  DEVICE_ONLY void use_channels(const half8* b, const half8* s) {
    for (int i = 0; i < 2; i++)
      for (int e = 0; e < 4; e++) {
        bias[i * 4 + e] = (i32)b[i].two[e] + (NARROW ? magic_bits() : 0);
        scale[i * 4 + e] = __uint_as_float(s[i].two[e]);
      }
  }
  template <bool NARROW = false>
  DEVICE_ONLY void read_channels(const carnot_cuda_int8_epilogue& p, int n) {
    if (n >= filters) return;
    const half8 *b = (const half8*)p.bias + n * 2, *s = (const half8*)p.scale + n * 2;
    half8 both[2][2] = {{b[0], b[1]}, {s[0], s[1]}};
    use_channels<NARROW>(both[0], both[1]);
  }
  DEVICE_ONLY bool has(i64 row, int n) { return row < rows && n < filters; }
  DEVICE_ONLY byte8 residual_at(i64 row, int n) {
    byte8 none = {};
    return all->residual_type > CARNOT_CUDA_INT8_F32 && has(row, n)
               ? ((const byte8*)residuals)[row * filters + n]
               : none;
  }

  // The result's bytes by a form other than GENERAL. Without BOUNDED uint8 is the only bound.
  template <int FORM, bool BOUNDED, bool NARROW = false>
  DEVICE_ONLY byte8 bytes_of_biased(const i32* sums, const byte8& residual) {
    i32 q[8];
#pragma unroll
    for (int e = 0; e < 8; e++) {
      f32 v = __fmul_rn(float_of<NARROW>(sums[e]), scale[e]), r = 0;
      if constexpr (FORM != CARNOT_CUDA_INT8_REQUANTIZE)
        r = __fadd_rn(byte_float(residual.four[e / 4] ^ residual_flip, e % 4, residual_base),
                      -residual_base);
      if constexpr (FORM == CARNOT_CUDA_INT8_RESIDUAL)
        v = __fadd_rn(v, __fmul_rn(r, residual_scale));
      if constexpr (FORM == CARNOT_CUDA_INT8_TWICE) {
        v = fminf(fmaxf(v, inner_low), inner_high);
        v = __fadd_rn(__fadd_rn(v, magic()), -magic());
        v = __fmaf_rn(v, inner_factor, __fmul_rn(r, residual_factor));
      }
      q[e] = integer_of<NARROW>(v);
      if constexpr (BOUNDED) q[e] = lo(hi(q[e], low), high);
    }
    return {{saturated4(q) ^ flip, saturated4(q + 4) ^ flip}};
  }

  template <int FORM, bool BOUNDED, bool NARROW = false>
  DEVICE_ONLY byte8 bytes_of(const i32* sums, const byte8& residual) {
    i32 v[8];
#pragma unroll
    for (int e = 0; e < 8; e++) v[e] = biased(sums[e], e);
    return bytes_of_biased<FORM, BOUNDED, NARROW>(v, residual);
  }

  DEVICE_ONLY void put_general(const i32* sums, const byte8& residual, i64 at, int n) {
    const carnot_cuda_int8_epilogue& p = *all;
    f32 v[8];
    for (int e = 0; e < 8; e++) v[e] = __fmul_rn((f32)(sums[e] + bias[e]), scale[e]);
    if (p.is_twice)
      for (int e = 0; e < 8; e++) {
        i32 q = quantized(v[e], p.inner_zero, p.inner_low, p.inner_high);
        v[e] = __fmul_rn((f32)(q - p.inner_zero), p.inner_scale);
      }
    if (p.offset)
      for (int e = 0; e < 8; e++) v[e] = __fadd_rn(v[e], p.offset[n * 8 + e]);
    if (p.residual_type > CARNOT_CUDA_INT8_F32)
      for (int e = 0; e < 8; e++) {
        f32 r = (f32)(byte8_at(residual, e, p.residual_type) - p.residual_zero);
        v[e] = __fadd_rn(v[e], __fmul_rn(r, p.residual_scale));
      }
    else if (p.residual_type)
      for (int e = 0; e < 8; e++) v[e] = __fadd_rn(v[e], ((const f32*)residuals)[at * 8 + e]);
    int8_activate8(p.activation, p.a, p.b, v);
    if (p.output == CARNOT_CUDA_INT8_F32) {
      for (int i = 0; i < 2; i++) {
        half8 y;
        for (int e = 0; e < 4; e++) y.two[e] = __float_as_uint(v[i * 4 + e]);
        ((half8*)to)[at * 2 + i] = y;
      }
      return;
    }
    if (p.divisor != 1)
      for (int e = 0; e < 8; e++) v[e] = __fdiv_rn(v[e], p.divisor);
    byte8 y = {};
    for (int e = 0; e < 8; e++)
      y.four[e / 4] |= quantized_bits(v[e], p.zero_point, p.low, p.high) << e % 4 * 8;
    ((byte8*)to)[at] = y;
  }

  template <int FORM, bool BOUNDED = true, bool NARROW = false>
  DEVICE_ONLY void put(const i32* sums, const byte8& residual, i64 row, int n) {
    if (!has(row, n)) return;
    i64 at = row * filters + n;
    if constexpr (FORM == CARNOT_CUDA_INT8_GENERAL)
      put_general(sums, residual, at, n);
    else
      ((byte8*)to)[at] = bytes_of<FORM, BOUNDED, NARROW>(sums, residual);
  }
};
