// The kernels of rare layers (kernel/cuda/any.cuh and what follows it), compiled for the processor:
// the stand-in driver runs them, one thread a block, so that their results are tested without a GPU.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <string>

#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __fdividef(x, y) ((x) / (y))
#define __expf expf

static struct {
  unsigned x;
} blockIdx, threadIdx, blockDim = {1};
static void __syncthreads() {}

template <class A, class B>
static A bits_as(B from) {
  A to;
  static_assert(sizeof(to) == sizeof(from), "another size");
  memcpy(&to, &from, sizeof(to));
  return to;
}
static double __longlong_as_double(long long v) { return bits_as<double>(v); }
static long long __double_as_longlong(double v) { return bits_as<long long>(v); }
static float __uint_as_float(unsigned v) { return bits_as<float>(v); }
static unsigned __float_as_uint(float v) { return bits_as<unsigned>(v); }
static float host_half(unsigned short v) { return (float)bits_as<_Float16>(v); }
static unsigned short host_half_of(float v) { return bits_as<unsigned short>((_Float16)v); }

#include "kernel/cuda/types.cuh"
#include "kernel/cuda/functions.cuh"
#include "kernel/cuda/params.h"

template <class T>
struct add_of;
template <class C, class T>
static T over_block(T v, T) {
  return v;
}
#include "kernel/cuda/any.cuh"

struct host_kernel {
  void (*run)(const void* params, unsigned long long far);
  size_t param_bytes;
};
static std::map<std::string, host_kernel>& kernels() {
  static std::map<std::string, host_kernel> all;
  return all;
}
template <class T>
static void bring_near(T*& p, unsigned long long far) {
  if (p) p = (T*)((unsigned long long)p - far);
}

// Every item in turn, whether it has a thread or a block.
#undef ANY
#undef ANY_BLOCK
#define ANY(name, params)                                             \
  static const bool is_known_##name =                                 \
      kernels().insert({"any_" #name, {[](const void* given, unsigned long long far) { \
        params p;                                                     \
        memcpy(&p, given, sizeof(p));                                 \
        for (auto& in : p.io.in) bring_near(in, far);                 \
        for (auto& out : p.io.out) bring_near(out, far);              \
        bring_near(p.io.scratch, far);                                \
        for (i64 i = 0; i < p.io.count; i++) name(p, i);              \
      }, sizeof(params)}}).second;
#define ANY_BLOCK ANY
#include "kernel/cuda/lanes.cuh"
#include "kernel/cuda/places.cuh"
#include "kernel/cuda/resample.cuh"
#include "kernel/cuda/recurrent.cuh"

// Strided copies, and transposes as such.
template <class T>
static void run_copy(const void* given, unsigned long long far) {
  carnot_cuda_copy p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.y, far);
  i64 count = 1;
  for (int d = 0; d < p.rank; d++) count *= p.dims[d];
  for (i64 i = 0; i < count; i++) {
    i64 rest = i, from = 0, to = 0;
    for (int d = p.rank - 1; d >= 0; d--) {
      from += rest % p.dims[d] * p.src[d], to += rest % p.dims[d] * p.dst[d];
      rest /= p.dims[d];
    }
    ((T*)p.y)[to] = ((const T*)p.x)[from];
  }
}
struct wide {
  u64 parts[2];
};
#define COPIES(T, name)                                                                      \
  static const bool is_known_copy_##name =                                                   \
      kernels().insert({"copy_" #name, {run_copy<T>, sizeof(carnot_cuda_copy)}}).second &&   \
      kernels().insert({"transpose_" #name, {run_copy<T>, sizeof(carnot_cuda_copy)}}).second;
COPIES(u8, 1)
COPIES(u16, 2)
COPIES(u32, 4)
COPIES(u64, 8)
COPIES(wide, 16)

extern "C" const host_kernel* carnot_host_kernel(const char* name) {
  auto found = kernels().find(name);
  return found == kernels().end() ? nullptr : &found->second;
}
