// Translation unit of the loss kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/loss/loss.cuh"

#include "kernel/cuda/loss/loss.def"
