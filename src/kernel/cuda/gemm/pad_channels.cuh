// Rows of bytes padded with zeros to a multiple of four, so that gemm_int8 loads them in words.
#pragma once

#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/gemm/pad_channels_params.h"

// A thread writes four bytes.
DEVICE void pad_words(const carnot_cuda_pad_channels_params& p) {
  i64 i = THREAD;
  if (i >= p.count) return;
  u32 words = (u32)p.padded / 4;
  i64 row = i / words;
  int first = (int)(i % words) * 4;
  const u8* x = (const u8*)p.x + row * p.channels;
  u32 y = 0;
  for (int e = 0; e < 4; e++)
    if (first + e < p.channels) y |= (u32)x[first + e] << e * 8;
  ((u32*)p.y)[i] = y;
}
