// Parameters of the generic kernels that pool regions of interest, and of unpooling.
#ifndef CARNOT_KERNEL_CUDA_POOL_ROI_PARAMS_H_
#define CARNOT_KERNEL_CUDA_POOL_ROI_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// Regions [R, 4] with their images in input 2, or [R, 5]; results [R, channels, rows, columns] of
// images [images, channels, height, width].
typedef struct carnot_cuda_roi_params {
  carnot_cuda_generic_io io;
  long long images, channels, height, width, rows, columns, sampling;
  int mean;
  double scale, shift;
} carnot_cuda_roi_params;

// Planes of |size|; indices count over |inner|, the result has |dims|.
typedef struct carnot_cuda_max_unpool_params {
  carnot_cuda_generic_io io;
  int rank;
  long long size, inner[CARNOT_CUDA_RANK], dims[CARNOT_CUDA_RANK];
} carnot_cuda_max_unpool_params;

#endif  // CARNOT_KERNEL_CUDA_POOL_ROI_PARAMS_H_
