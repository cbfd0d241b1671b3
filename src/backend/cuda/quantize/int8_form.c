// Which code path of the integer epilogue serves a quantized region.
#include <math.h>

#include "backend/cuda/quantize/int8_region.h"

carnot_cuda_int8_form carnot_cuda_int8_region_form(const carnot_cuda_int8_region* r) {
  const bool has_bytes = r->residual_type > CARNOT_CUDA_INT8_F32;
  if (r->output == CARNOT_CUDA_INT8_F32 || r->residual_type == CARNOT_CUDA_INT8_F32 ||
      r->offset >= 0)
    return CARNOT_CUDA_INT8_GENERAL;
  if (r->is_twice) return r->inner_factor != 0 ? CARNOT_CUDA_INT8_TWICE : CARNOT_CUDA_INT8_GENERAL;
  const double most = ldexp(r->bound, 31) + (has_bytes ? 512 * fabs((double)r->residual_scale) : 0);
  if (r->activation != CARNOT_CUDA_NO_ACTIVATION || r->divisor != 1 || !(most <= ldexp(1, 30)))
    return CARNOT_CUDA_INT8_GENERAL;
  return has_bytes ? CARNOT_CUDA_INT8_RESIDUAL : CARNOT_CUDA_INT8_REQUANTIZE;
}

void carnot_cuda_int8_region_set_factors(carnot_cuda_int8_region* r) {
  const bool is_bound = r->activation == CARNOT_CUDA_NO_ACTIVATION ||
                        (r->activation == CARNOT_CUDA_CLAMP && r->a <= r->b);
  const carnot_quantized_twice twice = {.inner_zero = r->inner_zero,
                                        .inner_low = r->inner_low,
                                        .inner_high = r->inner_high,
                                        .inner_scale = r->inner_scale,
                                        .residual_signed = r->residual_type == CARNOT_CUDA_INT8_S8,
                                        .residual_zero = r->residual_zero,
                                        .residual_scale = r->residual_scale,
                                        .divisor = r->divisor};
  r->inner_factor = r->residual_factor = 0;
  if (r->residual_type <= CARNOT_CUDA_INT8_F32 || r->output == CARNOT_CUDA_INT8_F32 || !is_bound ||
      !carnot_quantized_find_factors(&twice, &r->inner_factor, &r->residual_factor))
    r->inner_factor = r->residual_factor = 0;
}
