#include "kernel/cpu/kernels.h"

#include "kernel/cpu/kernels_isa.h"

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

// avx512vnni has the kernels of avx512 but for those that are compiled for it.
#if defined(__AVX512VNNI__)
#define KERNEL(name) carnot_##name##_fn carnot_##name##_avx512;
#include "kernel/cpu/kernels.def"
#define KERNEL(name)      .name = carnot_##name##_avx512,
#define KERNEL_VNNI(name) .name = CARNOT_KERNEL(name),
#else
#define KERNEL(name) .name = CARNOT_KERNEL(name),
#endif

const carnot_cpu_kernels CARNOT_KERNEL(kernels) = {
    .isa = STRING(CARNOT_ISA),
#include "kernel/cpu/kernels.def"
};
