// Translation unit of the gemm_int8 kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/gemm/gemm_int8.cuh"
#include "kernel/cuda/gemm/gemm_int8_small.cuh"
#include "kernel/cuda/gemm/pad_channels.cuh"

#include "kernel/cuda/gemm/gemm_int8.def"
