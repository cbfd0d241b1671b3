// A GEMM and its packing of B by type, for kernels that contain GEMMs; private to their sources.
#ifndef CARNOT_KERNEL_CPU_GEMM_GEMM_FUNCTIONS_H_
#define CARNOT_KERNEL_CPU_GEMM_GEMM_FUNCTIONS_H_

#include "kernel/cpu/attention/attention_f32.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

typedef struct gemm_functions {
  carnot_gemm_f32_fn* gemm;
  carnot_gemm_pack_f32_fn* pack;  // in the packing of |gemm|; needs no more memory than k1n16 f32
} gemm_functions;

typedef void attention_by_fn(const carnot_attention_f32* p, const gemm_functions* functions,
                             int64_t q0, int64_t q1);
typedef void matmul_by_fn(const carnot_matmul_f32* p, const gemm_functions* functions, int64_t m0,
                          int64_t m1, int64_t n0, int64_t n1);
attention_by_fn GEMM_MACRO_KERNEL(attention_by);
matmul_by_fn GEMM_MACRO_KERNEL(matmul_by);

#endif
