// Accumulator types, typed element access and index arithmetic that most kernels share.
#pragma once

#include "kernel/cuda/common/functions.cuh"

// The thread of the whole grid.

#define THREAD (blockIdx.x * (i64)blockDim.x + threadIdx.x)

// The accumulator type of a storage type.
template <class T>
struct accumulator_of {
  typedef f32 type;
};
template <>
struct accumulator_of<f64> {
  typedef f64 type;
};
template <>
struct accumulator_of<i8> {
  typedef i32 type;
};
template <>
struct accumulator_of<u8> {
  typedef i32 type;
};
template <>
struct accumulator_of<i32> {
  typedef i32 type;
};
template <>
struct accumulator_of<i64> {
  typedef i64 type;
};
#define ACCUMULATOR typename accumulator_of<T>::type

template <class T>
DEVICE void put(void* y, i64 i, ACCUMULATOR v) {
  ((T*)y)[i] = store_as<T>::of(v);
}
template <class T>
DEVICE ACCUMULATOR get(const void* x, i64 i) {
  return load(((const T*)x)[i]);
}
DEVICE f32 multiply_add(f32 x, f32 y, f32 sum) { return fmaf(x, y, sum); }
DEVICE f64 multiply_add(f64 x, f64 y, f64 sum) { return fma(x, y, sum); }
template <class A>
DEVICE A multiply_add(A x, A y, A sum) {
  return x * y + sum;
}

// 32-bit arithmetic where positions fit: division of 64 bits is ten times slower.
template <class I>
DEVICE void offsets(I at, int rank, const i64* dims, const i64* a, const i64* b, i64* out_a,
                    i64* out_b) {
  i64 x = 0, y = 0;
  for (int d = rank - 1; d >= 0; d--) {
    I size = (I)dims[d], next = at / size, here = at - next * size;
    x += (i64)here * a[d];
    y += (i64)here * b[d];
    at = next;
  }
  *out_a = x;
  *out_b = y;
}
