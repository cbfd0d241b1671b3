// Tensor core instructions of a warp (sm_80): cp.async into shared memory, ldmatrix, mma.sync
// m16n8k16 of 16-bit floats with float accumulators, m16n8k32 of 8-bit integers with int32.
#pragma once

#include "kernel/cuda/common/types.cuh"

#define MINUS_INFINITY (-__int_as_float(0x7f800000))

// A kernel's body that needs sm_80: nothing below it.
#if __CUDA_ARCH__ >= 800
#define TENSOR_CORE(...) __VA_ARGS__
#else
#define TENSOR_CORE(...) (void)p
#endif

#if __CUDA_ARCH__ >= 800

DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
// 16 bytes, of which |bytes| are read, the rest zero.
DEVICE void cp_async16(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}
// SIZE bytes (16, 8 or 4) from an address that is a multiple of it, of which |bytes| are read.
template <int SIZE>
DEVICE void cp_async(u32 to, const void* from, int bytes) {
  if constexpr (SIZE == 16)
    cp_async16(to, from, bytes);
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(SIZE),
                 "r"(bytes));
}
DEVICE void cp_async_commit() { asm volatile("cp.async.commit_group;"); }
template <int N>
DEVICE void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
DEVICE void ldmatrix4(u32* r, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
DEVICE void ldmatrix4_transposed(u32* r, u32 from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(from)
               : "memory");
}
// Operations on pairs of 16-bit floats. multiply: mma.sync m16n8k16, c += a b. pair: two floats
// rounded, |a| in the low bits. clamp: of both elements, NaN stays NaN.
template <class T>
struct mma;
#define MATRIX(T, name)                                                      \
  template <>                                                                \
  struct mma<T> {                                                            \
    static DEVICE_ONLY void multiply(f32* c, const u32* a, u32 b0, u32 b1) { \
      asm("mma.sync.aligned.m16n8k16.row.col.f32." name "." name             \
          ".f32 {%0,%1,%2,%3}, "                                             \
          "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                           \
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                   \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));   \
    }                                                                        \
    static DEVICE_ONLY u32 pair(f32 a, f32 b) {                              \
      u32 y;                                                                 \
      asm("cvt.rn." name "x2.f32 %0, %1, %2;" : "=r"(y) : "f"(b), "f"(a));   \
      return y;                                                              \
    }                                                                        \
    static DEVICE_ONLY u32 clamp(u32 x, u32 low, u32 high) {                 \
      asm("max.NaN." name "x2 %0, %0, %1;\nmin.NaN." name "x2 %0, %0, %2;"   \
          : "+r"(x)                                                          \
          : "r"(low), "r"(high));                                            \
      return x;                                                              \
    }                                                                        \
  };
MATRIX(f16, "f16")
MATRIX(bf16, "bf16")
// c += a b, mma.sync m16n8k32, of unsigned or signed a and signed b.
#define INTEGER_MATRIX(T, name)                                              \
  template <>                                                                \
  struct mma<T> {                                                            \
    static DEVICE_ONLY void multiply(i32* c, const u32* a, u32 b0, u32 b1) { \
      asm("mma.sync.aligned.m16n8k32.row.col.s32." name                      \
          ".s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "                           \
          "{%8,%9}, {%0,%1,%2,%3};"                                          \
          : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                   \
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));   \
    }                                                                        \
  };
INTEGER_MATRIX(u8, "u8")
INTEGER_MATRIX(i8, "s8")

#endif
