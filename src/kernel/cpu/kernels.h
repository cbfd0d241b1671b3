// The CPU kernels by ISA level: one table of functions for each, with the same results up to the
// rounding of fused operations.
// Kernels read and write only the strided extents they are given, allocate nothing, keep no state
// and may run on any thread. Sizes and strides count elements unless a name says otherwise.
#ifndef CARNOT_KERNEL_CPU_KERNELS_H_
#define CARNOT_KERNEL_CPU_KERNELS_H_

#include "kernel/cpu/attention_f32.h"
#include "kernel/cpu/blend_f32.h"
#include "kernel/cpu/conv2d_f32.h"
#include "kernel/cpu/convert.h"
#include "kernel/cpu/depthwise_f32.h"
#include "kernel/cpu/gather.h"
#include "kernel/cpu/gemm_f32.h"
#include "kernel/cpu/gemm_u8s8.h"
#include "kernel/cpu/group_norm_f32.h"
#include "kernel/cpu/pointwise.h"
#include "kernel/cpu/pool_f32.h"
#include "kernel/cpu/pool_rows_f32.h"
#include "kernel/cpu/reduce_f32.h"
#include "kernel/cpu/resize_f32.h"
#include "kernel/cpu/row_norm_f32.h"
#include "kernel/cpu/softmax_f32.h"
#include "kernel/cpu/top_k_f32.h"
#include "kernel/cpu/transpose.h"

typedef enum carnot_kernel_isa {
  CARNOT_KERNEL_ISA_SCALAR,       // plain C, vectors of 4
  CARNOT_KERNEL_ISA_AVX2,         // AVX2, FMA, F16C
  CARNOT_KERNEL_ISA_AVX512,       // AVX-512 F, BW, DQ, VL
  CARNOT_KERNEL_ISA_AVX512_VNNI,  // and VNNI: the integer products
  CARNOT_KERNEL_ISA_AVX512_BF16,  // and BF16: the products over bf16
  CARNOT_KERNEL_ISA_AMX_BF16,     // and those by AMX, which the kernel must have permitted
  CARNOT_KERNEL_ISA_COUNT
} carnot_kernel_isa;

typedef struct carnot_cpu_kernels {
  const char* isa;  // "scalar", "avx2", "avx512", "avx512vnni", "avx512bf16", "amxbf16"
#define KERNEL(name) carnot_##name##_fn* name;
#include "kernel/cpu/kernels.def"
} carnot_cpu_kernels;

// The table of a level, or NULL if this build has none (another processor family). The caller
// makes sure that the machine has the level.
const carnot_cpu_kernels* carnot_cpu_kernels_for(carnot_kernel_isa isa);

#endif
