// Which ISA levels this machine has, the operating system's permission for them included.
#ifndef CARNOT_KERNEL_CPU_COMMON_MACHINE_H_
#define CARNOT_KERNEL_CPU_COMMON_MACHINE_H_

#include "kernel/cpu/common/kernels.h"

// The features of this machine, bits CARNOT_CPU_*; 0 on other processor families. Where the
// processor has AMX, this asks Linux for the use of its tiles, which then holds for the process.
// Any thread.
unsigned carnot_machine_features(void);
// NULL when this machine has all features that |isa| requires, else what it lacks. Any thread.
const char* carnot_machine_lacks(carnot_isa isa);

#endif
