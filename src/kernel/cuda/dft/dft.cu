// Translation unit of the dft kernels.
#include "kernel/cuda/common/kernel.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/dft.inc"

#include "kernel/cuda/dft/dft.def"
