// Translation unit of the gemm kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/gemm/determinant.cuh"
#include "kernel/cuda/gemm/einsum.cuh"
#include "kernel/cuda/gemm/gemm_simt.cuh"

#include "kernel/cuda/gemm/gemm.def"
