// Translation unit of the reduce kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/reduce/mean_bytes.cuh"
#include "kernel/cuda/reduce/reduce.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/reduce.inc"

#include "kernel/cuda/reduce/reduce.def"
