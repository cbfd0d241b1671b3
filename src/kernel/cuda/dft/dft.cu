// Translation unit of the dft kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/dft/dft.cuh"

#include "kernel/cuda/dft/dft.def"
