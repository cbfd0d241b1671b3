// Translation unit of the squeeze_excite kernels.
#include "kernel/cuda/common/kernel.cuh"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/squeeze_excite/squeeze_excite.cuh"

#include "kernel/cuda/squeeze_excite/squeeze_excite.def"
