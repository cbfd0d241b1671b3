// Translation unit of the gather kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/gather/gather.cuh"
#include "kernel/cuda/gather/scatter_gather.cuh"

#include "kernel/cuda/gather/gather.def"
