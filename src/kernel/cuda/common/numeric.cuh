// Limits of the accumulator types, and roots, logarithms and exponentials in their precision.
#pragma once

#include "kernel/cuda/common/functions.cuh"

template <class A>
struct limits_of;
template <>
struct limits_of<f32> {
  static DEVICE_ONLY f32 low() { return -__int_as_float(0x7f800000); }
  static DEVICE_ONLY f32 high() { return __int_as_float(0x7f800000); }
};
template <>
struct limits_of<f64> {
  static DEVICE_ONLY f64 low() { return -__longlong_as_double(0x7ff0000000000000ll); }
  static DEVICE_ONLY f64 high() { return __longlong_as_double(0x7ff0000000000000ll); }
};
template <>
struct limits_of<i32> {
  static DEVICE_ONLY i32 low() { return (i32)0x80000000; }
  static DEVICE_ONLY i32 high() { return 0x7fffffff; }
};
template <>
struct limits_of<i64> {
  static DEVICE_ONLY i64 low() { return (i64)0x8000000000000000ull; }
  static DEVICE_ONLY i64 high() { return 0x7fffffffffffffffll; }
};
template <>
struct limits_of<u32> {
  static DEVICE_ONLY u32 low() { return 0; }
  static DEVICE_ONLY u32 high() { return 0xffffffffu; }
};
template <>
struct limits_of<u64> {
  static DEVICE_ONLY u64 low() { return 0; }
  static DEVICE_ONLY u64 high() { return ~0ull; }
};
template <class A>
DEVICE A lowest() {
  return limits_of<A>::low();
}
template <class A>
DEVICE A highest() {
  return limits_of<A>::high();
}

template <class A>
DEVICE A root(A x) {
  return (A)sqrt((f64)x);
}
DEVICE f32 root(f32 x) { return sqrtf(x); }
template <class A>
DEVICE A logarithm(A x) {
  return (A)log((f64)x);
}
DEVICE f32 logarithm(f32 x) { return logf(x); }
template <class A>
DEVICE A exponential(A x) {
  return (A)exp((f64)x);
}
DEVICE f32 exponential(f32 x) { return expf(x); }
