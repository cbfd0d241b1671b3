// Identifiers of all kernels and of their families, from the lists that define them
// (kernel/cuda/*.def): a kernel that host code names and no translation unit defines does not
// compile.
#ifndef CARNOT_BACKEND_CUDA_DRIVER_KERNELS_H_
#define CARNOT_BACKEND_CUDA_DRIVER_KERNELS_H_

#include "kernel/cuda/attention/attention_cached_params.h"
#include "kernel/cuda/attention/attention_int8_params.h"
#include "kernel/cuda/attention/attention_mixed_params.h"
#include "kernel/cuda/attention/attention_params.h"
#include "kernel/cuda/attention/attention_tma_params.h"
#include "kernel/cuda/attention/cross_covariance_params.h"
#include "kernel/cuda/attention/rotary_params.h"
#include "kernel/cuda/common/kernel_types.h"
#include "kernel/cuda/conv/cast_to_nhwc_params.h"
#include "kernel/cuda/conv/conv_small_channels_params.h"
#include "kernel/cuda/conv/depthwise_int8_params.h"
#include "kernel/cuda/conv/depthwise_params.h"
#include "kernel/cuda/copy/copy_params.h"
#include "kernel/cuda/gemm/gemm_int8_params.h"
#include "kernel/cuda/gemm/gemm_tile_params.h"
#include "kernel/cuda/gemm/gemm_weight_only_params.h"
#include "kernel/cuda/gemm/pad_channels_params.h"
#include "kernel/cuda/quantize/table_bytes_params.h"
#include "kernel/cuda/recurrent/recurrent_cluster_params.h"
#include "kernel/cuda/reduce/mean_bytes_params.h"
#include "kernel/cuda/reduce/reduce_types.h"

typedef enum carnot_cuda_family {
#define FAMILY(name) CARNOT_CUDA_FAMILY_##name,
#include "kernel/cuda/families.def"
  CARNOT_CUDA_FAMILY_COUNT
} carnot_cuda_family;

typedef enum carnot_cuda_kernel_id {
  CARNOT_CUDA_KERNEL_NONE,
#define KERNEL(name, ...) CARNOT_CUDA_KERNEL_##name,
#include "kernel/cuda/kernels.def"
  CARNOT_CUDA_KERNEL_COUNT
} carnot_cuda_kernel_id;

// An element of a table of kernels by dtype, for the type lists of kernel_types.h.
#define CARNOT_CUDA_BY_TYPE(T, DTYPE, family) \
  [CARNOT_DTYPE_##DTYPE] = CARNOT_CUDA_KERNEL_##family##_##T,
// A table of kernels by the bytes of an element.
#define CARNOT_CUDA_BY_BYTES(family)                                              \
  {                                                                               \
    [1] = CARNOT_CUDA_KERNEL_##family##_1, [2] = CARNOT_CUDA_KERNEL_##family##_2, \
    [4] = CARNOT_CUDA_KERNEL_##family##_4, [8] = CARNOT_CUDA_KERNEL_##family##_8, \
    [16] = CARNOT_CUDA_KERNEL_##family##_16                                       \
  }

#endif  // CARNOT_BACKEND_CUDA_DRIVER_KERNELS_H_
