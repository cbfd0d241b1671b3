// Translation unit of the quantize kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/quantize/dynamic_quantize.cuh"
#include "kernel/cuda/quantize/quantize.cuh"
#include "kernel/cuda/quantize/quantized_gemm_conv.cuh"

#include "kernel/cuda/quantize/quantize.def"
