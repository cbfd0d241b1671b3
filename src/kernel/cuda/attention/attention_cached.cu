// Translation unit of the attention_cached kernels.
#include "kernel/cuda/attention/attention_cached.cuh"
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"

#include "kernel/cuda/attention/attention_cached.def"
