// NEON of 64-bit Arm for what GNU vectors do not say. Included by simd_scalar.h only.
#ifndef CARNOT_KERNEL_CPU_COMMON_SIMD_NEON_H_
#define CARNOT_KERNEL_CPU_COMMON_SIMD_NEON_H_

#include <arm_neon.h>

CARNOT_INLINE vf32 v_sqrt(vf32 a) { return vsqrtq_f32(a); }
#define V_FMA_IS_FUSED 1
CARNOT_INLINE vf32 v_fma(vf32 a, vf32 b, vf32 c) { return vfmaq_f32(c, a, b); }
CARNOT_INLINE vf32 v_fnma(vf32 a, vf32 b, vf32 c) { return vfmsq_f32(c, a, b); }
CARNOT_INLINE vf32 v_max(vf32 a, vf32 b) { return vmaxq_f32(a, b); }
CARNOT_INLINE vf32 v_min(vf32 a, vf32 b) { return vminq_f32(a, b); }
CARNOT_INLINE vf32 v_round(vf32 a) { return vrndnq_f32(a); }
CARNOT_INLINE vf32 v_floor(vf32 a) { return vrndmq_f32(a); }
CARNOT_INLINE vf32 v_ceil(vf32 a) { return vrndpq_f32(a); }
CARNOT_INLINE vf32 v_trunc(vf32 a) { return vrndq_f32(a); }

CARNOT_INLINE vf32 v_load_f16(const uint16_t* p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}
CARNOT_INLINE void v_store_f16(uint16_t* p, vf32 x) {
  vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}
CARNOT_INLINE vf32 v_round_f16(vf32 x) { return vcvt_f32_f16(vcvt_f16_f32(x)); }

#endif
