// Lookup of the kernel table of an ISA level.
#include <stddef.h>

#include "kernel/cpu/common/kernels.h"

// CMake writes compiled_isas.inc: KERNELS(name) for each ISA of this build, in the order of
// CARNOT_ISAS.
#define KERNELS(name) extern const carnot_cpu_kernels carnot_kernels_##name;
#include "compiled_isas.inc"
#undef KERNELS

static const carnot_cpu_kernels* const kTables[CARNOT_ISA_COUNT] = {
#define KERNELS(name) &carnot_kernels_##name,
#include "compiled_isas.inc"
#undef KERNELS
};

const carnot_cpu_kernels* carnot_cpu_kernels_for(carnot_isa isa) {
  return (unsigned)isa < CARNOT_ISA_COUNT ? kTables[isa] : NULL;
}
