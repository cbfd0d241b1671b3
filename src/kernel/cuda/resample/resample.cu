// Translation unit of the resample kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/resample/affine_grid.cuh"
#include "kernel/cuda/resample/grid_sample.cuh"
#include "kernel/cuda/resample/resize.cuh"

#include "kernel/cuda/resample/resample.def"
