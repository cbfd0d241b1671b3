// Declares the kernels of the ISA level that is being compiled; private to their sources.
#ifndef CARNOT_KERNEL_CPU_COMMON_KERNELS_ISA_H_
#define CARNOT_KERNEL_CPU_COMMON_KERNELS_ISA_H_

#include "kernel/cpu/common/kernels.h"
#include "kernel/cpu/common/simd.h"

#define KERNEL(name) carnot_##name##_fn CARNOT_KERNEL(name);
#include "kernel/cpu/common/kernels.def"

extern const carnot_cpu_kernels CARNOT_KERNEL(kernels);

#endif
