// What the kernel tests share: the ISA levels of this machine, random data, buffers with canaries,
// and bounds of error.
#ifndef CARNOT_KERNEL_CPU_COMMON_KERNEL_TEST_H_
#define CARNOT_KERNEL_CPU_COMMON_KERNEL_TEST_H_

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
// cmocka wants the headers above first.
#include <cmocka.h>

#include "kernel/cpu/common/kernels.h"
#include "kernel/cpu/common/machine.h"
#include "kernel/cpu/gemm/pack_f32.h"
#include "kernel/cpu/gemm/pack_half.h"
#include "kernel/cpu/gemm/pack_split.h"

// Calls |check| with the table of every level that build and machine have; says which.
static inline void for_each_isa(void (*check)(const carnot_cpu_kernels*)) {
  for (int isa = 0; isa < CARNOT_ISA_COUNT; ++isa) {
    const carnot_cpu_kernels* kernels = carnot_cpu_kernels_for((carnot_isa)isa);
    const char* lacks = carnot_machine_lacks((carnot_isa)isa);
    if (!kernels || lacks) {
      printf("isa %s: skipped, %s\n", kernels ? kernels->isa : "", lacks ? lacks : "not built");
      continue;
    }
    printf("isa %s: run\n", kernels->isa);
    check(kernels);
  }
}

static inline float random_f32(uint64_t* state) {  // in [-1, 1)
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*state >> 32) * 0x1p-31f;
}

// A buffer of |count| floats that ends where an inaccessible page begins, so that any overrun
// faults, masked intrinsics included, which sanitizers do not see; buffer_free checks the guard
// before it. Filled with random numbers, or with canaries if |seed| is 0.
enum { kGuard = 16, kPage = 4096 };
static const float kCanary = -12345.678f;

static inline size_t buffer_pages(int64_t count) {
  const size_t bytes = sizeof count + (size_t)(count + kGuard) * sizeof(float);
  return (bytes + kPage - 1) / kPage * kPage;
}

static inline float* buffer(int64_t count, uint64_t seed) {
  const size_t bytes = buffer_pages(count);
  char* pages =
      mmap(NULL, bytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || mprotect(pages + bytes, kPage, PROT_NONE)) abort();
  float* data = (float*)(pages + bytes) - count;
  memcpy(data - kGuard - 2, &count, sizeof count);  // for buffer_free
  for (int i = 1; i <= kGuard; ++i) data[-i] = kCanary;
  for (int64_t i = 0; i < count; ++i) data[i] = seed ? random_f32(&seed) : kCanary;
  return data;
}

static inline void buffer_free(float* data) {
  if (!data) return;
  int64_t count;
  memcpy(&count, data - kGuard - 2, sizeof count);
  const size_t bytes = buffer_pages(count);
  for (int i = 1; i <= kGuard; ++i) assert_true(data[-i] == kCanary);
  munmap((char*)(data + count) - bytes, bytes + kPage);
}

// Results of a window along one axis.
static inline int64_t window_count(int64_t in, int64_t taps, int64_t stride, int64_t dilation,
                                   int64_t pad) {
  return (in + 2 * pad - (taps - 1) * dilation - 1) / stride + 1;
}

// Types of packed weights, and what a kernel makes of them. SPLIT: float32 in BF16 parts.
typedef enum weights_type {
  WEIGHTS_F32,
  WEIGHTS_SPLIT,
  WEIGHTS_F16,
  WEIGHTS_BF16,
  WEIGHTS_TYPE_COUNT
} weights_type;

static inline float rounded(weights_type type, float x) {
  const carnot_cpu_kernels* scalar = carnot_cpu_kernels_for(CARNOT_ISA_SCALAR);
  uint16_t half;
  if (type == WEIGHTS_F16) scalar->f16_of_f32(1, &x, &half), scalar->f32_of_f16(1, &half, &x);
  if (type == WEIGHTS_BF16) scalar->bf16_of_f32(1, &x, &half), scalar->f32_of_bf16(1, &half, &x);
  return x;
}

