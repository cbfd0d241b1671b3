// Translation unit of the gemm_multistage kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/gemm/gemm_multistage.cuh"

#include "kernel/cuda/gemm/gemm_multistage.def"
