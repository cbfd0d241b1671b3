// Numerics classes and their error bounds.
#include <math.h>

#include "tactic/tactic.h"

const char* carnot_numerics_name(carnot_numerics numerics) {
  static const char* const kNames[] = {
#define NUMERICS_NAME(NAME, name) name,
      CARNOT_NUMERICS_CLASSES(NUMERICS_NAME)
#undef NUMERICS_NAME
  };
  return (unsigned)numerics < CARNOT_NUMERICS_COUNT ? kNames[numerics] : "unknown";
}

// Unit roundoff of a floating-point type with a significand of |bits| bits.
static double unit_roundoff(int bits) { return ldexp(1, -bits); }

double carnot_numerics_bound(carnot_numerics numerics, carnot_dtype dtype, carnot_dtype precision,
                             int64_t k) {
  if (!carnot_dtype_is_float(dtype)) return 0;
  // Each product and each addition rounds once.
  double sum = (double)(k + 1) * unit_roundoff(dtype == CARNOT_DTYPE_F64 ? 53 : 24);
  // Parts by truncation: x1 < 2^-7 x, x2 < 2^-15 x; nearest ones half of that. What is left out of
  // a product is at most x1 y2 + x2 y1 + x2 y2 of six, and x1 y1 + x2 y + x y2 of three.
  if (numerics == CARNOT_NUMERICS_SPLIT6) return sum + 0x1p-21;
  // The transforms round too, and their sums are larger than the result: at worst 7 times, and 63
  // times those of 4x4 results.
  if (numerics == CARNOT_NUMERICS_WINOGRAD) return 4 * sum;
  if (numerics == CARNOT_NUMERICS_WINOGRAD_4X4) return 36 * sum;
  if (numerics == CARNOT_NUMERICS_SPLIT3) return sum + 0x1p-16 + 0x1p-15;
  if (numerics != CARNOT_NUMERICS_HALF) return sum;
  double operand = unit_roundoff(precision == CARNOT_DTYPE_BF16 ? 8 : 11);
  return 2 * operand + operand * operand + sum;
}
