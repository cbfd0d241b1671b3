// Parameters of the generic deformable convolution, Col2Im and AffineGrid.
#ifndef CARNOT_KERNEL_CUDA_CONV_DEFORM_CONV_PARAMS_H_
#define CARNOT_KERNEL_CUDA_CONV_DEFORM_CONV_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// Windows whose spatial axes fill the end of the arrays. deform_conv: in [x, w, offset, bias,
// mask].
typedef struct carnot_cuda_deform_conv_params {
  carnot_cuda_generic_io io;
  long long channels, filters, groups, offset_groups;
  long long in[3], out[3], kernel[3], step[3], dilation[3], begin[3];
  int rank, align_corners;
} carnot_cuda_deform_conv_params;

#endif  // CARNOT_KERNEL_CUDA_CONV_DEFORM_CONV_PARAMS_H_
