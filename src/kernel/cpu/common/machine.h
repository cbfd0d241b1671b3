// Which ISA levels this machine and this build have, the operating system's permission included.
#ifndef CARNOT_KERNEL_CPU_COMMON_MACHINE_H_
#define CARNOT_KERNEL_CPU_COMMON_MACHINE_H_

#include "kernel/cpu/common/kernels.h"

// The features of this machine, bits CARNOT_CPU_*; 0 on other processor families. Where the
// processor has AMX, this asks Linux for the use of its tiles, which then holds for the process.
// Any thread.
unsigned carnot_machine_features(void);
// NULL when this machine has all features that |isa| requires and this build its kernels, else what
// is lacking. Any thread.
const char* carnot_machine_lacks(carnot_isa isa);

#endif
