// GEMM over weights packed k1n16 f16, which loads convert to float32.
#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

#define TILE_TABLE  gemm_ukernels_f16
#define TILE_FORMAT .weight_bytes = 2, .depth_unit = 1
typedef uint16_t tile_weight;
#include "kernel/cpu/gemm/gemm_ukernel_k1n16.h"

CARNOT_INLINE vf32 load_weights(const uint16_t* p) { return v_load_f16(p); }

void CARNOT_KERNEL(gemm_f16)(const carnot_gemm_f32* p, int64_t m0, int64_t m1, int64_t n0,
                             int64_t n1) {
  CARNOT_KERNEL(gemm_with_ukernels_f32)(p, &CARNOT_KERNEL(gemm_ukernels_f16), m0, m1, n0, n1);
}

void CARNOT_KERNEL(conv2d_f16)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1, int64_t n0,
                               int64_t n1) {
  CARNOT_KERNEL(conv2d_tiled_f32)(p, &CARNOT_KERNEL(gemm_ukernels_f16), m0, m1, n0, n1);
}
