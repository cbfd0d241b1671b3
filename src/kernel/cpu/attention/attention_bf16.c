// Attention with BF16 dot products; on levels without them that of float32.
#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_functions.h"

#if defined(__AVX512BF16__)

carnot_gemm_pack_f32_fn CARNOT_KERNEL(gemm_pack_bf16);

void CARNOT_KERNEL(attention_bf16)(const carnot_attention_f32* p, int64_t q0, int64_t q1) {
  const gemm_functions functions = {CARNOT_KERNEL(gemm_bf16), CARNOT_KERNEL(gemm_pack_bf16)};
  GEMM_MACRO_KERNEL(attention_by)(p, &functions, q0, q1);
}

#else

void CARNOT_KERNEL(attention_bf16)(const carnot_attention_f32* p, int64_t q0, int64_t q1) {
  CARNOT_KERNEL(attention_f32)(p, q0, q1);
}

#endif
