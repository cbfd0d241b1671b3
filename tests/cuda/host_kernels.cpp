// The kernels of rare layers (kernel/cuda/any.cuh and what follows it), compiled for the processor:
// the stand-in driver runs them, one thread a block, so that their results are tested without a GPU.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __global__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)
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
static double __dmul_rn(double a, double b) { return a * b; }
static double __dadd_rn(double a, double b) { return a + b; }
static int __popc(unsigned v) { return __builtin_popcount(v); }
static float host_half(unsigned short v) { return (float)bits_as<_Float16>(v); }
static unsigned short host_half_of(float v) { return bits_as<unsigned short>((_Float16)v); }

#include "kernel/cuda/types.cuh"
#include "kernel/cuda/functions.cuh"
#include "kernel/cuda/params.h"

template <class T>
struct add_of;
template <class T>
struct max_of;
template <class T>
struct min_of;
template <class T>
struct ends {
  static T low() { return -(T)INFINITY; }
};
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
#include "kernel/cuda/quantized.cuh"
#include "kernel/cuda/recurrent.cuh"
#include "kernel/cuda/heads.cuh"
#include "kernel/cuda/regions.cuh"
#include "kernel/cuda/signal.cuh"
#include "kernel/cuda/chosen.cuh"

// ---- halves channels last ----

#undef THREAD
#define THREAD ((i64)blockIdx.x)
#include "kernel/cuda/eight.cuh"
#include "kernel/cuda/depthwise.cuh"

template <class P>
static P near_params(const void* given, unsigned long long far) {
  P p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.w, far);
  bring_near(p.bias, far);
  bring_near(p.y, far);
  return p;
}

// |SPAN| results in a row by one thread; 0: the form for any size.
template <class T, int KERNEL, int STEP, int SPAN>
static void run_depthwise(const void* given, unsigned long long far) {
  auto p = near_params<carnot_cuda_depthwise>(given, far);
  i64 threads = SPAN ? p.count / p.columns * ((p.columns + SPAN - 1) / (SPAN ? SPAN : 1)) : p.count;
  for (i64 i = 0; i < threads + 100; i++) {  // the last block is not full
    blockIdx.x = (unsigned)i;
    if constexpr (SPAN) depthwise_span<T, KERNEL, STEP, SPAN>(p);
    else depthwise<T>(p);
  }
}
#define HOST_DEPTHWISE(T, KERNEL, STEP, SPAN)                                                         \
  kernels().insert({"depthwise_" #KERNEL "_" #STEP "_" #SPAN "_" #T,                                  \
                    {run_depthwise<T, KERNEL, STEP, SPAN>, sizeof(carnot_cuda_depthwise)}});