static inline void round_all(weights_type type, float* x, int64_t count) {
  for (int64_t i = 0; i < count; ++i) x[i] = rounded(type, x[i]);
}

// |count| numbers of |x| in a buffer of their own that ends at an inaccessible page, float32 or
// rounded to BF16. An odd count of BF16 leaves one element before the first.
static inline void* stored(const carnot_cpu_kernels* kernels, bool as_bf16, const float* x,
                           int64_t count) {
  float* to = buffer(as_bf16 ? (count + 1) / 2 : count, 0);
  if (!as_bf16) return memcpy(to, x, (size_t)count * sizeof *x);
  uint16_t* half = (uint16_t*)to + count % 2;
  kernels->bf16_of_f32(count, x, half);
  return half;
}

static inline void stored_free(bool as_bf16, void* x, int64_t count) {
  if (x) buffer_free(as_bf16 ? (float*)((uint16_t*)x - count % 2) : x);
}

// The level rounds the rows of A too.
static inline bool rounds_rows(const carnot_cpu_kernels* kernels, weights_type type) {
  return type == WEIGHTS_BF16 && strstr(kernels->isa, "bf16");
}

// A buffer with |k1n16| packed again as |type|.
static inline float* pack_as(weights_type type, int64_t taps, int64_t depth, int64_t n,
                             const float* k1n16) {
  const int64_t count = carnot_packed_k1n16_count(taps * depth, n);
  const int64_t pairs = carnot_packed_k2n16_count(taps, depth, n);
  const int64_t split = carnot_packed_split_bytes(taps, depth, n) / (int64_t)sizeof(float);
  float* packed = buffer(type == WEIGHTS_F32     ? count
                         : type == WEIGHTS_SPLIT ? split
                         : type == WEIGHTS_F16   ? count / 2
                                                 : pairs / 2,
                         0);
  if (type == WEIGHTS_F32) memcpy(packed, k1n16, (size_t)count * sizeof *packed);
  if (type == WEIGHTS_SPLIT) carnot_pack_k32n16_bf16x3(taps, depth, n, k1n16, packed);
  if (type == WEIGHTS_F16) carnot_pack_k1n16_f16(count, k1n16, (uint16_t*)packed);
  if (type == WEIGHTS_BF16) carnot_pack_k2n16_bf16(taps, depth, n, k1n16, (uint16_t*)packed);
  return packed;
}

// Fails, naming the place, unless |got| is within |bound| of |want| or both are NaN or equal.
static inline void check_near(float got, double want, double bound, const char* what, int64_t i,
                              int64_t j) {
  if (got == (float)want || (isnan(got) && isnan(want))) return;
  if (fabs(got - want) <= bound) return;
  fail_msg("%s [%lld,%lld]: got %.9g, want %.9g within %.3g", what, (long long)i, (long long)j, got,
           want, bound);
}

static inline double activation_in_double(carnot_kernel_activation activation, double a, double b,
                                          double x) {
  if (isnan(x)) return x;
  switch (activation) {
    case CARNOT_KERNEL_ACTIVATION_RELU: return x > 0 ? x : 0;
    case CARNOT_KERNEL_ACTIVATION_CLIP: return x < a ? a : x > b ? b : x;
    case CARNOT_KERNEL_ACTIVATION_LEAKY_RELU: return x < 0 ? a * x : x;
    case CARNOT_KERNEL_ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));
    case CARNOT_KERNEL_ACTIVATION_SILU: return x / (1 + exp(-x));
    case CARNOT_KERNEL_ACTIVATION_HARD_SWISH: return x * fmax(0, fmin(1, x / 6 + 0.5));
    case CARNOT_KERNEL_ACTIVATION_TANH: return tanh(x);
    case CARNOT_KERNEL_ACTIVATION_GELU_ERF: return x / 2 * erfc(-x / sqrt(2));
    default: return x;
  }
}

#endif
