// Translation unit of the resample kernels.
#include "kernel/cuda/common/kernel.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/resample.inc"

#include "kernel/cuda/resample/resample.def"
