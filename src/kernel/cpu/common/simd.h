// The vector layer of the CPU kernels: one name per operation, one header per ISA level.
//
// A kernel source is compiled once per level with CARNOT_ISA set to scalar, avx2 or avx512; it
// writes every symbol it exports as CARNOT_KERNEL(name), which becomes carnot_name_<isa>.
//
//   V_LANES          lanes of a vector: 4, 8, 16
//   vf32, vi32       vectors of float and int32_t;  vmask  one truth value a lane
//   v_load_n(p, n)   the first n lanes, 0 in the others; touches no byte beyond them
//   v_fma(a, b, c)   a * b + c, fused where the level has it
//   v_max, v_min     NaN if either operand is NaN
//   v_max_to, v_min_to(bound, x)  NaN if x is NaN; |bound| must be a number; one instruction
//   v_select(m, a, b)             a where m, else b
//   v_iand_or(a, b, c)            (a & b) | c
//   v_permute(a, from)            lane from[i] of a, which must be one of a vector, in lane i
//   v_even(a, b)     the lanes of even number of a, then those of b
//   v_to_int(x)      nearest, ties to even; undefined where |x| >= 2^31
//   v_scale2(x, n)   x * 2^n for integral n (as float) in [-300, 300], gradual underflow
//   v_split_floor(y, &n)  y - floor(y), and n that v_scale2 takes for floor(y)
#ifndef CARNOT_KERNEL_CPU_COMMON_SIMD_H_
#define CARNOT_KERNEL_CPU_COMMON_SIMD_H_

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define CARNOT_PASTE3_(a, b, c) a##b##_##c
#define CARNOT_PASTE3(a, b, c)  CARNOT_PASTE3_(a, b, c)
#define CARNOT_KERNEL(name)     CARNOT_PASTE3(carnot_, name, CARNOT_ISA)

// Bodies with a constant tile are inlined into one small function per tile.
#define CARNOT_INLINE static inline __attribute__((always_inline))

// Before a loop with a constant bound: unroll it wholly, and early.
#if defined(__clang__)
#define CARNOT_UNROLL _Pragma("clang loop unroll(full)")
#else
#define CARNOT_UNROLL _Pragma("GCC unroll 64")
#endif

// Hides where an integer comes from, so that addresses made of it are computed where they are used:
// the compiler otherwise keeps one induction variable for each and spills them all.
#define CARNOT_OPAQUE(x) __asm__("" : "+r"(x))

CARNOT_INLINE uint32_t bits_of_f32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

CARNOT_INLINE float f32_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

CARNOT_INLINE int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
CARNOT_INLINE int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

#if defined(__AVX512F__)
#include "kernel/cpu/common/simd_avx512.h"
#elif defined(__AVX2__)
#include "kernel/cpu/common/simd_avx2.h"
#else
#include "kernel/cpu/common/simd_scalar.h"
#endif

// A load or store of |n| <= V_LANES lanes that is plain when the vector is full.
CARNOT_INLINE vf32 v_load_upto(const float* p, int64_t n) {
  return n >= V_LANES ? v_load(p) : v_load_n(p, n);
}

CARNOT_INLINE void v_store_upto(float* p, vf32 x, int64_t n) {
  if (n >= V_LANES) {
    v_store(p, x);
  } else {
    v_store_n(p, x, n);
  }
}

// Element |at| of float32 or BF16 numbers.
CARNOT_INLINE const void* v_element(bool is_bf16, const void* p, int64_t at) {
  return (const char*)p + at * (is_bf16 ? 2 : 4);
}

// A load or store of |n| lanes from element |at| of float32 or BF16 numbers on.
CARNOT_INLINE vf32 v_load_stored(bool is_bf16, const void* p, int64_t at, int64_t n) {
  const uint16_t* half = (const uint16_t*)p + at;
  if (!is_bf16) return v_load_upto((const float*)p + at, n);
  return n >= V_LANES ? v_load_bf16(half) : v_load_bf16_n(half, n);
}

CARNOT_INLINE void v_store_stored(bool is_bf16, void* p, int64_t at, vf32 x, int64_t n) {
  uint16_t* half = (uint16_t*)p + at;
  if (!is_bf16) {
    v_store_upto((float*)p + at, x, n);
  } else if (n >= V_LANES) {
    v_store_bf16(half, x);
  } else {
    v_store_bf16_n(half, x, n);
  }
}

// The same of bytes.
CARNOT_INLINE vf32 v_load_bytes_upto(const void* p, int64_t n, bool is_signed) {
  return n >= V_LANES ? v_load_bytes(p, is_signed) : v_load_bytes_n(p, n, is_signed);
}

CARNOT_INLINE void v_store_bytes_upto(void* p, vi32 x, int64_t n) {
  if (n >= V_LANES) {
    v_store_bytes(p, x);
  } else {
    v_store_bytes_n(p, x, n);
  }
}

#endif
