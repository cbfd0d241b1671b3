// Which ISA levels this machine has, the operating system's permission for them included.
#ifndef CARNOT_KERNEL_CPU_COMMON_MACHINE_H_
#define CARNOT_KERNEL_CPU_COMMON_MACHINE_H_

#include "kernel/cpu/common/kernels.h"

// NULL when this machine runs |isa|, else what it lacks. AMX asks Linux for the use of its tiles,
// which then holds for the process. Any thread.
const char* carnot_machine_lacks(carnot_kernel_isa isa);

#endif
