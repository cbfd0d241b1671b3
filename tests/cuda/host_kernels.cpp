// Generic kernels and a few others compiled for the host: the stand-in driver runs them with one
// thread per block, so that their results are tested without a GPU. Of the tensor core kernels
// there is the formula of their parameters instead: it tests the host code that sets them, not the
// kernels.
#ifdef __F16C__
#include <immintrin.h>
#endif
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#define __device__
#define __forceinline__ inline
#define __shared__      static
#define __global__
#define __launch_bounds__(...)
#define __align__(n)     alignas(n)
#define __fdividef(x, y) ((x) / (y))
#define __expf           expf

static struct { unsigned x, y, z; } blockIdx, threadIdx, blockDim = {1, 1, 1}, gridDim = {1, 1, 1};
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
static float __int_as_float(int v) { return bits_as<float>(v); }
static int __float_as_int(float v) { return bits_as<int>(v); }
static float __uint_as_float(unsigned v) { return bits_as<float>(v); }
static unsigned __float_as_uint(float v) { return bits_as<unsigned>(v); }
static double __dmul_rn(double a, double b) { return a * b; }
static double __dadd_rn(double a, double b) { return a + b; }
static float __fmul_rn(float a, float b) { return a * b; }
static float __fadd_rn(float a, float b) { return a + b; }
static float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static float __fsub_rn(float a, float b) { return a - b; }
static float __fdiv_rn(float a, float b) { return a / b; }
static int __float2int_rn(float v) {
  if (v != v) return 0;
  return v >= 0x1p31f ? 0x7fffffff : v < -0x1p31f ? (int)0x80000000 : (int)rintf(v);
}
// Bytes of x (0 to 3) and y (4 to 7) by the digits of |order|.
static unsigned __byte_perm(unsigned x, unsigned y, unsigned order) {
  unsigned long long both = (unsigned long long)y << 32 | x;
  unsigned to = 0;
  for (int i = 0; i < 4; i++) to |= (unsigned)(both >> (order >> i * 4 & 7) * 8 & 255) << i * 8;
  return to;
}
static int __popc(unsigned v) { return __builtin_popcount(v); }
#ifdef __F16C__  // the compiler calls a function to widen _Float16 to double
static float host_half(unsigned short v) { return _cvtsh_ss(v); }
static unsigned short host_half_of(float v) { return _cvtss_sh(v, _MM_FROUND_TO_NEAREST_INT); }
#else
static float host_half(unsigned short v) { return (float)bits_as<_Float16>(v); }
static unsigned short host_half_of(float v) { return bits_as<unsigned short>((_Float16)v); }
#endif

#include "kernel/cuda/attention/attention_cached_params.h"
#include "kernel/cuda/attention/attention_int8_params.h"
#include "kernel/cuda/attention/attention_mixed_params.h"
#include "kernel/cuda/attention/attention_operands.cuh"
#include "kernel/cuda/attention/attention_tma_params.h"
#include "kernel/cuda/common/fp8.cuh"
#include "kernel/cuda/common/sliding_window.h"
#include "kernel/cuda/conv/conv_small_channels_params.h"
#include "kernel/cuda/conv/depthwise.cuh"
#include "kernel/cuda/conv/depthwise_int8.cuh"
#include "kernel/cuda/conv/depthwise_tile.cuh"
#include "kernel/cuda/copy/copy_params.h"
#include "kernel/cuda/copy/strided_copy.cuh"
#include "kernel/cuda/gemm/gemm_int8_params.h"
#include "kernel/cuda/gemm/gemm_weight_only_params.h"
#include "kernel/cuda/gemm/pad_channels.cuh"
#include "kernel/cuda/norm/group_norm_params.h"
#include "kernel/cuda/norm/norm_params.h"
#include "kernel/cuda/quantize/table_bytes_params.h"
#include "kernel/cuda/recurrent/linear_scan.cuh"
#include "kernel/cuda/recurrent/recurrent_cluster_params.h"
#include "kernel/cuda/reduce/mean_bytes_params.h"
#include "kernel/cuda/squeeze_excite/squeeze_excite_params.h"

// All kernels over common/generic.cuh (src/CMakeLists.txt).
#include "generic_kernels/all.inc"

#include "backend/cuda/driver/kernels.h"

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
#define GENERIC_THREADS(name, params)                                  \
  static const bool is_known_##name =                                  \
      kernels()                                                        \
          .insert({"generic_" #name,                                   \
                   {[](const void* given, unsigned long long far) {    \
                      params p;                                        \
                      memcpy(&p, given, sizeof(p));                    \
                      for (auto& in : p.io.in) bring_near(in, far);    \
                      for (auto& out : p.io.out) bring_near(out, far); \
                      bring_near(p.io.scratch, far);                   \
                      for (i64 i = 0; i < p.io.count; i++) name(p, i); \
                    },                                                 \
                    sizeof(params)}})                                  \
          .second;
#define GENERIC_BLOCKS GENERIC_THREADS
#define KERNEL(...)
#define KERNEL_SELF_WAITING(...)
#define KERNEL_GRID_CONSTANT(...)
#include "kernel/cuda/kernels.def"

