// Translation unit of the generators kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/generators/generators.cuh"

#include "kernel/cuda/generators/generators.def"
