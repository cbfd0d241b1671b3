#include "kernel/cpu/kernels.h"

#include "kernel/cpu/kernels_isa.h"

#define STRING_(x) #x
#define STRING(x)  STRING_(x)

const carnot_cpu_kernels CARNOT_KERNEL(kernels) = {
    .isa = STRING(CARNOT_ISA),
#define KERNEL(name) .name = CARNOT_KERNEL(name),
#include "kernel/cpu/kernels.def"
#undef KERNEL
};
