// Translation unit of the pool kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/pool/nhwc_pool.cuh"
#include "kernel/cuda/pool/pool.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/pool.inc"

#include "kernel/cuda/pool/pool.def"
