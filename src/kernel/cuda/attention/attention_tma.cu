// Translation unit of the attention_tma kernels.
#include "kernel/cuda/attention/attention_tma.cuh"
#include "kernel/cuda/common/kernel.cuh"

// Built for sm_90a alone: other architectures have no such kernels.
#if HAS_WGMMA
#include "kernel/cuda/attention/attention_tma.def"
#endif
