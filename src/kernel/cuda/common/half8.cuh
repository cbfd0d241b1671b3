// Vectors of eight 16-bit floats: 16 bytes, converted to and from float.
#pragma once

#include "kernel/cuda/common/functions.cuh"

struct __align__(16) half8 {
  u32 two[4];
};
template <class T>
DEVICE void unpack(const half8& e, f32* to) {
  for (int i = 0; i < 8; i++) {
    T t;
    t.bits = (u16)(e.two[i / 2] >> i % 2 * 16);
    to[i] = load(t);
  }
}
template <class T>
DEVICE void unpack(const void* from, i64 at, f32* to) {
  unpack<T>(((const half8*)from)[at], to);
}
DEVICE u32 pack_two(f32 a, f32 b, f16*) {
#if __CUDA_ARCH__ >= 800
  u32 two;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(b), "f"(a));
  return two;
#else
  return (u32)store_as<f16>::of(a).bits | (u32)store_as<f16>::of(b).bits << 16;
#endif
}
DEVICE u32 pack_two(f32 a, f32 b, bf16*) {
#if __CUDA_ARCH__ >= 800
  u32 two;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(two) : "f"(b), "f"(a));
  return two;
#else
  return (u32)store_as<bf16>::of(a).bits | (u32)store_as<bf16>::of(b).bits << 16;
#endif
}
template <class T>
DEVICE void pack(void* to, i64 at, const f32* from) {
  half8 e;
  for (int i = 0; i < 4; i++) e.two[i] = pack_two(from[2 * i], from[2 * i + 1], (T*)0);
  ((half8*)to)[at] = e;
}

template <class T>
DEVICE f32 half8_at(const half8& x, int i) {
  T t;
  t.bits = (u16)(x.two[i / 2] >> i % 2 * 16);
  return load(t);
}
