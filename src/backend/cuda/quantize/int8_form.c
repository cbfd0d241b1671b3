// Which code path of the integer epilogue serves a quantized region.
#include <math.h>
#include <stdlib.h>

#include "backend/cuda/quantize/int8_region.h"

carnot_cuda_int8_form carnot_cuda_int8_region_form(const carnot_cuda_int8_region* r) {
  const bool has_bytes = r->residual_type > CARNOT_CUDA_INT8_F32;
  if (r->output == CARNOT_CUDA_INT8_F32 || r->residual_type == CARNOT_CUDA_INT8_F32)
    return CARNOT_CUDA_INT8_GENERAL;
  if (r->is_twice) return r->inner_factor != 0 ? CARNOT_CUDA_INT8_TWICE : CARNOT_CUDA_INT8_GENERAL;
  const double most =
      ldexp(r->largest_scale, 31) + (has_bytes ? 512 * fabs((double)r->residual_scale) : 0);
  if (r->activation != CARNOT_CUDA_NO_ACTIVATION || r->divisor != 1 || !(most <= ldexp(1, 30)))
    return CARNOT_CUDA_INT8_GENERAL;
  return has_bytes ? CARNOT_CUDA_INT8_RESIDUAL : CARNOT_CUDA_INT8_REQUANTIZE;
}

// Of all pairs of an inner byte and a byte of the residual: the sum by the two factors rounds to
// the integer that v / divisor rounds to, of those within [-1023, 1023].
static bool serve(const carnot_cuda_int8_region* r, float inner_factor, float residual_factor) {
  enum { kMost = 1023 };
  const float magic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const int first = r->residual_type == CARNOT_CUDA_INT8_S8 ? -128 : 0;
  for (int q = r->inner_low; q <= r->inner_high; q++) {
    const float integer = (float)(q - r->inner_zero), inner = integer * r->inner_scale;
    uint32_t differ = 0;
    for (int byte = first; byte < first + 256; byte++) {
      const float residual = (float)(byte - r->residual_zero),
                  v = inner + residual * r->residual_scale;
      float want = v / r->divisor, got = fmaf(integer, inner_factor, residual * residual_factor);
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

void carnot_cuda_int8_region_set_factors(carnot_cuda_int8_region* r) {
  enum { kReach = 4 };
  const bool is_bound = r->activation == CARNOT_CUDA_NO_ACTIVATION ||
                        (r->activation == CARNOT_CUDA_CLAMP && r->a <= r->b);
  const double divisor = (double)r->divisor,
               most =
                   (512 * (double)r->inner_scale + 512 * fabs((double)r->residual_scale)) / divisor;
  r->inner_factor = r->residual_factor = 0;
  if (r->residual_type <= CARNOT_CUDA_INT8_F32 || r->output == CARNOT_CUDA_INT8_F32 || !is_bound ||
      !(most <= ldexp(1, 20)) || !(r->divisor >= 1e-30F && r->divisor <= 1e30F))
    return;
  const float inner = (float)((double)r->inner_scale / divisor),
              residual = (float)((double)r->residual_scale / divisor);
  for (int reach = 0; reach <= kReach; reach++)
    for (int i = -reach; i <= reach; i++)
      for (int k = -reach; k <= reach; k++) {
        if (abs(i) < reach && abs(k) < reach) continue;  // tried before
        const float a = neighbor(inner, i), b = neighbor(residual, k);
        if (!serve(r, a, b)) continue;
        r->inner_factor = a, r->residual_factor = b;
        return;
      }
}
