// Translation unit of the loss kernels.
#include "kernel/cuda/common/kernel.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/loss.inc"

#include "kernel/cuda/loss/loss.def"
