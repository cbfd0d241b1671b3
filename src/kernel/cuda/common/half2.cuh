// One of the two 16-bit floats in a 32-bit word, as float.
#pragma once

#include "kernel/cuda/common/types.cuh"

DEVICE f32 half2_at(u32 two, int i, f16*) {
  f16 t;
  t.bits = (u16)(two >> 16 * i);
  return load(t);
}
DEVICE f32 half2_at(u32 two, int i, bf16*) {
  bf16 t;
  t.bits = (u16)(two >> 16 * i);
  return load(t);
}
