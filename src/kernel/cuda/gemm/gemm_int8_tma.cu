// Translation unit of the gemm_int8_tma kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/gemm/gemm_int8_tma.cuh"

// Built for sm_90a alone: other architectures have no such kernels.
#if HAS_WGMMA
#include "kernel/cuda/gemm/gemm_int8_tma.def"
#endif
