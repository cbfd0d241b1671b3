// Reductions of integers and float64, in loops that the compiler vectorises.
#include "kernel/cpu/reduce/reduce_native.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"

enum { kLanes = 32, kBlock = 128 };  // partial results of a row; columns at once

typedef void (*loop)(const void* src, void* dst, int64_t n, int64_t inner);

// |a| joins |s|; |start| is neutral. A contiguous row goes in lanes, whose results are joined last;
// columns go side by side.
#define LOOP(name, type, start, expression)                                               \
  static inline type join_##name(type s, type a) { return (type)(expression); }           \
  static void row_##name(const type* x, type* dst, int64_t n) {                           \
    type lanes[kLanes];                                                                   \
    int64_t i = 0;                                                                        \
    for (int l = 0; l < kLanes; ++l) lanes[l] = start;                                    \
    for (; i + kLanes <= n; i += kLanes)                                                  \
      for (int l = 0; l < kLanes; ++l) lanes[l] = join_##name(lanes[l], x[i + l]);        \
    for (int l = 0; i + l < n; ++l) lanes[l] = join_##name(lanes[l], x[i + l]);           \
    for (int half = kLanes / 2; half; half /= 2)                                          \
      for (int l = 0; l < half; ++l) lanes[l] = join_##name(lanes[l], lanes[l + half]);   \
    *dst = lanes[0];                                                                      \
  }                                                                                       \
  static void loop_##name(const void* src, void* out, int64_t n, int64_t inner) {         \
    const type* x = src;                                                                  \
    type* restrict dst = out;                                                             \
    if (inner == 1) {                                                                     \
      row_##name(x, dst, n);                                                              \
      return;                                                                             \
    }                                                                                     \
    for (int64_t j0 = 0; j0 < inner; j0 += kBlock) {                                      \
      const int64_t j1 = min_i64(inner, j0 + kBlock);                                     \
      for (int64_t j = j0; j < j1; ++j) dst[j] = start;                                   \
      for (int64_t i = 0; i < n; ++i)                                                     \
        for (int64_t j = j0; j < j1; ++j) dst[j] = join_##name(dst[j], x[i * inner + j]); \
    }                                                                                     \
  }
#define LOOPS_INTEGER(suffix, type, unsigned_type, least, most)      \
  LOOP(sum_##suffix, type, 0, (unsigned_type)s + (unsigned_type)a)   \
  LOOP(product_##suffix, type, 1, (unsigned_type)s*(unsigned_type)a) \
  LOOP(max_##suffix, type, least, a > s ? a : s)                     \
  LOOP(min_##suffix, type, most, a < s ? a : s)
LOOPS_INTEGER(i32, int32_t, uint32_t, INT32_MIN, INT32_MAX)
LOOPS_INTEGER(i64, int64_t, uint64_t, INT64_MIN, INT64_MAX)
LOOP(max_u8, uint8_t, 0, a > s ? a : s)
LOOP(min_u8, uint8_t, UINT8_MAX, a < s ? a : s)
LOOP(sum_f64, double, 0, s + a)
LOOP(product_f64, double, 1, s* a)
LOOP(max_f64, double, -INFINITY, s != s || s > a ? s : a)
LOOP(min_f64, double, INFINITY, s != s || s < a ? s : a)

#define ROW(suffix)                                            \
  {                                                            \
    [CARNOT_KERNEL_REDUCTION_SUM] = loop_sum_##suffix,         \
    [CARNOT_KERNEL_REDUCTION_PRODUCT] = loop_product_##suffix, \
    [CARNOT_KERNEL_REDUCTION_MAX] = loop_max_##suffix,         \
    [CARNOT_KERNEL_REDUCTION_MIN] = loop_min_##suffix          \
  }
static const loop kLoops[CARNOT_ELEMENT_TYPE_COUNT][CARNOT_KERNEL_REDUCTION_COUNT] = {
    [CARNOT_ELEMENT_U8] =
        {[CARNOT_KERNEL_REDUCTION_MAX] = loop_max_u8, [CARNOT_KERNEL_REDUCTION_MIN] = loop_min_u8},
    [CARNOT_ELEMENT_I32] = ROW(i32),
    [CARNOT_ELEMENT_I64] = ROW(i64),
    [CARNOT_ELEMENT_F64] = ROW(f64)};

bool CARNOT_KERNEL(reduce_native)(const carnot_reduce_native* p, int64_t o0, int64_t o1) {
  static const int8_t kBytes[CARNOT_ELEMENT_TYPE_COUNT] = {1, 1, 4, 8, 8};
  const bool mean = p->reduction == CARNOT_KERNEL_REDUCTION_MEAN;
  const loop run = kLoops[p->type][mean ? CARNOT_KERNEL_REDUCTION_SUM : p->reduction];
  if (!run || (mean && p->type != CARNOT_ELEMENT_F64)) return false;
  const int64_t bytes = kBytes[p->type];
  for (int64_t o = o0; o < o1; ++o) {
    char* dst = (char*)p->dst + o * p->inner * bytes;
    run((const char*)p->src + o * p->n * p->inner * bytes, dst, p->n, p->inner);
    for (int64_t j = 0; mean && j < p->inner; ++j) ((double*)dst)[j] /= (double)p->n;
  }
  return true;
}
