// Translation unit of the gemm_weight_only_stream kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/gemm/gemm_weight_only_stream.cuh"

#include "kernel/cuda/gemm/gemm_weight_only_stream.def"
