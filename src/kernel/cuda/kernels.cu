// The own kernels, one image for all architectures. A kernel is a template over the storage type, with
// an extern "C" name for each type that rows ask for.
#include "types.cuh"
#include "functions.cuh"
#include "params.h"

#define THREAD (blockIdx.x * (i64)blockDim.x + threadIdx.x)
#define EACH_FLOAT(X) X(f32, f32) X(f16, f16) X(bf16, bf16)
#define EACH_REAL(X) EACH_FLOAT(X) X(f64, f64)

// What sums of a storage type are kept in.
template <class T> struct sum_of { typedef f32 type; };
template <> struct sum_of<f64> { typedef f64 type; };
template <> struct sum_of<i8> { typedef i32 type; };
template <> struct sum_of<u8> { typedef i32 type; };
template <> struct sum_of<i32> { typedef i32 type; };
template <> struct sum_of<i64> { typedef i64 type; };
#define SUM typename sum_of<T>::type

template <class T> DEVICE void put(void* y, i64 i, SUM v) { ((T*)y)[i] = store_as<T>::of(v); }
template <class T> DEVICE SUM get(const void* x, i64 i) { return load(((const T*)x)[i]); }
DEVICE f32 multiply_add(f32 x, f32 y, f32 sum) { return fmaf(x, y, sum); }
DEVICE f64 multiply_add(f64 x, f64 y, f64 sum) { return fma(x, y, sum); }
template <class A> DEVICE A multiply_add(A x, A y, A sum) { return x * y + sum; }

// 32-bit arithmetic where positions fit: division of 64 bits is ten times slower.
template <class I> DEVICE void offsets(I at, int rank, const i64* dims, const i64* a, const i64* b,
                                       i64* out_a, i64* out_b) {
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

#include "move.cuh"
#include "rows.cuh"
#include "window.cuh"
#include "gemm.cuh"
#include "tensor.cuh"
#include "attention.cuh"
#include "eight.cuh"
#include "channels.cuh"
#include "squeeze.cuh"
#include "depthwise.cuh"
#include "results.cuh"
#include "tile.cuh"
#include "bulk.cuh"
#include "relay.cuh"
#include "stream.cuh"
#include "peaks.cuh"
#include "any.cuh"
#include "lanes.cuh"
#include "places.cuh"
#include "resample.cuh"
#include "quantized.cuh"
#include "recurrent.cuh"
#include "heads.cuh"
#include "regions.cuh"
#include "signal.cuh"
#include "chosen.cuh"
