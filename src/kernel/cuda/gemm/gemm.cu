// Translation unit of the gemm kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/gemm/gemm_simt.cuh"
#include "kernel/cuda/gemm/gemv.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/gemm.inc"

#include "kernel/cuda/gemm/gemm.def"
