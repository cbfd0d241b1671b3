// What the stem convolutions of floats and of 8-bit integers share.
#ifndef CARNOT_BACKEND_CUDA_CONV_CONV_STEM_H_
#define CARNOT_BACKEND_CUDA_CONV_CONV_STEM_H_

#include "backend/cuda/common/tactic.h"
#include "kernel/cuda/conv/conv_small_channels_params.h"

enum { CARNOT_CUDA_CONV_STEM_CHANNELS = 4 };  // most that the kernels take

// Chooses the tile of |p|, whose sizes of result, window and strides are set: the fewest tiles; of
// as many, those with the smallest patches of x. A row of a window reads |width| columns.
void carnot_cuda_conv_stem_tile(int width, carnot_cuda_conv_stem_params* p);

#endif  // CARNOT_BACKEND_CUDA_CONV_CONV_STEM_H_
