// Translation unit of the generators kernels.
#include "kernel/cuda/common/kernel.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/generators.inc"

#include "kernel/cuda/generators/generators.def"
