// The shared memory of one pipeline stage: rows of 64 elements (128 bytes), 16-byte pieces
// XOR-swizzled against bank conflicts.
#pragma once

#include "kernel/cuda/common/types.cuh"

enum { STAGE_DEPTH = 64, STAGE_PITCH = 128 };  // elements and bytes of a row of a stage

DEVICE u32 swizzled(u32 base, int row, int piece) {
  return base + row * STAGE_PITCH + ((piece ^ (row & 7)) << 4);
}
