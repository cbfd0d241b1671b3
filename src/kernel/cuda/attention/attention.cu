// Translation unit of the attention kernels.
#include "kernel/cuda/attention/attention_generic.cuh"
#include "kernel/cuda/attention/attention_simt.cuh"
#include "kernel/cuda/attention/attention_split.cuh"
#include "kernel/cuda/attention/attention_tiled.cuh"
#include "kernel/cuda/attention/linear_attention.cuh"
#include "kernel/cuda/attention/rotary.cuh"
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"

#include "kernel/cuda/attention/attention.def"
