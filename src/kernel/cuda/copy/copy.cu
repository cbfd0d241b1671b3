// Translation unit of the copy kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/copy/pad.cuh"
#include "kernel/cuda/copy/strided_copy.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/copy.inc"

#include "kernel/cuda/copy/copy.def"
