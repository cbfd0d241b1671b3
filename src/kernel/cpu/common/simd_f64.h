// Vectors of float64, for the kernels that compute in it: V64_LANES numbers. They have C's
// operators.
#ifndef CARNOT_KERNEL_CPU_COMMON_SIMD_F64_H_
#define CARNOT_KERNEL_CPU_COMMON_SIMD_F64_H_

#include "kernel/cpu/common/simd.h"

#if defined(__AVX512F__)
enum { V64_LANES = 8 };
typedef __m512d vf64;
CARNOT_INLINE vf64 v64_set(double x) { return _mm512_set1_pd(x); }
CARNOT_INLINE vf64 v64_fma(vf64 a, vf64 b, vf64 c) { return _mm512_fmadd_pd(a, b, c); }
#elif defined(__AVX2__)
enum { V64_LANES = 4 };
typedef __m256d vf64;
CARNOT_INLINE vf64 v64_set(double x) { return _mm256_set1_pd(x); }
CARNOT_INLINE vf64 v64_fma(vf64 a, vf64 b, vf64 c) { return _mm256_fmadd_pd(a, b, c); }
#else
enum { V64_LANES = 2 };
typedef double vf64 __attribute__((vector_size(16)));
CARNOT_INLINE vf64 v64_set(double x) { return (vf64){x, x}; }
CARNOT_INLINE vf64 v64_fma(vf64 a, vf64 b, vf64 c) { return a * b + c; }
#endif

CARNOT_INLINE vf64 v64_load(const double* p) {
  vf64 x;
  memcpy(&x, p, sizeof x);
  return x;
}
CARNOT_INLINE void v64_store(double* p, vf64 x) { memcpy(p, &x, sizeof x); }

// The bits of as many numbers, and float32 in and out of memory.
typedef uint64_t vu64 __attribute__((vector_size(sizeof(vf64))));
typedef float v64_f32 __attribute__((vector_size(sizeof(vf64) / 2)));
CARNOT_INLINE vf64 v64_load_f32(const float* p) {
  v64_f32 x;
  memcpy(&x, p, sizeof x);
  return __builtin_convertvector(x, vf64);
}
CARNOT_INLINE void v64_store_f32(float* p, vf64 x) {
  const v64_f32 y = __builtin_convertvector(x, v64_f32);
  memcpy(p, &y, sizeof y);
}
CARNOT_INLINE vf64 v64_clamp(vf64 x, double low, double high) {
  const vu64 bits = (vu64)x, below = (vu64)(x < v64_set(low)), above = (vu64)(x > v64_set(high));
  return (vf64)((bits & ~below & ~above) | ((vu64)v64_set(low) & below) |
                ((vu64)v64_set(high) & above));
}

#endif
