// Micro-kernels over weights packed k1n16 f32.
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

#define TILE_TABLE  gemm_ukernels_f32
#define TILE_FORMAT .weight_bytes = 4, .depth_unit = 1
typedef float tile_weight;
#include "kernel/cpu/gemm/gemm_ukernel_k1n16.h"

CARNOT_INLINE vf32 load_weights(const float* p) { return v_load(p); }
