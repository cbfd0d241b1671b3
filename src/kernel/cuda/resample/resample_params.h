// Parameters of the generic resampling kernels.
#ifndef CARNOT_KERNEL_CUDA_RESAMPLE_RESAMPLE_PARAMS_H_
#define CARNOT_KERNEL_CUDA_RESAMPLE_RESAMPLE_PARAMS_H_

#include "kernel/cuda/common/generic.h"

enum { CARNOT_CUDA_RESIZE_ROWS = 4 };  // of a thread of resize_nhwc_rows and _planes

typedef struct carnot_cuda_resize_params {
  carnot_cuda_generic_io io;
  int rank, place, nearest, radius, cubic, exclude_outside, antialias;
  double coefficient, extrapolation;
  long long in[CARNOT_CUDA_RANK], out[CARNOT_CUDA_RANK];
  double scale[CARNOT_CUDA_RANK], roi_start[CARNOT_CUDA_RANK], roi_end[CARNOT_CUDA_RANK];
} carnot_cuda_resize_params;

// in [x, grid]; |rank| spatial dimensions, |taps| along each, |before| of them before the
// sampled position.
typedef struct carnot_cuda_grid_sample_params {
  carnot_cuda_generic_io io;
  int rank, taps, before, padding, align_corners;  // padding: 0 zeros, 1 border, 2 reflection
  long long channels, in[3], in_size, out_size;
} carnot_cuda_grid_sample_params;

#endif  // CARNOT_KERNEL_CUDA_RESAMPLE_RESAMPLE_PARAMS_H_
