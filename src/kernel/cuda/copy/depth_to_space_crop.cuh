// DepthToSpace of which rows and columns at the borders are left out (generic kernel).
#pragma once

#include "kernel/cuda/common/generic.cuh"
#include "kernel/cuda/copy/depth_to_space_crop_params.h"

DEVICE void depth_to_space_crop(const carnot_cuda_depth_to_space_crop_params& p, i64 item) {
  const u32 channels = (u32)p.channels, columns = (u32)p.columns, rows = (u32)p.rows;
  u32 i = (u32)item, c, x, y, n;
  if (p.channels_last) {
    c = i % channels, i /= channels, x = i % columns, i /= columns;
    y = i % rows, n = i / rows;
  } else {
    x = i % columns, i /= columns, y = i % rows, i /= rows;
    c = i % channels, n = i / channels;
  }
  const u32 block = (u32)p.block, row = y + (u32)p.crop[0], column = x + (u32)p.crop[1];
  const i64 from = n * p.deep_image + row / block * p.deep_row + row % block * p.deep_phase[0] +
                   column / block * p.deep_column + column % block * p.deep_phase[1] +
                   c * p.deep_channel;
  const i64 to = n * p.image + y * p.row + x * p.column + c * p.channel;
  switch (p.io.bytes) {
    case 16: {
      struct alignas(16) pair {
        u64 a, b;
      };
      ((pair*)p.io.out[0])[to] = ((const pair*)p.io.in[0])[from];
      break;
    }
    case 8: ((u64*)p.io.out[0])[to] = ((const u64*)p.io.in[0])[from]; break;
    case 4: ((u32*)p.io.out[0])[to] = ((const u32*)p.io.in[0])[from]; break;
    case 2: ((u16*)p.io.out[0])[to] = ((const u16*)p.io.in[0])[from]; break;
    default: ((u8*)p.io.out[0])[to] = ((const u8*)p.io.in[0])[from];
  }
}
