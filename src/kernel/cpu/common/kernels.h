// The CPU kernels by ISA level: one table of functions for each, with the same results up to the
// rounding of fused operations.
// Kernels read and write only the strided extents they are given, allocate nothing, keep no state
// and may run on any thread. Sizes and strides count elements unless a name says otherwise.
#ifndef CARNOT_KERNEL_CPU_COMMON_KERNELS_H_
#define CARNOT_KERNEL_CPU_COMMON_KERNELS_H_

#include "kernel/cpu/attention/attention_bf16_tiles.h"
#include "kernel/cpu/attention/attention_decode_f32.h"
#include "kernel/cpu/attention/attention_f32.h"
#include "kernel/cpu/attention/attention_u8s8.h"
#include "kernel/cpu/attention/rotary_f32.h"
#include "kernel/cpu/common/isa.h"
#include "kernel/cpu/conv/conv2d_bf16_tiles.h"
#include "kernel/cpu/conv/conv2d_f32.h"
#include "kernel/cpu/conv/conv2d_few_f32.h"
#include "kernel/cpu/conv/conv2d_grouped_f32.h"
#include "kernel/cpu/conv/conv2d_nchw_f32.h"
#include "kernel/cpu/conv/conv2d_planes_f32.h"
#include "kernel/cpu/conv/conv2d_s8_tiles.h"
#include "kernel/cpu/conv/conv2d_winograd_f32.h"
#include "kernel/cpu/conv/depthwise_f32.h"
#include "kernel/cpu/conv/depthwise_u8s8.h"
#include "kernel/cpu/conv/im2col_f32.h"
#include "kernel/cpu/conv/scale_channels_f32.h"
#include "kernel/cpu/conv/sum_columns_f32.h"
#include "kernel/cpu/copy/transpose.h"
#include "kernel/cpu/detection/overlap_f64.h"
#include "kernel/cpu/dft/dft_f32.h"
#include "kernel/cpu/gather/gather.h"
#include "kernel/cpu/gemm/gemm_dequant_s8.h"
#include "kernel/cpu/gemm/gemm_dequant_tiles.h"
#include "kernel/cpu/gemm/gemm_f32.h"
#include "kernel/cpu/gemm/gemm_u8s8.h"
#include "kernel/cpu/gemm/matmul_f64.h"
#include "kernel/cpu/norm/group_norm_f32.h"
#include "kernel/cpu/norm/row_norm_f32.h"
#include "kernel/cpu/norm/softmax_f32.h"
#include "kernel/cpu/pointwise/cast.h"
#include "kernel/cpu/pointwise/convert.h"
#include "kernel/cpu/pointwise/elementwise.h"
#include "kernel/cpu/pointwise/pointwise.h"
#include "kernel/cpu/pointwise/rectify.h"
#include "kernel/cpu/pointwise/table_bytes.h"
#include "kernel/cpu/pool/pool_f32.h"
#include "kernel/cpu/pool/pool_nchw_f32.h"
#include "kernel/cpu/reduce/reduce_f32.h"
#include "kernel/cpu/reduce/reduce_native.h"
#include "kernel/cpu/reduce/top_k_f32.h"
#include "kernel/cpu/resample/interpolate_f32.h"
#include "kernel/cpu/resample/resample_axis_f32.h"
#include "kernel/cpu/resample/resize_f32.h"

typedef struct carnot_cpu_kernels {
  const char* isa;  // "scalar", "avx2", "avx512", "avx512vnni", "avx512bf16", "amxbf16"
#define KERNEL(name) carnot_##name##_fn* name;
#include "kernel/cpu/common/kernels.def"
} carnot_cpu_kernels;

// The table of a level, or NULL if this build has none (another processor family). The caller
// makes sure that the machine has the level.
const carnot_cpu_kernels* carnot_cpu_kernels_for(carnot_isa isa);

#endif
