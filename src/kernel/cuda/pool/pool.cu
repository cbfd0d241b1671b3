// Translation unit of the pool kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/pool/max_unpool.cuh"
#include "kernel/cuda/pool/nhwc_pool.cuh"
#include "kernel/cuda/pool/pool.cuh"
#include "kernel/cuda/pool/roi.cuh"

#include "kernel/cuda/pool/pool.def"
