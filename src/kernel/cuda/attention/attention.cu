// Translation unit of the attention kernels.
#include "kernel/cuda/attention/attention_int8.cuh"
#include "kernel/cuda/attention/attention_int8_split.cuh"
#include "kernel/cuda/attention/attention_mixed.cuh"
#include "kernel/cuda/attention/attention_simt.cuh"
#include "kernel/cuda/attention/attention_split.cuh"
#include "kernel/cuda/attention/attention_tiled.cuh"
#include "kernel/cuda/attention/cross_covariance.cuh"
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/attention.inc"

#include "kernel/cuda/attention/attention.def"
