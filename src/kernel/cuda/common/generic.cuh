// Elements whose type is known at run time only, for the generic kernels: all storage types,
// floating-point formats of a byte or less (as in base/float_formats.c), and packed integers.
#pragma once

#include "kernel/cuda/common/functions.cuh"
#include "kernel/cuda/common/generic.h"

// clang-format off
#define TYPES(X) \
  X(F32, f32) X(F64, f64) X(F16, f16) X(BF16, bf16) X(I8, i8) X(U8, u8) X(I16, i16) X(U16, u16) \
  X(I32, i32) X(U32, u32) X(I64, i64) X(U64, u64) X(BOOL, b8)
// clang-format on

DEVICE bool is_real(int type) { return type <= CARNOT_CUDA_F4E2M1; }
DEVICE bool is_small_float(int type) { return type >= CARNOT_CUDA_F8E4M3FN && is_real(type); }

// ---- floating point of a byte or less (as base/float_formats.c), and packed elements: the first
// in the low bits ----

DEVICE int bits_of(int type) {
  if (type <= CARNOT_CUDA_F8E8M0) return 8;
  if (type <= CARNOT_CUDA_F4E2M1) return type == CARNOT_CUDA_F4E2M1 ? 4 : 6;
  return type == CARNOT_CUDA_I4 || type == CARNOT_CUDA_U4 ? 4 : 2;
}
DEVICE u32 bits_at(int bits, const void* x, i64 i) {
  const u8* at = (const u8*)x + i * bits / 8;
  int shift = (int)(i * bits % 8);
  u32 word = at[0];
  if (shift + bits > 8) word |= (u32)at[1] << 8;
  return word >> shift & ((1u << bits) - 1);
}
DEVICE void put_bits(int bits, void* y, i64 i, u32 v) {
  u8* at = (u8*)y + i * bits / 8;
  u32 shift = (u32)(i * bits % 8), mask = ((1u << bits) - 1) << shift;
  v <<= shift;
  at[0] = (u8)((at[0] & ~mask) | (v & mask));
  if (shift + bits > 8) at[1] = (u8)((at[1] & ~(mask >> 8)) | (v & mask) >> 8);
}

struct small_float {
  int exponent, mantissa, bias;
  bool infinity, nan_at_top, one_nan;  // one_nan: at minus zero
};
DEVICE small_float small_float_of(int type) {
  switch (type) {
    case CARNOT_CUDA_F8E4M3FN: return {4, 3, 7, false, true, false};
    case CARNOT_CUDA_F8E4M3FNUZ: return {4, 3, 8, false, false, true};
    case CARNOT_CUDA_F8E5M2: return {5, 2, 15, true, false, false};
    case CARNOT_CUDA_F8E5M2FNUZ: return {5, 2, 16, false, false, true};
    case CARNOT_CUDA_F6E2M3: return {2, 3, 1, false, false, false};
    case CARNOT_CUDA_F6E3M2: return {3, 2, 3, false, false, false};
    default: return {2, 1, 1, false, false, false};
  }
}
DEVICE f32 small_float_load(int type, u32 bits) {
  const f32 inf = __uint_as_float(0x7f800000), nan = __uint_as_float(0x7fc00000);
  if (type == CARNOT_CUDA_F8E8M0) return bits == 255 ? nan : ldexpf(1, (int)bits - 127);
  small_float f = small_float_of(type);
  u32 sign = 1u << (f.exponent + f.mantissa), rest = bits & (sign - 1);
  if ((f.one_nan && bits == sign) || (f.nan_at_top && rest == sign - 1)) return nan;
  int exponent = (int)(rest >> f.mantissa), fraction = (int)(rest & ((1u << f.mantissa) - 1));
  f32 v;
  if (f.infinity && exponent == (1 << f.exponent) - 1)
    v = fraction ? nan : inf;
  else if (exponent)
    v = ldexpf((f32)(fraction | 1 << f.mantissa), exponent - f.bias - f.mantissa);
  else
    v = ldexpf((f32)fraction, 1 - f.bias - f.mantissa);
  return bits & sign ? -v : v;
}
// Powers of two alone; |mode| as carnot_cuda_cast_params has it.
DEVICE u32 e8m0_of(f32 v, bool saturate, int mode) {
  f32 magnitude = fabsf(v);
  if (v != v) return 255;
  if (magnitude > 3.402823466e38f) return saturate ? 254 : 255;
  if (magnitude < ldexpf(1, -127)) return saturate ? 0 : 255;
  int exponent;
  f32 fraction = frexpf(magnitude, &exponent);
  int code = exponent + 126 + (mode == 0 ? fraction > 0.5f : mode == 2 && fraction >= 0.75f);
  return code > 254 ? (saturate ? 254 : 255) : (u32)code;
}
DEVICE u32 small_float_from(int type, f32 v, bool saturate, int mode = 2) {
  if (type == CARNOT_CUDA_F8E8M0) return e8m0_of(v, saturate, mode);
  small_float f = small_float_of(type);
  u32 at = 1u << (f.exponent + f.mantissa), all = at - 1, sign = __float_as_uint(v) >> 31 ? at : 0;
  u32 infinity = ((1u << f.exponent) - 1) << f.mantissa;
  u32 top = f.infinity ? infinity - 1 : f.nan_at_top ? all - 1 : all;
  // Formats without NaN give -0, as ONNX Cast has it.
  if (v != v) return f.one_nan ? at : f.infinity || f.nan_at_top ? sign | all : at;
  f64 magnitude = fabs((f64)v), code = top + 1.0;
  if (magnitude < 1e30) {
    int exponent;
    frexp(magnitude, &exponent);
    exponent = magnitude == 0 || exponent - 1 < 1 - f.bias ? 1 - f.bias : exponent - 1;
    code = rint(ldexp(magnitude, f.mantissa - exponent)) +
           ldexp((f64)(exponent + f.bias - 1), f.mantissa);
  }
  if (code > top) {
    if (saturate) return sign | top;
    return f.infinity ? sign | infinity : f.nan_at_top ? sign | all : f.one_nan ? at : sign | top;
  }
  return f.one_nan && code == 0 ? 0 : sign | (u32)code;
}

