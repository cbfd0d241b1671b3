// Translation unit of the data_dependent kernels.
#include "kernel/cuda/common/kernel.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/data_dependent.inc"

#include "kernel/cuda/data_dependent/data_dependent.def"
