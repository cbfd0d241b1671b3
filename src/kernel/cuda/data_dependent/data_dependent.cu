// Translation unit of the data_dependent kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/data_dependent/nms.cuh"
#include "kernel/cuda/data_dependent/nonzero.cuh"

#include "kernel/cuda/data_dependent/data_dependent.def"
