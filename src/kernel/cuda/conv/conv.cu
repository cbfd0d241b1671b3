// Translation unit of the conv kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/conv/cast_to_nhwc.cuh"
#include "kernel/cuda/conv/conv1x1_small.cuh"
#include "kernel/cuda/conv/conv_direct.cuh"
#include "kernel/cuda/conv/conv_stem.cuh"
#include "kernel/cuda/conv/conv_stem_int8.cuh"
#include "kernel/cuda/conv/depthwise.cuh"
#include "kernel/cuda/conv/depthwise_int8.cuh"
#include "kernel/cuda/conv/depthwise_tile.cuh"

// All kernels of the folder over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/conv.inc"

#include "kernel/cuda/conv/conv.def"
