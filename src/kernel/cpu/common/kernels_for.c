// Lookup of the kernel table of an ISA level.
#include <stddef.h>

#include "kernel/cpu/common/kernels.h"

extern const carnot_cpu_kernels carnot_kernels_scalar;
#if defined(__x86_64__)
extern const carnot_cpu_kernels carnot_kernels_avx2, carnot_kernels_avx512,
    carnot_kernels_avx512vnni, carnot_kernels_avx512bf16, carnot_kernels_amxbf16;
#endif

const carnot_cpu_kernels* carnot_cpu_kernels_for(carnot_isa isa) {
  switch (isa) {
    case CARNOT_ISA_SCALAR: return &carnot_kernels_scalar;
#if defined(__x86_64__)
    case CARNOT_ISA_AVX2: return &carnot_kernels_avx2;
    case CARNOT_ISA_AVX512: return &carnot_kernels_avx512;
    case CARNOT_ISA_AVX512_VNNI: return &carnot_kernels_avx512vnni;
    case CARNOT_ISA_AVX512_BF16: return &carnot_kernels_avx512bf16;
    case CARNOT_ISA_AMX_BF16: return &carnot_kernels_amxbf16;
#endif
    default: return NULL;
  }
}
