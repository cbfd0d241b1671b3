// Translation unit of the gemm_fp8 kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/gemm/gemm_fp8_pingpong.cuh"
#include "kernel/cuda/gemm/gemm_tma.cuh"

// Built for sm_90a alone: other architectures have no such kernels.
#if HAS_WGMMA
#include "kernel/cuda/gemm/gemm_fp8.def"
#endif
