// Translation unit of the conv kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/conv/cast_to_nhwc.cuh"
#include "kernel/cuda/conv/causal_conv.cuh"
#include "kernel/cuda/conv/col2im.cuh"
#include "kernel/cuda/conv/conv1x1_small.cuh"
#include "kernel/cuda/conv/conv_direct.cuh"
#include "kernel/cuda/conv/conv_stem.cuh"
#include "kernel/cuda/conv/conv_transpose.cuh"
#include "kernel/cuda/conv/deform_conv.cuh"
#include "kernel/cuda/conv/depthwise.cuh"

#include "kernel/cuda/conv/conv.def"
