// Translation unit of the reduce kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/reduce/axis_ops.cuh"
#include "kernel/cuda/reduce/reduce.cuh"

#include "kernel/cuda/reduce/reduce.def"
