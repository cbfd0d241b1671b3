// FP8 (E4M3FN) in storage. Part of generated programs that hold such values, like types.cuh.
#pragma once

#include "kernel/cuda/common/types.cuh"

#include "kernel/cuda/common/prelude_fp8.inl"

// Four numbers times |factor| in one word.
DEVICE u32 store_e4m3_four(const f32* v, f32 factor) {
#if __CUDA_ARCH__ >= 890
  u16 two[2];
  for (int i = 0; i < 2; i++)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;"
        : "=h"(two[i])
        : "f"(v[2 * i + 1] * factor), "f"(v[2 * i] * factor));
  return two[0] | (u32)two[1] << 16;
#else
  u32 four = 0;
  for (int i = 0; i < 4; i++) four |= (u32)store_e4m3(v[i] * factor) << 8 * i;
  return four;
#endif
}
