// Translation unit of the recurrent kernels.
#include "kernel/cuda/common/kernel.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/recurrent.inc"

#include "kernel/cuda/recurrent/recurrent.def"
