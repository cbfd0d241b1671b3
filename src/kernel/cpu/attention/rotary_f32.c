// Rotary position embedding: halves by vectors, interleaved pairs one by one.
#include "kernel/cpu/attention/rotary_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd.h"

void CARNOT_KERNEL(rotary_f32)(int64_t d, int64_t half, bool interleaved, const float* src,
                               const float* cosines, const float* sines, float* dst) {
  if (interleaved) {
    for (int64_t i = 0; i < half; ++i) {
      const float a = src[2 * i], b = src[2 * i + 1];
      dst[2 * i] = cosines[i] * a - sines[i] * b;
      dst[2 * i + 1] = sines[i] * a + cosines[i] * b;
    }
  } else {
    for (int64_t i = 0; i < half; i += V_LANES) {
      const int64_t left = half - i;
      const vf32 a = v_load_upto(src + i, left), b = v_load_upto(src + half + i, left);
      const vf32 c = v_load_upto(cosines + i, left), s = v_load_upto(sines + i, left);
      v_store_upto(dst + i, v_sub(v_mul(c, a), v_mul(s, b)), left);
      v_store_upto(dst + half + i, v_add(v_mul(s, a), v_mul(c, b)), left);
    }
  }
  if (dst != src && 2 * half < d) {
    memcpy(dst + 2 * half, src + 2 * half, (size_t)(d - 2 * half) * sizeof *dst);
  }
}