// A kernel by the name of the list: one that is not there does not compile.
#define HOST_KERNEL(name, run, params) \
  (void)CARNOT_CUDA_KERNEL_##name;     \
  kernels().insert({#name, {run, sizeof(params)}});

// ---- 16-bit floats, NHWC ----

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
  auto p = near_params<carnot_cuda_depthwise_params>(given, far);
  i64 threads = SPAN ? p.count / p.columns * ((p.columns + SPAN - 1) / (SPAN ? SPAN : 1)) : p.count;
  for (i64 i = 0; i < threads + 100; i++) {  // the last block is not full
    blockIdx.x = (unsigned)i;
    if constexpr (SPAN)
      depthwise_span<T, KERNEL, STEP, SPAN>(p);
    else
      depthwise<T>(p);
  }
}
template <class T>
static void run_depthwise_pairs(const void* given, unsigned long long far) {
  auto p = near_params<carnot_cuda_depthwise_params>(given, far);
  for (i64 i = 0; i < p.count * 4 + 100; i++) {  // a result or more a thread
    blockIdx.x = (unsigned)i;
    depthwise_pairs<T>(p);
  }
}
#define HOST_DEPTHWISE(T, KERNEL, STEP, SPAN)                                                     \
  HOST_KERNEL(depthwise_##KERNEL##_##STEP##_##SPAN##_##T, (run_depthwise<T, KERNEL, STEP, SPAN>), \
              carnot_cuda_depthwise_params)
#define HOST_DEPTHWISE_TYPES(KERNEL, STEP, SPAN) \
  HOST_DEPTHWISE(f16, KERNEL, STEP, SPAN) HOST_DEPTHWISE(bf16, KERNEL, STEP, SPAN)

// By blocks: each step of the kernel by all threads in turn.
template <class T, int COLUMNS, int STEP>
static void run_depthwise_tile(const void* given, unsigned long long far) {
  typedef depthwise_tile<T, COLUMNS, STEP> tile;
  auto p = near_params<carnot_cuda_depthwise_params>(given, far);
  tile block{p};
  const unsigned threads = 32 * (unsigned)(p.tile_rows * p.spans);
  const int wide = p.spans * tile::SPAN,
            tiles = (p.columns + wide - 1) / wide * ((p.rows + p.tile_rows - 1) / p.tile_rows);
  auto each = [&](auto step) {
    for (unsigned t = 0; t < threads; t++) threadIdx.x = t, step();
  };
  blockDim.x = threads;
  for (i64 b = 0; b < (i64)tiles * ((p.channels + 63) / 64) * p.images; b++) {
    blockIdx = {(unsigned)(b % tiles), (unsigned)(b / tiles % ((p.channels + 63) / 64)),
                (unsigned)(b / tiles / ((p.channels + 63) / 64))};
    block.place(nullptr);
    std::vector<half8> shared((size_t)(p.kernel[0] * COLUMNS + block.lines * block.width) * 8);
    block.place((char*)shared.data());
    each([&] { block.stage_weights(); });
    each([&] { block.stage_pixels(); });
    each([&] { block.compute(); });
  }
  blockIdx = threadIdx = {0, 0, 0}, blockDim.x = 1;
}
#define HOST_DEPTHWISE_TILE(T, COLUMNS, STEP)                                                  \
  HOST_KERNEL(depthwise_tile_##COLUMNS##_##STEP##_##T, (run_depthwise_tile<T, COLUMNS, STEP>), \
              carnot_cuda_depthwise_params)
#define HOST_DEPTHWISE_TILE_TYPES(COLUMNS, STEP) \
  HOST_DEPTHWISE_TILE(f16, COLUMNS, STEP) HOST_DEPTHWISE_TILE(bf16, COLUMNS, STEP)

struct fp8 {
  u8 bits;
};
static f32 load(fp8 x) { return load_e4m3(x.bits); }

// Attention by the definition. mix(m, s): what happens to the scores of all heads of a query before
// the softmax (0) and behind it (1). Values of OPERAND are multiplied with |value_scale|.
template <class T, class OPERAND = T, class MIX>
static void attend(carnot_cuda_attention_params c, unsigned long long far, MIX mix,
                   f32 value_scale = 1) {
  bring_near(c.q, far);
  bring_near(c.k, far);
  bring_near(c.v, far);
  bring_near(c.y, far);
  bring_near(c.mask, far);
  const size_t heads = (size_t)c.inner, keys = (size_t)c.keys;
  std::vector<f64> s(heads * keys);
  for (i64 b = 0; b < c.outer; b++)
    for (i64 n = 0; n < c.queries; n++) {
      for (size_t i = 0; i < heads * keys; i++) {
        const i64 h = (i64)(i / keys), k = (i64)(i % keys);
        const OPERAND *q = (const OPERAND*)c.q + b * c.q_s[0] + h * c.q_s[1] + n * c.q_s[2],
                      *key = (const OPERAND*)c.k + b * c.k_s[0] + h * c.k_s[1] + k * c.k_s[2];
        s[i] = 0;
        for (int e = 0; e < c.size; e++) s[i] += (f64)load(q[e]) * load(key[e]) * c.scale;
        s[i] += mask_at<T>(c, c.mask, b * c.mask_s[0] + h * c.mask_s[1] + n * c.mask_s[2], (int)k);
      }
      mix(0, s);
      for (size_t h = 0; h < heads; h++) {
        const f64 most = *std::max_element(&s[h * keys], &s[h * keys] + keys);
        f64 sum = 0;
        const f64 from = most == -INFINITY ? 0 : most;
        for (size_t k = 0; k < keys; k++) sum += s[h * keys + k] = exp(s[h * keys + k] - from);
        for (size_t k = 0; k < keys; k++) s[h * keys + k] *= c.zero_empty && !sum ? 0 : 1 / sum;
      }
      mix(1, s);
      for (i64 i = 0; i < c.inner * c.value_size; i++) {
        const i64 h = i / c.value_size, e = i % c.value_size,
                  to = b * c.y_s[0] + h * c.y_s[1] + n * c.y_s[2] + e;
        f64 sum = 0;
        for (i64 k = 0; k < c.keys; k++)
          sum += s[(size_t)h * keys + (size_t)k] *
                 load(((const OPERAND*)c.v)[b * c.v_s[0] + h * c.v_s[1] + k * c.v_s[2] + e]);
        sum *= value_scale;
        const f32 four[4] = {(f32)sum};
        if (c.result.type)
          ((u8*)c.y)[to] = (u8)quantize_four<T>(c.result, 1 / c.result.scale, four);
        else
          ((T*)c.y)[to] = store_as<T>::of((f32)sum);
      }
    }
}
template <class T>
static void run_attention(const void* given, unsigned long long far) {
  attend<T>(*(const carnot_cuda_attention_params*)given, far, [](int, std::vector<f64>&) {});
}
// The formula reads the mask itself.
static void run_mask_kinds(const void*, unsigned long long) {}
template <class T>
static void run_attention_tma(const void* given, unsigned long long far) {
  const auto* p = (const carnot_cuda_attention_tma_params*)given;
  attend<T>(p->attention, far, [](int, std::vector<f64>&) {});
}
template <class T>
static void run_attention_fp8(const void* given, unsigned long long far) {
  const auto* p = (const carnot_cuda_attention_tma_params*)given;
  attend<T, fp8>(
      p->attention, far, [](int, std::vector<f64>&) {}, p->value_scale);
}
template <class T>
static void run_attention_mixed(const void* given, unsigned long long far) {
  carnot_cuda_attention_mixed_params p;
  memcpy(&p, given, sizeof(p));
  for (int m = 0; m < 2; m++) bring_near(p.weights[m], far), bring_near(p.bias[m], far);
  const size_t heads = (size_t)p.call.inner, keys = (size_t)p.call.keys;
  attend<T>(p.call, far, [&](int m, std::vector<f64>& s) {
    if (!p.weights[m]) return;
    std::vector<f64> mixed(heads * keys);
    for (size_t g = 0; g < heads; g++)
      for (size_t k = 0; k < keys; k++) {
        f64 sum = p.bias[m] ? load(((const T*)p.bias[m])[g]) : 0;
        for (size_t h = 0; h < heads; h++)
          sum += s[h * keys + k] * load(((const T*)p.weights[m])[h * heads + g]);
        mixed[g * keys + k] = sum;
      }
    s = mixed;
  });
}
// Attention between 8-bit integers, by the rule of its parameters.
static i32 centered(const carnot_cuda_int8_operand& o, const void* data, i64 at) {
  return (i8)(((const u8*)data)[at] ^ (u8)o.flip) - o.zero;
}
static f32 rounded_score(const carnot_cuda_score_rounding& r, f32 x) {
  return r.scale == 0 ? x : rintf(fminf(fmaxf(x, r.low), r.high)) * r.scale;
}
static void run_attention_int8(const void* given, unsigned long long far) {
  carnot_cuda_attention_int8_params p;
  memcpy(&p, given, sizeof(p));
  carnot_cuda_attention_params& h = p.heads;
  bring_near(h.q, far), bring_near(h.k, far), bring_near(h.v, far);
  bring_near(h.y, far), bring_near(h.mask, far);
  std::vector<f32> s((size_t)h.keys);
  for (i64 i = 0; i < (i64)h.outer * h.inner * h.queries; i++) {
    const i64 n = i % h.queries, inner = i / h.queries % h.inner, outer = i / h.queries / h.inner;
    auto row = [&](const long long* apart, i64 at) {
      return outer * apart[0] + inner * apart[1] + at * apart[2];
    };
    for (int k = 0; k < h.keys; k++) {
      i32 sum = 0;
      for (int e = 0; e < h.size; e++)
        sum += centered(p.q, h.q, row(h.q_s, n) + e) * centered(p.k, h.k, row(h.k_s, k) + e);
      f32 x = (f32)sum * p.score_scale;
      x = rounded_score(p.scores, x);
      x = p.divides ? x / p.factor : x * p.factor;
      if (p.scaled.scale) x = rounded_score(p.scaled, x / p.scaled.scale);
      x += mask_at<f32>(h, h.mask, row(h.mask_s, n), k);
      if (p.masked.scale) x = rounded_score(p.masked, x / p.masked.scale);
      s[(size_t)k] = x;
    }
    const f32 most = *std::max_element(s.begin(), s.end());
    f64 total = 0;
    for (f32 x : s) total += exp((f64)x - most);
    for (f32& x : s)
      x = rintf(
          fminf(fmaxf((f32)(exp((f64)x - most) / total) * p.weight_factor, 0), p.weight_high));
    for (int e = 0; e < h.value_size; e++) {
      i32 sum = 0;
      for (int k = 0; k < h.keys; k++)
        sum += (i32)s[(size_t)k] * centered(p.v, h.v, row(h.v_s, k) + e);
      const f32 y = (f32)sum * p.out_scale;
      const i64 to = row(h.y_s, n) + e;
      if (p.is_quantized)
        ((u8*)h.y)[to] = (u8)lo(hi(__float2int_rn(y) + p.out_zero, p.out_low), p.out_high);
      else
        ((f32*)h.y)[to] = y;
    }
  }
}
template <class T>
static void run_mix_heads(const void* given, unsigned long long far) {
  auto p = near_params<carnot_cuda_mix_heads_params>(given, far);
  for (i64 i = 0; i < p.count; i++)
    for (int g = 0; g < p.results; g++) {
      const i64 batch = i / p.inner, at = i % p.inner;
      f64 sum = p.bias ? load(((const T*)p.bias)[g]) : 0;
      for (int h = 0; h < p.heads; h++)
        sum += (f64)load(((const T*)p.x)[(batch * p.heads + h) * p.inner + at]) *
               load(((const T*)p.w)[h * p.results + g]);
      ((T*)p.y)[(batch * p.results + g) * p.inner + at] = store_as<T>::of((f32)sum);
    }
}
template <class T>
static void run_cross_covariance(const void* given, unsigned long long far) {
  carnot_cuda_cross_covariance_params p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.temperature, far);
  bring_near(p.y, far);
  const i64 width = (i64)p.heads * p.size;
  for (i64 b = 0; b < p.batch; b++)
    for (i64 h = 0; h < p.heads; h++) {
      auto at = [&](i64 n, i64 part, i64 e) {
        return (f64)load(
            ((const T*)p.x)[((b * p.positions + n) * 3 + part) * width + h * p.size + e]);
      };
      auto length = [&](i64 part, i64 e) {
        f64 sum = 0;
        for (i64 n = 0; n < p.positions; n++) sum += at(n, part, e) * at(n, part, e);
        return std::max(sqrt(sum), (f64)p.epsilon);
      };
      for (i64 d = 0; d < p.size; d++) {
        std::vector<f64> weights((size_t)p.size);
        f64 total = 0;
        for (i64 e = 0; e < p.size; e++) {
          f64 sum = 0;
          for (i64 n = 0; n < p.positions; n++) sum += at(n, 0, d) * at(n, 1, e);
          sum *= load(((const T*)p.temperature)[h]) / length(0, d) / length(1, e);
          total += weights[(size_t)e] = exp(sum);
        }
        for (i64 n = 0; n < p.positions; n++) {
          f64 sum = 0;
          for (i64 e = 0; e < p.size; e++) sum += weights[(size_t)e] / total * at(n, 2, e);
          ((T*)p.y)[(b * p.positions + n) * width + h * p.size + d] = store_as<T>::of((f32)sum);
        }
      }
    }
}
template <class T>
static void run_linear_scan(const void* given, unsigned long long far) {
  carnot_cuda_linear_scan_params p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.a, far);
  bring_near(p.b, far);
  bring_near(p.initial, far);
  bring_near(p.y, far);
  for (i64 i = 0; i < p.lanes + 100; i++) blockIdx.x = (unsigned)i, linear_scan<T>(p);
  blockIdx.x = 0;
}
template <class T>
static void run_rotary_pairs(const void* given, unsigned long long far) {
  auto p = *(const carnot_cuda_rotary_params*)given;
  bring_near(p.x, far), bring_near(p.cosines, far), bring_near(p.sines, far);
  bring_near(p.y, far);
  for (i64 i = 0; i < p.count + 100; i++) blockIdx.x = (unsigned)i, rotary_pairs<T>(p);
  blockIdx.x = 0;
}
#define HOST_LINEAR_SCAN(T, DTYPE, unused) \
  HOST_KERNEL(linear_scan_##T, run_linear_scan<T>, carnot_cuda_linear_scan_params)
#define HOST_CROSS(SIZE)                                                  \
  HOST_KERNEL(cross_covariance_##SIZE##_f16, run_cross_covariance<f16>,   \
              carnot_cuda_cross_covariance_params)                        \
  HOST_KERNEL(cross_covariance_##SIZE##_bf16, run_cross_covariance<bf16>, \
              carnot_cuda_cross_covariance_params)
#define HOST_MIX_HEADS(T, DTYPE, unused) \
  HOST_KERNEL(mix_heads_##T, run_mix_heads<T>, carnot_cuda_mix_heads_params)
#define HOST_ATTENTION(T, DTYPE, form)                                                \
  HOST_KERNEL(attention_##form##_##T, run_attention<T>, carnot_cuda_attention_params) \
  HOST_KERNEL(attention_##form##_bytes_##T, run_attention<T>, carnot_cuda_attention_params)
#define HOST_ATTENTION_INT8(SIZE, ALIGNED)                           \
  HOST_KERNEL(attention_int8_##SIZE##_##ALIGNED, run_attention_int8, \
              carnot_cuda_attention_int8_params)
#define HOST_ATTENTION_INT8_SPLIT(SIZE, TILES)                           \
  HOST_KERNEL(attention_int8_split_##SIZE##_##TILES, run_attention_int8, \
              carnot_cuda_attention_int8_params)
#define HOST_MASK_KINDS(T, DTYPE, unused) \
  HOST_KERNEL(attention_mask_kinds_##T, run_mask_kinds, carnot_cuda_attention_params)
#define HOST_ATTENTION_FORM(NAME, RUN, ROWS, SIZE, T)                                             \
  HOST_KERNEL(attention_##NAME##_##ROWS##_##SIZE##_##T, RUN<T>, carnot_cuda_attention_tma_params) \
  HOST_KERNEL(attention_##NAME##_##ROWS##_##SIZE##_bytes_##T, RUN<T>,                             \
              carnot_cuda_attention_tma_params)
#define HOST_ATTENTION_TMA(ROWS, SIZE)                             \
  HOST_ATTENTION_FORM(tma, run_attention_tma, ROWS, SIZE, f16)     \
  HOST_ATTENTION_FORM(tma, run_attention_tma, ROWS, SIZE, bf16)    \
  HOST_ATTENTION_FORM(fp8_tma, run_attention_fp8, ROWS, SIZE, f16) \
  HOST_ATTENTION_FORM(fp8_tma, run_attention_fp8, ROWS, SIZE, bf16)
#define HOST_MIXED(QUERIES)                                                \
  HOST_KERNEL(attention_mixed_##QUERIES##_f16, run_attention_mixed<f16>,   \
              carnot_cuda_attention_mixed_params)                          \
  HOST_KERNEL(attention_mixed_##QUERIES##_bf16, run_attention_mixed<bf16>, \
              carnot_cuda_attention_mixed_params)

// The GEMM that the parameters of a tensor core kernel describe.
template <class T, class END>
static void run_implicit_gemm(carnot_cuda_gemm_tile_params p, unsigned long long far, END end) {
  bring_near(p.residual, far);
  const T *x = (const T*)p.x, *w = (const T*)p.w, *bias = (const T*)p.bias,
          *residual = (const T*)p.residual;
  for (i64 m = 0; m < p.rows; m++)
    for (int n = 0; n < p.filters; n++) {
      i64 column = m % p.out_columns, row = m / p.out_columns % p.out_rows,
          image = m / p.out_columns / p.out_rows,
          first = p.group_filters ? n / p.group_filters * p.channels : 0;
      f64 sum = bias ? load(bias[n]) : 0;
      for (int k = 0; k < p.depth; k++) {
        int tap = k / p.channels;
        i64 y = row * p.step[0] - p.begin[0] + tap / p.kernel_columns * p.dilation[0],
            c = column * p.step[1] - p.begin[1] + tap % p.kernel_columns * p.dilation[1];
        if (y < 0 || y >= p.in_rows || c < 0 || c >= p.in_columns) continue;
        i64 at = ((image * p.in_rows + y) * p.in_columns + c) * p.pixel + first + k % p.channels;
        sum += (f64)load(x[at]) * load(w[(i64)n * p.depth + k]);
      }
      if (residual) sum += load(residual[m * p.filters + n]);
      ((T*)p.y)[m * p.pitch + n] = store_as<T>::of(end((f32)sum));
    }
}
template <class T>
static void run_implicit_gemm(const carnot_cuda_gemm_tile_params& p, unsigned long long far) {
  run_implicit_gemm<T>(p, far, [&](f32 v) { return activate(p.activation, p.low, p.high, v); });
}
template <class T>
static void run_gemm_multistage(const void* given, unsigned long long far) {
  run_implicit_gemm<T>(near_params<carnot_cuda_gemm_tile_params>(given, far), far);
}
// Operands are addressed by tensor maps.
template <class T>
static void run_gemm_tma(const void* given, unsigned long long far) {
  carnot_cuda_gemm_tma_params p;
  memcpy(&p, given, sizeof(p));
  p.gemm.x = (const void*)p.x.bits[0], p.gemm.w = (const void*)p.w.bits[0];
  run_implicit_gemm<T>(near_params<carnot_cuda_gemm_tile_params>(&p.gemm, far), far);
}
// With the kernel's form of gated activations.
template <class T>
static void run_gemm_tma_pingpong(const void* given, unsigned long long far) {
  carnot_cuda_gemm_pingpong_params p;
  memcpy(&p, given, sizeof(p));
  p.gemm.x = (const void*)p.x.bits[0], p.gemm.w = (const void*)p.w.bits[0];
  run_implicit_gemm<T>(near_params<carnot_cuda_gemm_tile_params>(&p.gemm, far), far, [&](f32 v) {
    f32 t = fminf(v * v, 36);
    return p.gate ? v / (1 + exp2f(v * (p.c[0] + t * (p.c[1] + t * p.c[2]))))
                  : lo(hi(v, p.gemm.low), p.gemm.high);
  });
}
#define HOST_PINGPONG(width)                                                     \
  HOST_KERNEL(gemm_tma_pingpong_128x##width##_f16, run_gemm_tma_pingpong<f16>,   \
              carnot_cuda_gemm_pingpong_params)                                  \
  HOST_KERNEL(gemm_tma_pingpong_128x##width##_bf16, run_gemm_tma_pingpong<bf16>, \
              carnot_cuda_gemm_pingpong_params)
#define HOST_TMA(height, width)                                                                  \
  HOST_KERNEL(gemm_tma_##height##x##width##_f16, run_gemm_tma<f16>, carnot_cuda_gemm_tma_params) \
  HOST_KERNEL(gemm_tma_##height##x##width##_bf16, run_gemm_tma<bf16>, carnot_cuda_gemm_tma_params)
// The kernels over caches compute what the generic one does, and leave nothing to merge.
static void run_attention_cached(const void* given, unsigned long long far) {
  auto p = ((const carnot_cuda_attention_cached_params*)given)->attention;
  std::vector<f64> scores((size_t)(p.io.count * p.keys));
  p.io.scratch = scores.data();
  for (auto& in : p.io.in) bring_near(in, far);
  for (auto& out : p.io.out) bring_near(out, far);
  for (i64 item = 0; item < p.io.count; item++) attention(p, item);
}
static void run_attention_cached_merge(const void*, unsigned long long) {}
#define HOST_CACHED_TILE(ROWS, T)                                  \
  HOST_KERNEL(attention_cached_##ROWS##_##T, run_attention_cached, \
              carnot_cuda_attention_cached_params)
#define HOST_ATTENTION_CACHED(T, DTYPE, unused)                       \
  CARNOT_CUDA_ATTENTION_CACHED_ROWS(HOST_CACHED_TILE, T)              \
  HOST_KERNEL(attention_cached_merge_##T, run_attention_cached_merge, \
              carnot_cuda_attention_cached_params)

// ---- packed integer weights with scales ----

// Word, byte and nibble of weight (n, k) by gemm_weight_only_params.h, and its scale.
template <class T, int BITS>
static void run_gemm_weight_only(const void* given, unsigned long long far) {
  auto p = near_params<carnot_cuda_weight_only_params>(given, far);
  bring_near(p.scales, far);
  bring_near(p.zeros, far);
  bring_near(p.residual, far);
  const T *x = (const T*)p.x, *residual = (const T*)p.residual;
  const int depth = BITS == 4 ? 64 : 32;
  std::vector<f64> w((size_t)p.depth);
  for (i64 n = 0; n < p.columns; n++) {
    for (int k = 0; k < p.depth; k++) {
      const u8* lane =
          (const u8*)p.w + (n / 16 * p.tiles + k / depth) * 512 + (n % 8 * 4 + k % 16 / 4) * 16;
      int step = k % depth / 16, upper = n / 8 % 2, nibble = k % 2 * 4 + k / 2 % 2 * 2 + upper;
      int q = BITS == 4 ? lane[step * 4 + nibble / 2] >> nibble % 2 * 4 & 15
                        : lane[step * 8 + upper * 4 + k % 4];
      i64 at = (n / 16 * p.blocks + (k / 16 >> p.shift)) * 8 + n % 8;
      int zero = p.zeros ? p.zeros[at] >> upper * 16 & 0xffff : p.zero & 0xffff;
      typedef std::conditional_t<std::is_same_v<T, bf16>, bf16, f16> half;
      f32 scale = p.has_half_scales ? load(((const half*)p.scales)[at * 2 + upper])
                                    : ((const f32*)p.scales)[at * 2 + upper];
      w[(size_t)k] = (f64)(q - zero) * scale;
    }
    for (i64 m = 0; m < p.rows; m++) {
      f64 sum = p.bias ? p.bias[n] : 0;
      for (int k = 0; k < p.depth; k++) sum += w[(size_t)k] * load(x[m * p.depth + k]);
      if (residual) sum += load(residual[m * p.columns + n]);
      ((T*)p.y)[m * p.columns + n] =
          store_as<T>::of(activate(p.activation, p.low, p.high, (f32)sum));
    }
  }
}
#define HOST_WEIGHT_ONLY(bits, groups, height, width, T, form)                     \
  HOST_KERNEL(gemm_weight_only_##form##bits##_##groups##_##height##x##width##_##T, \
              (run_gemm_weight_only<T, bits>), carnot_cuda_weight_only_params)
#define HOST_WEIGHT_ONLY_TYPES(bits, groups, height, width, slices) \
  HOST_WEIGHT_ONLY(bits, groups, height, width, f32, )              \
  HOST_WEIGHT_ONLY(bits, groups, height, width, f16, )              \
  HOST_WEIGHT_ONLY(bits, groups, height, width, bf16, )
#define HOST_WEIGHT_ONLY_DIRECT_TYPES(bits, span, height, width, slices) \
  HOST_WEIGHT_ONLY(bits, span, height, width, f16, direct_)              \
  HOST_WEIGHT_ONLY(bits, span, height, width, bf16, direct_)
#define HOST_WEIGHT_ONLY_DIRECT_FORMS(height, width, slices) \
  CARNOT_CUDA_WEIGHT_ONLY_DIRECT_FORMS(HOST_WEIGHT_ONLY_DIRECT_TYPES, height, width, slices)
#define HOST_WEIGHT_ONLY_STREAM(bits, span)                                                       \
  HOST_KERNEL(gemm_weight_only_stream_##bits##_##span##_f16, (run_gemm_weight_only<f16, bits>),   \
              carnot_cuda_weight_only_params)                                                     \
  HOST_KERNEL(gemm_weight_only_stream_##bits##_##span##_bf16, (run_gemm_weight_only<bf16, bits>), \
              carnot_cuda_weight_only_params)
#define HOST_WEIGHT_ONLY_FORMS(height, width, slices) \
  CARNOT_CUDA_WEIGHT_ONLY_FORMS(HOST_WEIGHT_ONLY_TYPES, height, width, slices)

// ---- FP8 ----

struct e4m3 {
  u8 bits;
};
static f32 load(e4m3 x) { return load_e4m3(x.bits); }
static void store(void* y, i64 at, f32 v, e4m3*) { ((u8*)y)[at] = store_e4m3(v); }
template <class Y>
static void store(void* y, i64 at, f32 v, Y*) {
  ((Y*)y)[at] = store_as<Y>::of(v);
}
// H: type of the residual; Y: of the result.
template <class H, class Y, class P>
static void run_gemm_fp8(const void* given, unsigned long long far) {
  P all;
  memcpy(&all, given, sizeof(all));
  carnot_cuda_gemm_tile_params p = all.gemm;
  p.x = (const void*)all.x.bits[0], p.w = (const void*)all.w.bits[0];
  p = near_params<carnot_cuda_gemm_tile_params>(&p, far);
  bring_near(p.residual, far);
  bring_near(p.scale, far);
  const e4m3 *x = (const e4m3*)p.x, *w = (const e4m3*)p.w;
  for (i64 m = 0; m < p.rows; m++)
    for (i64 n = 0; n < p.filters; n++) {
      f64 sum = 0;
      for (i64 k = 0; k < p.depth; k++)
        sum += (f64)load(x[m * p.pixel + k]) * (f64)load(w[n * p.depth + k]);
      f32 v = fmaf((f32)sum, p.scale[n], ((const f32*)p.bias)[n]);
      if (p.residual) v += load(((const H*)p.residual)[m * p.filters + n]);
      v = activate(p.activation, p.low, p.high, v);
      store(p.y, m * p.pitch + n, std::is_same<Y, e4m3>::value ? v * p.factor : v, (Y*)0);
    }
}
#define HOST_FP8(name, params)                                              \
  HOST_KERNEL(name##_f16_f16, (run_gemm_fp8<f16, f16, params>), params)     \
  HOST_KERNEL(name##_bf16_bf16, (run_gemm_fp8<bf16, bf16, params>), params) \
  HOST_KERNEL(name##_f16_e4m3, (run_gemm_fp8<f16, e4m3, params>), params)   \
  HOST_KERNEL(name##_bf16_e4m3, (run_gemm_fp8<bf16, e4m3, params>), params) \
  HOST_KERNEL(name##_f16_f32, (run_gemm_fp8<f16, f32, params>), params)
#define HOST_TMA_FP8(height, width) \
  HOST_FP8(gemm_fp8_##height##x##width, carnot_cuda_gemm_tma_params)
#define HOST_PINGPONG_FP8(width) \
  HOST_FP8(gemm_fp8_pingpong_128x##width, carnot_cuda_gemm_pingpong_params)

// ---- 8-bit integers ----

static void bring_epilogue_near(carnot_cuda_int8_epilogue& e, unsigned long long far) {
  bring_near(e.bias, far);
  bring_near(e.scale, far);
  bring_near(e.residual, far);
  bring_near(e.offset, far);
}
// The sums by the parameters, weights of filter n from row(n) on; the epilogue is the kernels' own.
template <class X, bool NARROW, class ROW>
static void run_int8_as(const carnot_cuda_gemm_tile_params& p,
                        const carnot_cuda_int8_epilogue& epilogue, X outside, ROW row) {
  int8_epilogue out;
  out.keep(epilogue, p.y, p.rows, p.filters);
  for (int n = 0; n < p.filters / 8; n++) {
    out.read_channels<NARROW>(epilogue, n);
    for (i64 m = 0; m < p.rows; m++) {
      i64 column = m % p.out_columns, line = m / p.out_columns % p.out_rows,
          image = m / p.out_columns / p.out_rows;
      i32 sums[8] = {};
      for (int k = 0; k < p.depth; k++) {
        int tap = k / p.channels;
        i64 y = line * p.step[0] - p.begin[0] + tap / p.kernel_columns * p.dilation[0],
            c = column * p.step[1] - p.begin[1] + tap % p.kernel_columns * p.dilation[1];
        bool inside = y >= 0 && y < p.in_rows && c >= 0 && c < p.in_columns;
        i64 at = ((image * p.in_rows + y) * p.in_columns + c) * p.pixel + k % p.channels;
        X x = inside ? ((const X*)p.x)[at] : outside;
        for (int e = 0; e < 8; e++) sums[e] += (i32)x * ((const i8*)p.w)[row(n * 8 + e) + k];
      }
      byte8 residual = out.residual_at(m, n);
      if (out.form == CARNOT_CUDA_INT8_REQUANTIZE)
        out.put<CARNOT_CUDA_INT8_REQUANTIZE, true, NARROW>(sums, residual, m, n);
      else if (out.form == CARNOT_CUDA_INT8_RESIDUAL)
        out.put<CARNOT_CUDA_INT8_RESIDUAL, true, NARROW>(sums, residual, m, n);
      else if (out.form == CARNOT_CUDA_INT8_TWICE)
        out.put<CARNOT_CUDA_INT8_TWICE, true, NARROW>(sums, residual, m, n);
      else
        out.put<CARNOT_CUDA_INT8_GENERAL>(sums, residual, m, n);
    }
  }
}
template <class X, class ROW>
static void run_int8(carnot_cuda_gemm_tile_params p, carnot_cuda_int8_epilogue& epilogue, X outside,
                     unsigned long long far, ROW row) {
  p = near_params<carnot_cuda_gemm_tile_params>(&p, far);
  bring_epilogue_near(epilogue, far);
  if (epilogue.form != CARNOT_CUDA_INT8_GENERAL && int8_epilogue::is_narrow(epilogue, p.filters))
    run_int8_as<X, true>(p, epilogue, outside, row);
  else
    run_int8_as<X, false>(p, epilogue, outside, row);
}
template <class X>
static void run_gemm_int8(const void* given, unsigned long long far) {
  carnot_cuda_gemm_int8_params all;
  memcpy(&all, given, sizeof(all));
  run_int8<X>(all.gemm, all.epilogue, (X)all.outside, far, [&](i64 n) { return n * all.w_pitch; });
}
template <class X>
static void run_gemm_int8_tma(const void* given, unsigned long long far) {
  carnot_cuda_gemm_int8_tma_params all;
  memcpy(&all, given, sizeof(all));
  carnot_cuda_gemm_tile_params p = all.gemm.gemm;
  p.x = (const void*)all.gemm.x.bits[0], p.w = (const void*)all.gemm.w.bits[0];
  run_int8<X>(p, all.epilogue, (X)0, far, [&](i64 n) { return n * p.depth; });
}
template <class X>
static void run_gemm_int8_pingpong(const void* given, unsigned long long far) {
  carnot_cuda_gemm_int8_pingpong_params all;
  memcpy(&all, given, sizeof(all));
  carnot_cuda_gemm_tile_params p = all.gemm.gemm;
  p.x = (const void*)all.gemm.x.bits[0], p.w = (const void*)all.gemm.w.bits[0];
  run_int8<X>(p, all.epilogue, (X)0, far, [&](i64 n) {
    return (n / 32 * 32 + n / 2 % 4 * 8 + n / 8 % 4 * 2 + n % 2) * p.depth;
  });
}
// Weights as fragments are brought into rows.
template <class X>
static void run_gemm_int8_small(const void* given, unsigned long long far) {
  carnot_cuda_gemm_int8_small_params p;
  memcpy(&p, given, sizeof(p));
  const i8* w = (const i8*)((unsigned long long)p.w - far);
  std::vector<i8> filters((size_t)(p.filters * p.channels));
  i64 steps = (p.channels + 31) / 32;
  for (i64 n = 0; n < p.filters; n++)
    for (i64 k = 0; k < p.channels; k++) {
      i64 lane = (n % 32 / 8 * 2 + n % 2) * 4 + k % 32 / 8, j = n % 8 / 2;
      i64 fragment = (n / 32 * steps + k / 32) * 128 + j / 2 * 64 + lane * 2 + j % 2;
      filters[(size_t)(n * p.channels + k)] = w[fragment * 8 + k % 8];
    }
  carnot_cuda_gemm_tile_params t = {};
  t.x = p.x, t.w = (const char*)filters.data() + far, t.y = p.y;
  t.rows = p.rows, t.filters = p.filters, t.depth = t.channels = t.pixel = p.channels;
  t.in_rows = t.out_rows = 1, t.in_columns = t.out_columns = (int)p.rows;
  t.kernel_columns = t.step[0] = t.step[1] = 1;
  run_int8<X>(t, p.epilogue, (X)0, far, [&](i64 n) { return n * p.channels; });
}
// Weights as fragments, x in planes: brought into the forms above.
template <class X>
static void run_conv_stem_int8(const void* given, unsigned long long far) {
  carnot_cuda_conv_stem_int8_params all;
  memcpy(&all, given, sizeof(all));
  const carnot_cuda_conv_stem_params& p = all.stem;
  int taps = p.kernel[0] * p.kernel[1], depth = taps * p.channels;
  i64 pixels = (i64)p.in_rows * p.in_columns, images = p.tiles / p.tiles_down / p.tiles_across;
  const X* x = (const X*)((unsigned long long)p.x - far);
  const i8* w = (const i8*)((unsigned long long)p.w - far);
  std::vector<X> last((size_t)(images * pixels * p.channels));
  for (size_t i = 0; i < last.size(); i++) {
    i64 c = (i64)i % p.channels, at = (i64)i / p.channels;
    last[i] = x[at / pixels * p.x_n + c * p.x_c + at % pixels];
  }
  std::vector<i8> filters((size_t)(p.filters * depth));
  for (int n = 0; n < p.filters; n++)
    for (int k = 0; k < depth; k++) {
      int c = k % p.channels, row = k / p.channels / p.kernel[1],
          column = k / p.channels % p.kernel[1];
      int g = n % 32 / 8 * 2 + n % 2, j = n % 8 / 2, lane = g * 4 + column % 4;
      i64 fragment = ((i64)(n / 32) * p.kernel[0] + row) * 128 + j / 2 * 64 + lane * 2 + j % 2;
      filters[(size_t)(n * depth + k)] = w[fragment * 8 + column / 4 * 4 + c];
    }
  carnot_cuda_gemm_tile_params t = {};
  t.x = (const char*)last.data() + far, t.w = (const char*)filters.data() + far, t.y = p.y;
  t.rows = images * p.out_rows * p.out_columns, t.filters = p.filters, t.depth = depth;
  t.channels = t.pixel = p.channels, t.in_rows = p.in_rows, t.in_columns = p.in_columns;
  t.out_rows = p.out_rows, t.out_columns = p.out_columns, t.kernel_columns = p.kernel[1];
  for (int d = 0; d < 2; d++) t.step[d] = p.step[d], t.dilation[d] = 1, t.begin[d] = p.begin[d];
  run_int8<X>(t, all.epilogue, (X)all.x_zero, far, [&](i64 n) { return n * depth; });
}
// |SPAN| results in a row by one thread; 0: the form for any window.
template <class X, int KERNEL, int STEP, int SPAN>
static void run_depthwise_int8(const void* given, unsigned long long far) {
  carnot_cuda_depthwise_int8_params p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.w, far);
  bring_near(p.y, far);
  bring_epilogue_near(p.epilogue, far);
  i64 threads = SPAN ? p.count / p.columns * ((p.columns + SPAN - 1) / (SPAN ? SPAN : 1)) : p.count;
  for (i64 i = 0; i < threads + 100; i++) {  // the last block is not full
    blockIdx.x = (unsigned)i;
    if constexpr (SPAN) {
      depthwise_int8_span<X, KERNEL, STEP, SPAN> d{p};
      d.run();
    } else {
      depthwise_int8<X>(p);
    }
  }
}
static void run_pad_channels(const void* given, unsigned long long far) {
  carnot_cuda_pad_channels_params p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.y, far);
  for (i64 i = 0; i < p.count + 100; i++) {
    blockIdx.x = (unsigned)i;
    pad_words(p);
  }
}
template <class X>
static void run_mean_bytes(const void* given, unsigned long long far) {
  carnot_cuda_mean_bytes_params p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.y, far);
  for (i64 i = 0; i < (i64)p.images * p.channels; i++) {
    i32 sum = -p.pixels * p.x_zero;
    for (i64 k = 0; k < p.pixels; k++)
      sum += ((const X*)p.x)[(i / p.channels * p.pixels + k) * p.channels + i % p.channels];
    ((u8*)p.y)[i] = (u8)quantized_bits((f32)sum * p.scale, p.y_zero, p.y_signed ? -128 : 0,
                                       p.y_signed ? 127 : 255);
  }
}
static void run_table_bytes(const void* given, unsigned long long far) {
  carnot_cuda_table_bytes_params p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far), bring_near(p.table, far), bring_near(p.y, far);
  for (i64 i = 0; i < p.count; i++) ((u8*)p.y)[i] = ((const u8*)p.table)[((const u8*)p.x)[i]];
}
#define HOST_INT8(height, width, stages, load)                               \
  HOST_KERNEL(gemm_int8_##height##x##width##_##load##_u8, run_gemm_int8<u8>, \
              carnot_cuda_gemm_int8_params)                                  \
  HOST_KERNEL(gemm_int8_##height##x##width##_##load##_i8, run_gemm_int8<i8>, \
              carnot_cuda_gemm_int8_params)
#define HOST_INT8_TMA(height, width)                                        \
  HOST_KERNEL(gemm_int8_tma_##height##x##width##_u8, run_gemm_int8_tma<u8>, \
              carnot_cuda_gemm_int8_tma_params)                             \
  HOST_KERNEL(gemm_int8_tma_##height##x##width##_i8, run_gemm_int8_tma<i8>, \
              carnot_cuda_gemm_int8_tma_params)
#define HOST_INT8_PINGPONG(width)                                              \
  HOST_KERNEL(gemm_int8_pingpong_128x##width##_u8, run_gemm_int8_pingpong<u8>, \
              carnot_cuda_gemm_int8_pingpong_params)                           \
  HOST_KERNEL(gemm_int8_pingpong_128x##width##_i8, run_gemm_int8_pingpong<i8>, \
              carnot_cuda_gemm_int8_pingpong_params)
#define HOST_INT8_SMALL(steps)                                       \
  HOST_KERNEL(gemm_int8_small_##steps##_u8, run_gemm_int8_small<u8>, \
              carnot_cuda_gemm_int8_small_params)                    \
  HOST_KERNEL(gemm_int8_small_##steps##_i8, run_gemm_int8_small<i8>, \
              carnot_cuda_gemm_int8_small_params)
#define HOST_STEM_INT8(chunks, X)                                   \
  HOST_KERNEL(conv_stem_int8_##chunks##_##X, run_conv_stem_int8<X>, \
              carnot_cuda_conv_stem_int8_params)
#define HOST_DEPTHWISE_INT8(KERNEL, STEP, SPAN)                                                \
  HOST_KERNEL(depthwise_int8_##KERNEL##_##STEP##_##SPAN##_u8,                                  \
              (run_depthwise_int8<u8, KERNEL, STEP, SPAN>), carnot_cuda_depthwise_int8_params) \
  HOST_KERNEL(depthwise_int8_##KERNEL##_##STEP##_##SPAN##_i8,                                  \
              (run_depthwise_int8<i8, KERNEL, STEP, SPAN>), carnot_cuda_depthwise_int8_params)

// Squeeze-and-excitation and group normalization as their parameters describe them.
template <class T>
static void run_squeeze_excite(const void* given, unsigned long long far) {
  carnot_cuda_squeeze_excite_params p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.weights, far);
  bring_near(p.y, far);
  i64 channels = p.channels, images = p.images;
  const T *w1 = (const T*)p.weights, *w2 = w1 + p.hidden * channels, *b1 = w2 + p.hidden * channels,
          *b2 = b1 + p.hidden;
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
      for (i64 i = 0; i < p.pixels; i++)
        y[i * channels + c] = store_as<T>::of(load(x[i * channels + c]) * gate);
    }
  }
}
template <class T>
static void run_group_norm(const void* given, unsigned long long far) {
  carnot_cuda_group_norm_params p;
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
        for (i64 c = 0; c < of_group; c++)
          square += pow(load(x[i * channels + c]) - sum / count, 2);
      for (i64 i = 0; i < p.pixels; i++)
        for (i64 c = 0; c < of_group; c++) {
          f64 v = (load(x[i * channels + c]) - sum / count) / sqrt(square / count + p.eps);
          if (p.scale) v *= load(((const T*)p.scale)[g * of_group + c]);
          if (p.bias) v += load(((const T*)p.bias)[g * of_group + c]);
          y[i * channels + c] = store_as<T>::of(activate(p.activation, 0, INFINITY, (f32)v));
        }
    }
}
// Of layer and RMS norms, without statistics and quantized results.
template <class T>
static void run_norm(const void* given, unsigned long long far) {
  carnot_cuda_norm_params p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.scale, far);
  bring_near(p.bias, far);
  bring_near(p.y, far);
  for (i64 g = 0; g < p.count; g++) {
    std::vector<f64> x((size_t)p.size);
    for (i64 i = 0; i < p.size; i++) {
      const i64 at = p.row ? i / p.row * p.pitch + i % p.row : i;
      x[(size_t)i] = load(((const T*)p.x)[g * p.group_pitch + at]);
    }
    f64 sum = 0, square = 0;
    for (f64 v : x) sum += v;
    const f64 mean = p.rms ? 0 : sum / (f64)p.size;
    for (f64 v : x) square += (v - mean) * (v - mean);
    for (i64 i = 0; i < p.size; i++) {
      f64 v = (x[(size_t)i] - mean) / sqrt(square / (f64)p.size + p.eps);
      if (p.scale) v *= load(((const T*)p.scale)[i % p.period]);
      if (p.bias) v += load(((const T*)p.bias)[i % p.period]);
      ((T*)p.y)[g * p.size + i] = store_as<T>::of((f32)v);
    }
  }
}
template <class T>
static void run_pool_nhwc(const void* given, unsigned long long far) {
  carnot_cuda_sliding_window p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.x, far);
  bring_near(p.y, far);
  const i64 windows = p.n * p.out[0] * p.out[1] * p.out[2],
            taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  for (i64 i = 0; i < windows * p.channels; i++) {
    const i64 c = i % p.channels, w = i / p.channels,
              at[3] = {w / p.out[2] / p.out[1] % p.out[0], w / p.out[2] % p.out[1], w % p.out[2]},
              image = w / (windows / p.n);
    f64 sum = 0, best = -INFINITY, inside = 0, padded = 0;
    for (i64 t = 0; t < taps; t++) {
      const i64 tap[3] = {t / p.kernel[2] / p.kernel[1], t / p.kernel[2] % p.kernel[1],
                          t % p.kernel[2]};
      i64 from = image * p.x_n + c;
      bool in = true, counts = true;
      for (int d = 0; d < 3; d++) {
        const i64 x = at[d] * p.step[d] + tap[d] * p.dilation[d] - p.begin[d];
        in = in && x >= 0 && x < p.in[d], counts = counts && x < p.in[d] + p.end[d];
        from += x * p.x_s[d];
      }
      padded += counts;
      if (!in) continue;
      const f64 v = load(((const T*)p.x)[from]);
      inside++, sum += v, best = std::max(best, v);
    }
    const i64 to = image * p.y_n + at[0] * p.y_s[0] + at[1] * p.y_s[1] + at[2] * p.y_s[2] + c;
    const f64 mean = sum / (p.count_padding ? padded : inside);
    ((T*)p.y)[to] = store_as<T>::of((f32)(p.average ? mean : best));
  }
}
#define HOST_HALF(T)                                                                        \
  HOST_KERNEL(pool_nhwc_##T, run_pool_nhwc<T>, carnot_cuda_sliding_window)                  \
  HOST_KERNEL(squeeze_excite_##T, run_squeeze_excite<T>, carnot_cuda_squeeze_excite_params) \
  HOST_KERNEL(norm_##T, run_norm<T>, carnot_cuda_norm_params)                               \
  HOST_KERNEL(norm_row_##T, run_norm<T>, carnot_cuda_norm_params)                           \
  HOST_KERNEL(norm_lanes_8_##T, run_norm<T>, carnot_cuda_norm_params)                       \
  HOST_KERNEL(norm_lanes_16_##T, run_norm<T>, carnot_cuda_norm_params)                      \
  HOST_KERNEL(norm_warp_1_##T, run_norm<T>, carnot_cuda_norm_params)                        \
  HOST_KERNEL(norm_warp_3_##T, run_norm<T>, carnot_cuda_norm_params)                        \
  HOST_KERNEL(norm_warp_4_##T, run_norm<T>, carnot_cuda_norm_params)                        \
  HOST_KERNEL(norm_warp_8_##T, run_norm<T>, carnot_cuda_norm_params)                        \
  HOST_KERNEL(group_norm_2_##T, run_group_norm<T>, carnot_cuda_group_norm_params)           \
  HOST_KERNEL(group_norm_8_##T, run_group_norm<T>, carnot_cuda_group_norm_params)           \
  HOST_KERNEL(depthwise_##T, (run_depthwise<T, 0, 0, 0>), carnot_cuda_depthwise_params)     \
  HOST_KERNEL(depthwise_pairs_##T, run_depthwise_pairs<T>, carnot_cuda_depthwise_params)    \
  HOST_KERNEL(recurrent_mma_##T, run_recurrent<T>, carnot_cuda_recurrent_cluster_params)    \
  HOST_KERNEL(rotary_pairs_##T, run_rotary_pairs<T>, carnot_cuda_rotary_params)

// The packed weight of filter |f| (conv_small_channels.cuh).
template <class T>
static f64 chunk_weight(const void* w, int steps, int f, int step, int t, int k) {
  int in = f % 32, g = in / 8 * 2 + in % 2, j = in % 8 / 2;
  return load((
      (const T*)w)[((((f / 32 * steps + step) * 2 + j / 2) * 32 + g * 4 + t) * 2 + j % 2) * 4 + k]);
}
template <class T, class X, int QUADS>
static void run_conv_stem(const void* given, unsigned long long far) {
  auto p = near_params<carnot_cuda_conv_stem_params>(given, far);
  i64 images = p.tiles / p.tiles_down / p.tiles_across, at = 0;
  for (i64 i = 0; i < images * p.out_rows * p.out_columns; i++)
    for (int f = 0; f < p.filters; f++) {
      i64 column = i % p.out_columns, row = i / p.out_columns % p.out_rows,
          image = i / p.out_columns / p.out_rows;
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
static void run_conv1x1_small(const void* given, unsigned long long far) {
  auto p = near_params<carnot_cuda_conv1x1_small_params>(given, far);
  bring_near(p.residual, far);
  for (i64 m = 0; m < p.rows; m++)
    for (int n = 0; n < p.filters; n++) {
      f64 sum = p.bias ? load(((const T*)p.bias)[n]) : 0;
      for (int k = 0; k < p.channels; k++)
        sum += load(((const T*)p.x)[m * p.x_pitch + k]) *
               chunk_weight<T>(p.w, 2 * BLOCKS, n, k / 32 * 2 + k % 8 / 4, k % 32 / 8, k % 4);
      if (p.residual) sum += load(((const T*)p.residual)[m * p.filters + n]);
      ((T*)p.y)[m * p.y_pitch + n] =
          store_as<T>::of(activate(p.activation, p.low, p.high, (f32)sum));
    }
}
// The step of one unit: the gates' sums of input |x| and of state |h|, cell |c|.
static f64 recurrent_unit(const carnot_cuda_recurrent_cluster_params& p, const f64* x, const f64* h,
                          f64 before, f64* c) {
  const auto sigmoid = [](f64 v) { return 1 / (1 + exp(-v)); };
  if (p.gates == 1) return tanh(x[0] + h[0]);
  if (p.gates == 3) {
    const f64 z = sigmoid(x[0] + h[0]), reset = sigmoid(x[1] + h[1]);
    return (1 - z) * tanh(x[2] + reset * h[2]) + z * before;
  }
  const f64 i = sigmoid(x[0] + h[0]), f = p.input_forget ? 1 - i : sigmoid(x[2] + h[2]);
  *c = f * *c + i * tanh(x[3] + h[3]);
  return sigmoid(x[1] + h[1]) * tanh(*c);
}
// One sequence of one direction. |T|: the stored type.
template <class T>
static void run_sequence(const carnot_cuda_recurrent_cluster_params& p, int d, int b) {
  const auto at = [](const void* from, i64 i) { return (f64)load(((const T*)from)[i]); };
  const i64 n = p.hidden, last = (p.batch_first ? b * p.directions + d : d * p.batch + b) * n;
  std::vector<f64> h(n), c(n), next(n);
  for (i64 u = 0; u < n; u++) {
    h[u] = p.h0 ? at(p.h0, last + u) : 0;
    c[u] = p.c0 ? at(p.c0, last + u) : 0;
  }
  for (int step = 0; step < p.time; step++) {
    const i64 t = d == 1 || p.reverse ? p.time - 1 - step : step;
    const i64 in = (p.batch_first ? b * p.time + t : t * p.batch + b) * p.input;
    const i64 to =
        p.batch_first ? (b * p.time + t) * p.directions + d : (t * p.directions + d) * p.batch + b;
    for (i64 u = 0; u < n; u++) {
      f64 x[4], r[4];
      for (int g = 0; g < p.gates; g++) {
        const i64 row = (d * p.gates + g) * n + u, bias = d * 2 * p.gates * n + g * n + u;
        x[g] = p.bias ? at(p.bias, bias) : 0;
        r[g] = p.bias ? at(p.bias, bias + p.gates * n) : 0;
        for (int k = 0; k < p.input; k++) x[g] += at(p.w, row * p.input + k) * at(p.x, in + k);
        for (i64 k = 0; k < n; k++) r[g] += at(p.r, row * n + k) * h[k];
      }
      next[u] = recurrent_unit(p, x, r, h[u], &c[u]);
      if (p.y) ((T*)p.y)[to * n + u] = store_as<T>::of((f32)next[u]);
    }
    h = next;
  }
  for (i64 u = 0; u < n; u++) {
    if (p.last_h) ((T*)p.last_h)[last + u] = store_as<T>::of((f32)h[u]);
    if (p.last_c) ((T*)p.last_c)[last + u] = store_as<T>::of((f32)c[u]);
  }
}
template <class T>
static void run_recurrent(const void* given, unsigned long long far) {
  auto p = near_params<carnot_cuda_recurrent_cluster_params>(given, far);
  bring_near(p.r, far), bring_near(p.h0, far), bring_near(p.c0, far);
  bring_near(p.last_h, far), bring_near(p.last_c, far);
  for (int d = 0; d < p.directions; d++)
    for (int b = 0; b < p.batch; b++) run_sequence<T>(p, d, b);
}
#define HOST_RECURRENT(T, DTYPE, unused) \
  HOST_KERNEL(recurrent_cluster_##T, run_recurrent<T>, carnot_cuda_recurrent_cluster_params)
#define HOST_STEM(T, X, CHUNKS, QUADS)                                                \
  HOST_KERNEL(conv_stem_##CHUNKS##_##QUADS##_##X##_##T, (run_conv_stem<T, X, QUADS>), \
              carnot_cuda_conv_stem_params)
#define HOST_CONV1X1(BLOCKS, RESIDENT)                                          \
  HOST_KERNEL(conv1x1_small_##BLOCKS##_f16, (run_conv1x1_small<f16, BLOCKS>),   \
              carnot_cuda_conv1x1_small_params)                                 \
  HOST_KERNEL(conv1x1_small_##BLOCKS##_bf16, (run_conv1x1_small<bf16, BLOCKS>), \
              carnot_cuda_conv1x1_small_params)
#define HOST_MULTISTAGE_FAMILY(family, height, width)                        \
  HOST_KERNEL(family##_##height##x##width##_f16, run_gemm_multistage<f16>,   \
              carnot_cuda_gemm_tile_params)                                  \
  HOST_KERNEL(family##_##height##x##width##_bf16, run_gemm_multistage<bf16>, \
              carnot_cuda_gemm_tile_params)
#define HOST_MULTISTAGE(height, width, stages)           \
  HOST_MULTISTAGE_FAMILY(gemm_multistage, height, width) \
  HOST_MULTISTAGE_FAMILY(gemm_multistage_general, height, width)
#define HOST_GEMV(T, DTYPE, rows) \
  HOST_KERNEL(gemv_##rows##_##T, run_gemm_multistage<T>, carnot_cuda_gemm_tile_params)
static const bool are_known = [] {
  CARNOT_CUDA_DEPTHWISE_SPANS(HOST_DEPTHWISE_TYPES)
  CARNOT_CUDA_DEPTHWISE_TILES(HOST_DEPTHWISE_TILE_TYPES)
  HOST_HALF(f16)
  HOST_HALF(bf16)
  HOST_KERNEL(norm_f32, run_norm<f32>, carnot_cuda_norm_params)
  HOST_KERNEL(norm_row_f32, run_norm<f32>, carnot_cuda_norm_params)
  CARNOT_CUDA_GEMM_MULTISTAGE_SIZES(HOST_MULTISTAGE)
  CARNOT_CUDA_HALF_TYPES(HOST_GEMV, 1)
  CARNOT_CUDA_HALF_TYPES(HOST_GEMV, 2)
  CARNOT_CUDA_HALF_TYPES(HOST_GEMV, 4)
  CARNOT_CUDA_GEMM_INT8_SIZES(HOST_INT8)
  CARNOT_CUDA_GEMM_INT8_TMA_SIZES(HOST_INT8_TMA)
  CARNOT_CUDA_GEMM_INT8_PINGPONG_SIZES(HOST_INT8_PINGPONG)
  CARNOT_CUDA_CONV_STEMS_INT8(HOST_STEM_INT8)
  CARNOT_CUDA_GEMM_INT8_SMALL_SIZES(HOST_INT8_SMALL)
  CARNOT_CUDA_FLOAT_TYPES(HOST_ATTENTION_CACHED, )
  CARNOT_CUDA_WEIGHT_ONLY_SIZES(HOST_WEIGHT_ONLY_FORMS)
  CARNOT_CUDA_WEIGHT_ONLY_DIRECT_SIZES(HOST_WEIGHT_ONLY_DIRECT_FORMS)
  CARNOT_CUDA_WEIGHT_ONLY_STREAM_FORMS(HOST_WEIGHT_ONLY_STREAM)
  CARNOT_CUDA_DEPTHWISE_INT8_SPANS(HOST_DEPTHWISE_INT8)
  HOST_KERNEL(depthwise_int8_u8, (run_depthwise_int8<u8, 0, 1, 0>),
              carnot_cuda_depthwise_int8_params)
  HOST_KERNEL(depthwise_int8_i8, (run_depthwise_int8<i8, 0, 1, 0>),
              carnot_cuda_depthwise_int8_params)
  HOST_KERNEL(pad_channels, run_pad_channels, carnot_cuda_pad_channels_params)
  HOST_KERNEL(table_bytes, run_table_bytes, carnot_cuda_table_bytes_params)
  HOST_KERNEL(mean_bytes_u8, run_mean_bytes<u8>, carnot_cuda_mean_bytes_params)
  HOST_KERNEL(mean_bytes_i8, run_mean_bytes<i8>, carnot_cuda_mean_bytes_params)
  CARNOT_CUDA_GEMM_TMA_SIZES(HOST_TMA)
  CARNOT_CUDA_GEMM_PINGPONG_SIZES(HOST_PINGPONG)
  CARNOT_CUDA_GEMM_TMA_SIZES(HOST_TMA_FP8)
  CARNOT_CUDA_GEMM_PINGPONG_SIZES(HOST_PINGPONG_FP8)
  CARNOT_CUDA_CONV_STEMS(HOST_STEM)
  CARNOT_CUDA_CONV1X1_SMALL_SIZES(HOST_CONV1X1)
  CARNOT_CUDA_FLOAT_TYPES(HOST_RECURRENT, )
  CARNOT_CUDA_HALF_TYPES(HOST_ATTENTION, simt)
  CARNOT_CUDA_HALF_TYPES(HOST_ATTENTION, split_64)
  CARNOT_CUDA_HALF_TYPES(HOST_ATTENTION, split_128)
  CARNOT_CUDA_HALF_TYPES(HOST_ATTENTION, tiled_32)
  CARNOT_CUDA_HALF_TYPES(HOST_ATTENTION, tiled_64)
  CARNOT_CUDA_HALF_TYPES(HOST_ATTENTION, tiled_96)
  CARNOT_CUDA_HALF_TYPES(HOST_ATTENTION, tiled_128)
  CARNOT_CUDA_HALF_TYPES(HOST_ATTENTION, wgmma_64)
  CARNOT_CUDA_HALF_TYPES(HOST_MASK_KINDS, )
  CARNOT_CUDA_ATTENTION_TMA_SIZES(HOST_ATTENTION_TMA)
  CARNOT_CUDA_ATTENTION_INT8_FORMS(HOST_ATTENTION_INT8)
  CARNOT_CUDA_ATTENTION_INT8_SPLIT_FORMS(HOST_ATTENTION_INT8_SPLIT)
  CARNOT_CUDA_ATTENTION_MIXED_QUERIES(HOST_MIXED)
  CARNOT_CUDA_FLOAT_TYPES(HOST_MIX_HEADS, )
  CARNOT_CUDA_CROSS_SIZES(HOST_CROSS)
  CARNOT_CUDA_FLOAT_TYPES(HOST_LINEAR_SCAN, )
  return true;
}();

// Strided copies, and transposes as such.
template <class T>
static void run_copy(const void* given, unsigned long long far) {
  carnot_cuda_copy_params p;
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
template <bool FROM>
static void run_transpose_eights(const void* given, unsigned long long far) {
  auto p = *(const carnot_cuda_copy_params*)given;
  bring_near(p.x, far), bring_near(p.y, far);
  for (i64 i = 0; i < p.dims[0] * p.dims[FROM ? 2 : 1] + 100; i++)
    blockIdx.x = (unsigned)i, transpose_eights<FROM>(p);
  blockIdx.x = 0;
}
static const bool are_known_eights =
    kernels()
        .insert({"transpose_from_eights",
                 {run_transpose_eights<true>, sizeof(carnot_cuda_copy_params)}})
        .second &&
    kernels()
        .insert(
            {"transpose_to_eights", {run_transpose_eights<false>, sizeof(carnot_cuda_copy_params)}})
        .second;
template <class T>
static void run_concat(const void* given, unsigned long long far) {
  carnot_cuda_concat_params p;
  memcpy(&p, given, sizeof(p));
  bring_near(p.whole, far);
  for (int k = 0; k < p.count; k++) bring_near(p.parts[k], far);
  for (i64 row = 0; row < p.rows; row++)
    for (int k = 0; k < p.count; k++) {
      const int length = p.ends[k] - (k ? p.ends[k - 1] : 0);
      T* part = (T*)p.parts[k] + row * p.pitches[k];
      T* whole = (T*)p.whole + row * p.pitch + p.starts[k];
      memcpy(p.splits ? part : whole, p.splits ? whole : part, sizeof(T) * (size_t)length);
    }
}
struct wide {
  u64 parts[2];
};
#define COPIES(T, name)                                                                           \
  static const bool is_known_copy_##name =                                                        \
      kernels().insert({"copy_" #name, {run_copy<T>, sizeof(carnot_cuda_copy_params)}}).second && \
      kernels()                                                                                   \
          .insert({"transpose_" #name, {run_copy<T>, sizeof(carnot_cuda_copy_params)}})           \
          .second &&                                                                              \
      kernels()                                                                                   \
          .insert({"concat_" #name, {run_concat<T>, sizeof(carnot_cuda_concat_params)}})          \
          .second;
COPIES(u8, 1)
COPIES(u16, 2)
COPIES(u32, 4)
COPIES(u64, 8)
COPIES(wide, 16)

extern "C" const host_kernel* carnot_host_kernel(const char* name) {
  auto found = kernels().find(name);
  return found == kernels().end() ? nullptr : &found->second;
}
