// Translation unit of the roofline kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/roofline/roofline.cuh"

#include "kernel/cuda/roofline/roofline.def"
