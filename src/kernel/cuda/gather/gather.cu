// Translation unit of the gather kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/gather/gather.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/gather.inc"

#include "kernel/cuda/gather/gather.def"
