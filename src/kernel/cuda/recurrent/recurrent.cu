// Translation unit of the recurrent kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/recurrent/recurrent.cuh"

#include "kernel/cuda/recurrent/recurrent.def"
