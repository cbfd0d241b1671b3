// Gates (carnot_kernel_is_gate) of sums that are rounded to BF16.
#ifndef CARNOT_KERNEL_CPU_COMMON_GATE_BF16_H_
#define CARNOT_KERNEL_CPU_COMMON_GATE_BF16_H_

#include "kernel/cpu/common/epilogue_f32.h"
#include "kernel/cpu/common/simd_math.h"

// |activation| where it is a gate, else NONE.
CARNOT_INLINE carnot_kernel_activation gate_of(carnot_kernel_activation activation) {
  return carnot_kernel_is_gate(activation) ? activation : CARNOT_KERNEL_ACTIVATION_NONE;
}

CARNOT_INLINE vf32 v_gate_bf16(carnot_kernel_activation gate, vf32 x) {
  return gate == CARNOT_KERNEL_ACTIVATION_SILU ? v_silu_roughly(x) : v_hard_swish(x);
}

#endif
