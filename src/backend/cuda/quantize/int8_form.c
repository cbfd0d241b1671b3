// Which code path of the integer epilogue serves a quantized region.
#include <math.h>

#include "backend/cuda/quantize/int8_region.h"

carnot_cuda_int8_form carnot_cuda_int8_region_form(const carnot_cuda_int8_region* r) {
  const bool has_bytes = r->residual_type > CARNOT_CUDA_INT8_F32;
  if (r->output == CARNOT_CUDA_INT8_F32 || r->residual_type == CARNOT_CUDA_INT8_F32)
    return CARNOT_CUDA_INT8_GENERAL;
  if (r->is_twice) return r->reciprocal != 0 ? CARNOT_CUDA_INT8_TWICE : CARNOT_CUDA_INT8_GENERAL;
  const double most =
      ldexp(r->largest_scale, 31) + (has_bytes ? 512 * fabs((double)r->residual_scale) : 0);
  if (r->activation != CARNOT_CUDA_NO_ACTIVATION || r->divisor != 1 || !(most <= ldexp(1, 30)))
    return CARNOT_CUDA_INT8_GENERAL;
  return has_bytes ? CARNOT_CUDA_INT8_RESIDUAL : CARNOT_CUDA_INT8_REQUANTIZE;
}

// Of all pairs of an inner byte and a byte of the residual: v * |reciprocal| rounds to the integer
// that v / divisor rounds to, of those within [-1023, 1023].
static bool serves(const carnot_cuda_int8_region* r, float reciprocal) {
  enum { kMost = 1023 };
  const float magic = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
  const int first = r->residual_type == CARNOT_CUDA_INT8_S8 ? -128 : 0;
  uint32_t differ = 0;
  for (int q = r->inner_low; q <= r->inner_high; q++) {
    const float inner = (float)(q - r->inner_zero) * r->inner_scale;
    for (int byte = first; byte < first + 256; byte++) {
      const float v = inner + (float)(byte - r->residual_zero) * r->residual_scale;
      float want = v / r->divisor, got = v * reciprocal;
      want = want < -kMost ? -kMost : want > kMost ? kMost : want;
      got = got < -kMost ? -kMost : got > kMost ? kMost : got;
      differ |= want + magic != got + magic;
    }
  }
  return !differ;
}

float carnot_cuda_int8_region_reciprocal(const carnot_cuda_int8_region* r) {
  const bool is_bound = r->activation == CARNOT_CUDA_NO_ACTIVATION ||
                        (r->activation == CARNOT_CUDA_CLAMP && r->a <= r->b);
  const double most =
      (512 * (double)r->inner_scale + 512 * fabs((double)r->residual_scale)) / (double)r->divisor;
  if (r->residual_type <= CARNOT_CUDA_INT8_F32 || r->output == CARNOT_CUDA_INT8_F32 || !is_bound ||
      !(most <= ldexp(1, 20)) || !(r->divisor >= 1e-30F && r->divisor <= 1e30F))
    return 0;
  float up = 1 / r->divisor, down = up;
  for (int i = 0; i < 4; i++) {
    if (serves(r, up)) return up;
    if (serves(r, down)) return down;
    up = nextafterf(up, INFINITY), down = nextafterf(down, 0);
  }
  return 0;
}
