// The kernel table of one ISA level.
#include "kernel/cpu/common/kernels.h"

#include <stddef.h>

#include "kernel/cpu/common/kernels_isa.h"

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

// The levels above avx512 have its kernels but for those that are compiled for them.
#if defined(__AVX512VNNI__)
#define KERNEL(name) carnot_##name##_fn carnot_##name##_avx512;
#include "kernel/cpu/common/kernels.def"
#define KERNEL(name) .name = carnot_##name##_avx512,
#if defined(__AVX512BF16__)
extern carnot_gemm_dequant_s8_fn carnot_gemm_dequant_s8_avx512vnni;
extern carnot_gemm_u8s8_fn carnot_gemm_u8s8_avx512vnni;
extern carnot_conv2d_u8s8_fn carnot_conv2d_u8s8_avx512vnni;
extern carnot_depthwise_u8s8_fn carnot_depthwise_u8s8_avx512vnni;
#define KERNEL_VNNI(name) .name = carnot_##name##_avx512vnni,
#define KERNEL_BF16(name) .name = CARNOT_KERNEL(name),
#if defined(__AMX_INT8__)
#define KERNEL_AMX_INT8(name) .name = CARNOT_KERNEL(name),
#define KERNEL_AMX(name)      .name = CARNOT_KERNEL(name),
#endif
#else
#define KERNEL_VNNI(name) .name = CARNOT_KERNEL(name),
#endif
#else
#define KERNEL(name) .name = CARNOT_KERNEL(name),
#endif

#if defined(__AMX_BF16__) || defined(__AMXBF16__)  // the latter: clang before 15
#define KERNEL_AMX_ONLY(name) .name = CARNOT_KERNEL(name),
#else
#define KERNEL_AMX_ONLY(name) .name = NULL,
#endif

const carnot_cpu_kernels CARNOT_KERNEL(kernels) = {
    .isa = STRING(CARNOT_ISA),
#include "kernel/cpu/common/kernels.def"
};
