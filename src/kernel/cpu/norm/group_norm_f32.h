// Group normalization; instance normalization has as many groups as channels.
//   dst = activation((x - mean_ng) * inv_ng * scale[c] + bias[c]),  inv_ng = 1 / sqrt(variance +
//   epsilon)
// with mean and variance over the pixels and channels of group g of image n.
// |src|, |dst| [N,HW,C] for _nhwc: pixels |src_ld|, |dst_ld| floats apart, images HW pixels apart;
//              [N,C,HW] for _nchw: dense  |scale|, |bias| [C] or NULL; dst may be src
// |src|, |dst| point to float32 or to BF16, by the flags; all arithmetic is float32 and wider. SILU
// of _nhwc is within 5e-4 of the result before that is rounded to BF16.
// A call computes images [n0,n1) of groups [g0,g1), C / groups channels each. |workspace| of _nhwc:
// 2 C floats, shared by no other call. One pass for the statistics (means and squared deviations of
// short runs, joined by Chan, Golub and LeVeque's formula), one to apply them. Any thread.
// Source: ONNX GroupNormalization-21, InstanceNormalization-6.
#ifndef CARNOT_KERNEL_CPU_NORM_GROUP_NORM_F32_H_
#define CARNOT_KERNEL_CPU_NORM_GROUP_NORM_F32_H_

#include <stdbool.h>
#include <stdint.h>

#include "kernel/cpu/common/epilogue_f32.h"

typedef struct carnot_group_norm_f32 {
  int64_t pixels, c, groups;
  bool src_is_bf16, dst_is_bf16;
  const float* src;
  int64_t src_ld;
  float* dst;
  int64_t dst_ld;
  const float *scale, *bias;
  float epsilon;
  carnot_kernel_activation activation;
  float a, b;  // its parameters
  float* workspace;
} carnot_group_norm_f32;

typedef void carnot_group_norm_nhwc_f32_fn(const carnot_group_norm_f32* norm, int64_t n0,
                                           int64_t n1, int64_t g0, int64_t g1);
typedef void carnot_group_norm_nchw_f32_fn(const carnot_group_norm_f32* norm, int64_t n0,
                                           int64_t n1, int64_t g0, int64_t g1);

// The steps of _nhwc by themselves, for images whose pixels are cut into blocks of
// |pixels_of_block|:
// out_mean[c] and out_m2[c] = sum over rows of (x - mean)^2, for |c| channels of |rows| rows, |ld|
// elements apart, of float32 or BF16.
typedef void carnot_channel_stats_f32_fn(bool is_bf16, int64_t rows, int64_t c, const void* src,
                                         int64_t ld, float* out_mean, float* out_m2);
// Joins the mean and m2 [2,C] of each of an image's blocks, |stats|, to the norm as
// x * workspace[c] + workspace[C + c] for the channels of groups [g0,g1). |stats| of one block may
// be the workspace.
typedef void carnot_group_norm_scales_f32_fn(const carnot_group_norm_f32* norm, const float* stats,
                                             int64_t pixels_of_block, int64_t g0, int64_t g1);
// dst = activation(x * workspace[c] + workspace[C + c]) for channels [c0,c1) of pixels
// [begin,end), counted over all images.
typedef void carnot_group_norm_apply_f32_fn(const carnot_group_norm_f32* norm, int64_t begin,
                                            int64_t end, int64_t c0, int64_t c1);

#endif
