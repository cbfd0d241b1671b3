// Conversions of the floating formats narrower than 32 bits, by integer arithmetic: independent of
// the FP mode.
#include <math.h>
#include <string.h>

#include "base/dtype.h"

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}
static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

float carnot_bfloat_to_float(uint16_t bits) { return float_of((uint32_t)bits << 16); }

uint16_t carnot_bfloat_from_float(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)((bits >> 16) | 0x40);
  return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float carnot_half_to_float(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
  if (rest >= 0x7c00) return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
  if (rest >= 0x400) return float_of(sign | ((rest + ((127 - 15) << 10)) << 13));
  float magnitude = (float)rest * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

uint16_t carnot_half_from_float(float value) {
  uint32_t bits = bits_of(value), rest = bits & 0x7fffffff;
  uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
  if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00);  // 65520 and more round to infinity
  if (rest >= 0x38800000) {
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | ((rest - 0x38000000) >> 13));
  }
  if (rest < 0x33000000) return sign;  // less than half of the smallest subnormal
  uint32_t exponent = rest >> 23, mantissa = (rest & 0x7fffff) | 0x800000;
  uint32_t shift = 126 - exponent;
  uint32_t kept = mantissa >> shift, lost = mantissa & ((1u << shift) - 1),
           half = 1u << (shift - 1);
  return (uint16_t)(sign | (kept + (lost > half || (lost == half && (kept & 1)))));
}

// A small format: sign bit unless |unsigned_|, exponent bits, mantissa bits, bias, and what its top
// codes mean.
typedef struct minifloat {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;       // IEEE-like: all-ones exponent holds infinity and NaN
  bool nan_at_top;         // all ones is NaN (the FN formats)
  bool nan_at_minus_zero;  // the FNUZ formats: one NaN, no negative zero
} minifloat;

static minifloat format_of(carnot_dtype dtype) {
  switch (dtype) {
    case CARNOT_DTYPE_F8E4M3FN: return (minifloat){4, 3, 7, false, true, false};
    case CARNOT_DTYPE_F8E4M3FNUZ: return (minifloat){4, 3, 8, false, false, true};
    case CARNOT_DTYPE_F8E5M2: return (minifloat){5, 2, 15, true, false, false};
    case CARNOT_DTYPE_F8E5M2FNUZ: return (minifloat){5, 2, 16, false, false, true};
    case CARNOT_DTYPE_F6E2M3: return (minifloat){2, 3, 1, false, false, false};
    case CARNOT_DTYPE_F6E3M2: return (minifloat){3, 2, 3, false, false, false};
    default: return (minifloat){2, 1, 1, false, false, false};  // F4E2M1
  }
}

float carnot_minifloat_to_float(carnot_dtype dtype, uint8_t bits) {
  if (dtype == CARNOT_DTYPE_F8E8M0) return bits == 255 ? NAN : ldexpf(1, (int)bits - 127);
  minifloat f = format_of(dtype);
  int sign_at = f.exponent_bits + f.mantissa_bits;
  int rest = bits & ((1 << sign_at) - 1);
  bool negative = bits >> sign_at & 1;
  if (f.nan_at_minus_zero && negative && rest == 0) return NAN;
  if (f.nan_at_top && rest == (1 << sign_at) - 1) return NAN;
  int exponent = rest >> f.mantissa_bits, mantissa = rest & ((1 << f.mantissa_bits) - 1);
  float magnitude;
  if (f.has_infinity && exponent == (1 << f.exponent_bits) - 1) {
    magnitude = mantissa ? NAN : INFINITY;
  } else if (exponent == 0) {
    magnitude = ldexpf((float)mantissa, 1 - f.bias - f.mantissa_bits);
  } else {
    magnitude =
        ldexpf((float)(mantissa | 1 << f.mantissa_bits), exponent - f.bias - f.mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

static uint8_t e8m0_from_float(float value, bool saturate) {
  if (isnan(value)) return 255;
  float magnitude = fabsf(value);
  if (isinf(magnitude)) return saturate ? 254 : 255;
  if (magnitude < 0x1p-127f) return 0;
  int exponent;
  float fraction = frexpf(magnitude, &exponent);  // in [0.5, 1)
  int code = exponent - 1 + 127;
  if (fraction > 0.75f || (fraction == 0.75f && code >= 0)) code++;  // half way rounds up
  if (code < 0) code = 0;
  return (uint8_t)(code > 254 ? (saturate ? 254 : 255) : code);
}

uint8_t carnot_minifloat_from_float(carnot_dtype dtype, float value, bool saturate) {
  if (dtype == CARNOT_DTYPE_F8E8M0) return e8m0_from_float(value, saturate);
  minifloat f = format_of(dtype);
  int sign_at = f.exponent_bits + f.mantissa_bits, all = (1 << sign_at) - 1;
  int sign = signbit(value) ? 1 << sign_at : 0;
  int top = all;  // the largest finite code
  if (f.has_infinity) top = (((1 << f.exponent_bits) - 1) << f.mantissa_bits) - 1;
  if (f.nan_at_top) top = all - 1;
  int nan = f.nan_at_minus_zero ? 1 << sign_at : f.has_infinity ? all : f.nan_at_top ? all : 0;
  if (isnan(value)) {
    if (f.nan_at_minus_zero) return (uint8_t)nan;
    // Formats without NaN give -0, as ONNX Cast has it.
    return (uint8_t)(f.has_infinity || f.nan_at_top ? sign | nan : 1 << sign_at);
  }
  float magnitude = fabsf(value);
  int code;
  if (isinf(magnitude)) {
    code = top + 1;
  } else {
    int exponent;
    frexpf(magnitude, &exponent);
    exponent -= 1;
    if (magnitude == 0 || exponent < 1 - f.bias) exponent = 1 - f.bias;
    // One unit of the last place at this exponent; nearbyint rounds half to even in the default
    // mode.
    double units = nearbyint(ldexp((double)magnitude, f.mantissa_bits - exponent));
    double wide = units + ldexp((double)(exponent + f.bias - 1), f.mantissa_bits);
    code = wide > top ? top + 1 : (int)wide;
  }
  if (code > top) {
    if (saturate) return (uint8_t)(sign | top);
    if (f.has_infinity) return (uint8_t)(sign | (((1 << f.exponent_bits) - 1) << f.mantissa_bits));
    if (f.nan_at_top) return (uint8_t)(sign | nan);
    return (uint8_t)(f.nan_at_minus_zero ? nan : sign | top);
  }
  if (f.nan_at_minus_zero && code == 0) return 0;
  return (uint8_t)(sign | code);
}
