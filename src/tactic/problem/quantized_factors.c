// The two factors by which an inner quantization and a residual of bytes become the quantized
// result without a division.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "tactic/problem/quantized.h"

// Of all pairs of an inner byte and a byte of the residual: the sum by the two factors rounds to
// the integer that v / divisor rounds to, of those within [-1023, 1023].
static bool serve(const carnot_quantized_twice* t, float inner_factor, float residual_factor) {
  enum { kMost = 1023 };
  const float magic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const int first = t->residual_signed ? -128 : 0;
  const float base = carnot_quantized_residual_base(t->residual_zero, residual_factor);
  for (int q = t->inner_low; q <= t->inner_high; q++) {
    const float integer = (float)(q - t->inner_zero), inner = integer * t->inner_scale;
    uint32_t differ = 0;
    for (int byte = first; byte < first + 256; byte++) {
      const float residual = (float)(byte - t->residual_zero),
                  v = inner + residual * t->residual_scale;
      const float addend =
          t->folds_zero ? fmaf((float)byte, residual_factor, base) : residual * residual_factor;
      float want = v / t->divisor, got = fmaf(integer, inner_factor, addend);
      want = want < -kMost ? -kMost : want > kMost ? kMost : want;
      got = got < -kMost ? -kMost : got > kMost ? kMost : got;
      differ |= want + magic != got + magic;
    }
    if (differ) return false;
  }
  return true;
}

// |v| moved by |steps| units in the last place.
static float neighbor(float v, int steps) {
  for (int i = 0; i < abs(steps); i++) v = nextafterf(v, steps < 0 ? 0 : INFINITY);
  return v;
}

bool carnot_quantized_find_factors(const carnot_quantized_twice* t, float* out_inner,
                                   float* out_residual) {
  enum { kReach = 4 };
  const double divisor = (double)t->divisor,
               most =
                   (512 * (double)t->inner_scale + 512 * fabs((double)t->residual_scale)) / divisor;
  if (!(most <= ldexp(1, 20)) || !(t->divisor >= 1e-30F && t->divisor <= 1e30F)) return false;
  const float inner = (float)((double)t->inner_scale / divisor),
              residual = (float)((double)t->residual_scale / divisor);
  for (int reach = 0; reach <= kReach; reach++)
    for (int i = -reach; i <= reach; i++)
      for (int k = -reach; k <= reach; k++) {
        if (abs(i) < reach && abs(k) < reach) continue;  // tried before
        const float a = neighbor(inner, i), b = neighbor(residual, k);
        if (!serve(t, a, b)) continue;
        *out_inner = a, *out_residual = b;
        return true;
      }
  return false;
}
