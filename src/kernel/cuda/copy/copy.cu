// Translation unit of the copy kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/copy/pad.cuh"
#include "kernel/cuda/copy/strided_copy.cuh"

#include "kernel/cuda/copy/copy.def"
