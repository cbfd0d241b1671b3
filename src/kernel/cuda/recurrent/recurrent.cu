// Translation unit of the recurrent kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/recurrent/linear_scan.cuh"
#include "kernel/cuda/recurrent/recurrent_cluster.cuh"
#include "kernel/cuda/recurrent/recurrent_mma.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/recurrent.inc"

#include "kernel/cuda/recurrent/recurrent.def"
