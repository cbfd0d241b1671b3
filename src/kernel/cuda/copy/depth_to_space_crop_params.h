// Parameters of the kernel that shuffles depth to space and crops.
#ifndef CARNOT_KERNEL_CUDA_COPY_DEPTH_TO_SPACE_CROP_PARAMS_H_
#define CARNOT_KERNEL_CUDA_COPY_DEPTH_TO_SPACE_CROP_PARAMS_H_

#include "kernel/cuda/common/generic.h"

// An item is one unit of 1 to 16 bytes (io.bytes) of the result; strides are in units. The element
// at row y + crop[0] and column x + crop[1] of the shuffle lies in row, or column, (y + crop) /
// block of the deep tensor, in phase (y + crop) % block.
typedef struct carnot_cuda_depth_to_space_crop_params {
  carnot_cuda_generic_io io;
  int rows, columns, channels;  // of the result; channels in units
  int block, crop[2];
  int channels_last;  // of the result: the order in which items are numbered
  long long deep_image, deep_row, deep_column, deep_channel, deep_phase[2];
  long long image, row, column, channel;
} carnot_cuda_depth_to_space_crop_params;

#endif  // CARNOT_KERNEL_CUDA_COPY_DEPTH_TO_SPACE_CROP_PARAMS_H_
