// The own kernels, one image for all architectures. A kernel is a template over the storage type, with
// an extern "C" name for each type that rows ask for.
#include "types.cuh"
#include "functions.cuh"
#include "params.h"

#define THREAD (blockIdx.x * (i64)blockDim.x + threadIdx.x)
#define EACH_FLOAT(X) X(f32, f32) X(f16, f16) X(bf16, bf16)

template <class T> DEVICE void put(void* y, i64 i, f32 v) { ((T*)y)[i] = store_as<T>::of(v); }
template <class T> DEVICE f32 get(const void* x, i64 i) { return load(((const T*)x)[i]); }

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
#include "recurrent.cuh"
