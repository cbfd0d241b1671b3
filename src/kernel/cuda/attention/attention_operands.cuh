// Offsets of the operands of an attention block, and single elements of its mask.
#pragma once

#include "kernel/cuda/attention/attention_params.h"
#include "kernel/cuda/common/element.cuh"
#include "kernel/cuda/quantize/byte_result.cuh"

template <class T>
DEVICE f32 mask_at(const carnot_cuda_attention_params& p, const void* mask, i64 row, int key) {
  if (!mask || key >= p.keys) return 0;
  return p.mask_is_float ? get<f32>(mask, row + key) : get<T>(mask, row + key);
}

struct head_offsets {
  i64 q, k, v, y, mask, kinds;  // kinds: the row of tiles in the mask classification
};
DEVICE head_offsets head_offsets_of(const carnot_cuda_attention_params& p) {
  i64 outer = blockIdx.y / p.inner, inner = blockIdx.y % p.inner;
  return {outer * p.q_s[0] + inner * p.q_s[1],
          outer * p.k_s[0] + inner * p.k_s[1],
          outer * p.v_s[0] + inner * p.v_s[1],
          outer * p.y_s[0] + inner * p.y_s[1],
          outer * p.mask_s[0] + inner * p.mask_s[1],
          (outer * p.kinds_s[0] + inner * p.kinds_s[1]) * gridDim.x + blockIdx.x};
}
