// Translation unit of the norm kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/norm/group_norm.cuh"
#include "kernel/cuda/norm/group_norm_two_pass.cuh"
#include "kernel/cuda/norm/l2_norm.cuh"
#include "kernel/cuda/norm/norm.cuh"
#include "kernel/cuda/norm/norm_row.cuh"
#include "kernel/cuda/norm/norm_warp.cuh"
#include "kernel/cuda/norm/softmax.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/norm.inc"

#include "kernel/cuda/norm/norm.def"