#define HOST_DEPTHWISES(T)                                                                            \
  HOST_DEPTHWISE(T, 3, 1, 1) HOST_DEPTHWISE(T, 3, 1, 4) HOST_DEPTHWISE(T, 3, 2, 1)                    \
  HOST_DEPTHWISE(T, 3, 2, 4) HOST_DEPTHWISE(T, 5, 1, 1) HOST_DEPTHWISE(T, 5, 1, 4)                    \
  HOST_DEPTHWISE(T, 5, 2, 1) HOST_DEPTHWISE(T, 5, 2, 4)                                               \
  kernels().insert({"depthwise_" #T, {run_depthwise<T, 0, 0, 0>, sizeof(carnot_cuda_depthwise)}});

// What the parameters of a tile kernel ask for, one result after the other: it holds the host's side of
// these rows against the oracle, not the kernels.
template <class T, class END>
static void run_product(carnot_cuda_product p, unsigned long long far, END end) {
  bring_near(p.residual, far);
  const T *x = (const T*)p.x, *w = (const T*)p.w, *bias = (const T*)p.bias, *residual = (const T*)p.residual;
  for (i64 m = 0; m < p.rows; m++)
    for (int n = 0; n < p.filters; n++) {
      i64 column = m % p.out_columns, row = m / p.out_columns % p.out_rows, image = m / p.out_columns / p.out_rows;
      f64 sum = bias ? load(bias[n]) : 0;
      for (int k = 0; k < p.depth; k++) {
        int tap = k / p.channels;
        i64 y = row * p.step[0] - p.begin[0] + tap / p.kernel_columns * p.dilation[0],
            c = column * p.step[1] - p.begin[1] + tap % p.kernel_columns * p.dilation[1];
        if (y < 0 || y >= p.in_rows || c < 0 || c >= p.in_columns) continue;
        i64 at = ((image * p.in_rows + y) * p.in_columns + c) * p.pixel + k % p.channels;
        sum += (f64)load(x[at]) * load(w[(i64)n * p.depth + k]);
      }
      if (residual) sum += load(residual[m * p.filters + n]);
      ((T*)p.y)[m * p.filters + n] = store_as<T>::of(end((f32)sum));
    }
}
template <class T>
static void run_product(const carnot_cuda_product& p, unsigned long long far) {
  run_product<T>(p, far, [&](f32 v) { return activate(p.activation, p.low, p.high, v); });
}
template <class T>
static void run_tile(const void* given, unsigned long long far) {
  run_product<T>(near_params<carnot_cuda_product>(given, far), far);
}
// Operands come by their maps.
template <class T>
static void run_bulk(const void* given, unsigned long long far) {
  carnot_cuda_bulk p;
  memcpy(&p, given, sizeof(p));
  p.product.x = (const void*)p.x.bits[0], p.product.w = (const void*)p.w.bits[0];
  run_product<T>(near_params<carnot_cuda_product>(&p.product, far), far);
}
// With a form of activations of its own.
template <class T>
static void run_relay(const void* given, unsigned long long far) {
  carnot_cuda_relay p;
  memcpy(&p, given, sizeof(p));
  p.product.x = (const void*)p.x.bits[0], p.product.w = (const void*)p.w.bits[0];
  run_product<T>(near_params<carnot_cuda_product>(&p.product, far), far, [&](f32 v) {
    f32 t = fminf(v * v, 36);
    return p.gate ? v / (1 + exp2f(v * (p.c[0] + t * (p.c[1] + t * p.c[2])))) : lo(hi(v, p.product.low), p.product.high);
  });
}
#define HOST_RELAY(width)                                                                             \
  kernels().insert({"relay_" #width "_f16", {run_relay<f16>, sizeof(carnot_cuda_relay)}});            \
  kernels().insert({"relay_" #width "_bf16", {run_relay<bf16>, sizeof(carnot_cuda_relay)}});
#define HOST_BULK(height, width)                                                                      \
  kernels().insert({"bulk_" #height "x" #width "_f16", {run_bulk<f16>, sizeof(carnot_cuda_bulk)}});   \
  kernels().insert({"bulk_" #height "x" #width "_bf16", {run_bulk<bf16>, sizeof(carnot_cuda_bulk)}});
// What the parameters of squeeze and excitation and of group normalization ask for, likewise.
template <class T>
static void run_squeeze(const void* given, unsigned long long far) {
  carnot_cuda_squeeze p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.weights, far);
  bring_near(p.y, far);
  i64 channels = p.channels, images = p.images;
  const T *w1 = (const T*)p.weights, *w2 = w1 + p.hidden * channels, *b1 = w2 + p.hidden * channels, *b2 = b1 + p.hidden;
  std::vector<f64> mean(channels), inside(p.hidden);
  for (i64 n = 0; n < images; n++) {
    const T* x = (const T*)p.x + n * p.pixels * channels;
    T* y = (T*)p.y + n * p.pixels * channels;
    std::fill(mean.begin(), mean.end(), 0);
    for (i64 i = 0; i < p.pixels * channels; i++) mean[i % channels] += load(x[i]);
    for (int s = 0; s < p.hidden; s++) {
      f64 sum = load(b1[s]);
      for (i64 c = 0; c < channels; c++) sum += mean[c] / p.pixels * load(w1[s * channels + c]);
      inside[s] = activate(p.inner, p.inner_low, p.inner_high, (f32)sum);
    }
    for (i64 c = 0; c < channels; c++) {
      f64 sum = load(b2[c]);
      for (int s = 0; s < p.hidden; s++) sum += inside[s] * load(w2[c * p.hidden + s]);
      f32 gate = activate(p.outer, p.outer_low, p.outer_high, (f32)sum);
      for (i64 i = 0; i < p.pixels; i++) y[i * channels + c] = store_as<T>::of(load(x[i * channels + c]) * gate);
    }
  }
}
template <class T>
static void run_group_norm(const void* given, unsigned long long far) {
  carnot_cuda_group_norm p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.scale, far);
  bring_near(p.bias, far);
  bring_near(p.y, far);
  i64 channels = p.channels, of_group = channels / p.groups;
  for (i64 n = 0; n < p.images; n++)
    for (int g = 0; g < p.groups; g++) {
      const T* x = (const T*)p.x + n * p.pixels * channels + g * of_group;
      T* y = (T*)p.y + (x - (const T*)p.x);
      f64 sum = 0, square = 0, count = (f64)p.pixels * of_group;
      for (i64 i = 0; i < p.pixels; i++)
        for (i64 c = 0; c < of_group; c++) sum += load(x[i * channels + c]);
      for (i64 i = 0; i < p.pixels; i++)
        for (i64 c = 0; c < of_group; c++) square += pow(load(x[i * channels + c]) - sum / count, 2);
      for (i64 i = 0; i < p.pixels; i++)
        for (i64 c = 0; c < of_group; c++) {
          f64 v = (load(x[i * channels + c]) - sum / count) / sqrt(square / count + p.eps);
          if (p.scale) v *= load(((const T*)p.scale)[g * of_group + c]);
          if (p.bias) v += load(((const T*)p.bias)[g * of_group + c]);
          y[i * channels + c] = store_as<T>::of(activate(p.activation, 0, INFINITY, (f32)v));
        }
    }
}
#define HOST_CHANNELS(T)                                                                              \
  kernels().insert({"squeeze_" #T, {run_squeeze<T>, sizeof(carnot_cuda_squeeze)}});                   \
  kernels().insert({"group_norm_2_" #T, {run_group_norm<T>, sizeof(carnot_cuda_group_norm)}});        \
  kernels().insert({"group_norm_8_" #T, {run_group_norm<T>, sizeof(carnot_cuda_group_norm)}});

// The packed weight of filter |f| (stream.cuh).
template <class T>
static f64 chunk_weight(const void* w, int steps, int f, int step, int t, int k) {
  int in = f % 32, g = in / 8 * 2 + in % 2, j = in % 8 / 2;
  return load(((const T*)w)[((((f / 32 * steps + step) * 2 + j / 2) * 32 + g * 4 + t) * 2 + j % 2) * 4 + k]);
}
template <class T, class X, int QUADS>
static void run_first(const void* given, unsigned long long far) {
  auto p = near_params<carnot_cuda_first>(given, far);
  i64 images = p.tiles / p.tiles_down / p.tiles_across, at = 0;
  for (i64 i = 0; i < images * p.out_rows * p.out_columns; i++)
    for (int f = 0; f < p.filters; f++) {
      i64 column = i % p.out_columns, row = i / p.out_columns % p.out_rows, image = i / p.out_columns / p.out_rows;
      f64 sum = p.bias ? load(((const T*)p.bias)[f]) : 0;
      for (int r = 0; r < p.kernel[0]; r++)
        for (int s = 0; s < p.kernel[1]; s++)
          for (int c = 0; c < p.channels; c++) {
            i64 y = row * p.step[0] - p.begin[0] + r, x = column * p.step[1] - p.begin[1] + s;
            if (y < 0 || y >= p.in_rows || x < 0 || x >= p.in_columns) continue;
            f32 v = load(((const X*)p.x)[image * p.x_n + c * p.x_c + y * p.x_row + x * p.x_column]);
            sum += load(store_as<T>::of(v)) *
                   chunk_weight<T>(p.w, p.kernel[0] * QUADS, f, r * QUADS + s / 4, s % 4, c);
          }
      ((T*)p.y)[at++] = store_as<T>::of(activate(p.activation, p.low, p.high, (f32)sum));
    }
}
template <class T, int BLOCKS>
static void run_thin(const void* given, unsigned long long far) {
  auto p = near_params<carnot_cuda_thin>(given, far);
  bring_near(p.residual, far);
  for (i64 m = 0; m < p.rows; m++)
    for (int n = 0; n < p.filters; n++) {
      f64 sum = p.bias ? load(((const T*)p.bias)[n]) : 0;
      for (int k = 0; k < p.channels; k++)
        sum += load(((const T*)p.x)[m * p.channels + k]) *
               chunk_weight<T>(p.w, 2 * BLOCKS, n, k / 32 * 2 + k % 8 / 4, k % 32 / 8, k % 4);
      if (p.residual) sum += load(((const T*)p.residual)[m * p.filters + n]);
      ((T*)p.y)[m * p.filters + n] = store_as<T>::of(activate(p.activation, p.low, p.high, (f32)sum));
    }
}
#define HOST_FIRST(T, X, CHUNKS, QUADS)                                                               \
  kernels().insert({"first_" #CHUNKS "_" #QUADS "_" #X "_" #T,                                        \
                    {run_first<T, X, QUADS>, sizeof(carnot_cuda_first)}});
#define HOST_FIRSTS(T, X) \
  HOST_FIRST(T, X, 1, 1) HOST_FIRST(T, X, 1, 2) HOST_FIRST(T, X, 2, 1) HOST_FIRST(T, X, 2, 2)
#define HOST_THIN(BLOCKS, RESIDENT)                                                                   \
  kernels().insert({"thin_" #BLOCKS "_f16", {run_thin<f16, BLOCKS>, sizeof(carnot_cuda_thin)}});      \
  kernels().insert({"thin_" #BLOCKS "_bf16", {run_thin<bf16, BLOCKS>, sizeof(carnot_cuda_thin)}});
#define HOST_TILE(height, width, stages)                                                              \
  kernels().insert({"tile_" #height "x" #width "_f16", {run_tile<f16>, sizeof(carnot_cuda_product)}});    \
  kernels().insert({"tile_" #height "x" #width "_bf16", {run_tile<bf16>, sizeof(carnot_cuda_product)}});
static const bool are_known = [] {
  HOST_DEPTHWISES(f16)
  HOST_DEPTHWISES(bf16)
  HOST_CHANNELS(f16)
  HOST_CHANNELS(bf16)
  CARNOT_CUDA_TILES(HOST_TILE)
  CARNOT_CUDA_BULKS(HOST_BULK)
  CARNOT_CUDA_RELAYS(HOST_RELAY)
  HOST_FIRSTS(f16, f32) HOST_FIRSTS(f16, f16) HOST_FIRSTS(bf16, f32) HOST_FIRSTS(bf16, bf16)
  CARNOT_CUDA_THINS(HOST_THIN)
  return true;
}();

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
