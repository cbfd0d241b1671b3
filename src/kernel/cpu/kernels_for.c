#include <stddef.h>

#include "kernel/cpu/kernels.h"

extern const carnot_cpu_kernels carnot_kernels_scalar;
#if defined(__x86_64__)
extern const carnot_cpu_kernels carnot_kernels_avx2, carnot_kernels_avx512,
    carnot_kernels_avx512vnni;
#endif

const carnot_cpu_kernels* carnot_cpu_kernels_for(carnot_kernel_isa isa) {
  switch (isa) {
    case CARNOT_KERNEL_ISA_SCALAR: return &carnot_kernels_scalar;
#if defined(__x86_64__)
    case CARNOT_KERNEL_ISA_AVX2: return &carnot_kernels_avx2;
    case CARNOT_KERNEL_ISA_AVX512: return &carnot_kernels_avx512;
    case CARNOT_KERNEL_ISA_AVX512_VNNI: return &carnot_kernels_avx512vnni;
#endif
    default: return NULL;
  }
}
