// Translation unit of the quantize kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/quantize/table_bytes.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/quantize.inc"

#include "kernel/cuda/quantize/quantize.def"
