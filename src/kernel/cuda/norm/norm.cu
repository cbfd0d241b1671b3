// Translation unit of the norm kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/norm/group_norm.cuh"
#include "kernel/cuda/norm/group_norm_two_pass.cuh"
#include "kernel/cuda/norm/norm.cuh"
#include "kernel/cuda/norm/norm_generic.cuh"
#include "kernel/cuda/norm/norm_warp.cuh"
#include "kernel/cuda/norm/softmax.cuh"

#include "kernel/cuda/norm/norm.def"