// ---- elements of any type ----

template <class A>
DEVICE A load_any(int type, const void* x, i64 i) {
  switch (type) {
#define LOAD(NAME, T) \
  case CARNOT_CUDA_##NAME: return (A)load(((const T*)x)[i]);
    TYPES(LOAD)
#undef LOAD
  }
  int bits = bits_of(type);
  u32 v = bits_at(bits, x, i);
  if (is_real(type)) return (A)small_float_load(type, v);
  bool negative = (type == CARNOT_CUDA_I4 || type == CARNOT_CUDA_I2) && v >> (bits - 1);
  return (A)((int)v - (negative ? 1 << bits : 0));
}
DEVICE f64 real_of(int type, const void* x, i64 i) { return load_any<f64>(type, x, i); }
DEVICE i64 whole_of(int type, const void* x, i64 i) { return load_any<i64>(type, x, i); }

template <class T>
struct any_type_caster : caster<T> {};
template <>
struct any_type_caster<f16> {
  template <class V>
  static DEVICE_ONLY f16 of(V v) {
    return store_as<f16>::of((f32)v);
  }
};
template <>
struct any_type_caster<bf16> {
  template <class V>
  static DEVICE_ONLY bf16 of(V v) {
    return store_as<bf16>::of((f32)v);
  }
};
template <>
struct any_type_caster<b8> {
  template <class V>
  static DEVICE_ONLY b8 of(V v) {
    return store_as<b8>::of(v != 0);
  }
};
// Between |low| and |high| where |v| is real; integers keep their low bits.
DEVICE i64 within(f64 v, f64 low, f64 high) { return v != v ? 0 : (i64)fmin(fmax(v, low), high); }
DEVICE i64 within(i64 v, f64, f64) { return v; }
template <class V>
DEVICE void store_any(int type, void* y, i64 i, V v) {
  switch (type) {
#define STORE(NAME, T) \
  case CARNOT_CUDA_##NAME: ((T*)y)[i] = any_type_caster<T>::of(v); return;
    TYPES(STORE)
#undef STORE
  }
  int bits = bits_of(type);
  bool negative = type == CARNOT_CUDA_I4 || type == CARNOT_CUDA_I2;
  f64 count = 1 << bits, low = negative ? -count / 2 : 0;
  put_bits(
      bits, y, i,
      is_real(type) ? small_float_from(type, (f32)v, true) : (u32)within(v, low, low + count - 1));
}

DEVICE void move(int bytes, void* y, i64 to, const void* x, i64 from) {
  if (bytes == 1) ((u8*)y)[to] = ((const u8*)x)[from];
  if (bytes == 2) ((u16*)y)[to] = ((const u16*)x)[from];
  if (bytes == 4) ((u32*)y)[to] = ((const u32*)x)[from];
  if (bytes == 8) ((u64*)y)[to] = ((const u64*)x)[from];
}
DEVICE void clear(int bytes, void* y, i64 to) {
  const u64 zero = 0;
  move(bytes, y, to, &zero, 0);
}
