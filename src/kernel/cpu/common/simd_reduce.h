// Sums and extrema over contiguous floats, for reductions and norms.
#ifndef CARNOT_KERNEL_CPU_COMMON_SIMD_REDUCE_H_
#define CARNOT_KERNEL_CPU_COMMON_SIMD_REDUCE_H_

#include <math.h>

#include "kernel/cpu/common/simd.h"

CARNOT_INLINE float max_nan(float a, float b) { return a != a || a > b ? a : b; }
CARNOT_INLINE float min_nan(float a, float b) { return a != a || a < b ? a : b; }

// NaN where a lane is.
CARNOT_INLINE float v_max_lane(vf32 x) { return v_m_any(v_is_nan(x)) ? NAN : v_max_of(x); }
CARNOT_INLINE float v_min_lane(vf32 x) { return v_m_any(v_is_nan(x)) ? NAN : v_min_of(x); }

// The largest of |n| > 0 floats, or the smallest; NaN where one is. |max| is constant.
CARNOT_INLINE float extreme_of(const float* x, int64_t n, bool max) {
  enum { kChains = 4 };  // an extreme waits for the one before it
  const vf32 none = v_set(max ? -INFINITY : INFINITY);
  vf32 acc[kChains];
  vmask nan = v_is_nan(none);
  int64_t i = 0;
  for (int c = 0; c < kChains; ++c) acc[c] = none;
  for (; i + kChains * V_LANES <= n; i += kChains * V_LANES) CARNOT_UNROLL
  for (int c = 0; c < kChains; ++c) {
    const vf32 y = v_load(x + i + c * V_LANES);
    nan = v_m_or(nan, v_is_nan(y));
    acc[c] = max ? v_max_to(acc[c], y) : v_min_to(acc[c], y);
  }
  for (; i + V_LANES <= n; i += V_LANES)
    acc[0] = max ? v_max(acc[0], v_load(x + i)) : v_min(acc[0], v_load(x + i));
  if (v_m_any(nan)) return NAN;
  for (int c = 1; c < kChains; ++c) acc[0] = max ? v_max(acc[0], acc[c]) : v_min(acc[0], acc[c]);
  float m = max ? v_max_lane(acc[0]) : v_min_lane(acc[0]);
  for (; i < n; ++i) m = max ? max_nan(m, x[i]) : min_nan(m, x[i]);
  return m;
}

typedef enum sum_term {
  SUM_OF_X,        // x
  SUM_OF_SQUARES,  // (x - shift)^2
  SUM_OF_SIZES,    // |x|
} sum_term;

CARNOT_INLINE vf32 add_term(sum_term term, vf32 sum, vf32 x, vf32 shift) {
  if (term == SUM_OF_X) return v_add(sum, x);
  if (term == SUM_OF_SIZES) return v_add(sum, v_abs(x));
  const vf32 d = v_sub(x, shift);
  return v_fma(d, d, sum);
}

// Sums of up to kSumBlock floats in vectors, of those in double: |error| <= about 40 eps sum|term|
// for any n. |term| is constant.
enum { kSumBlock = 2048 };

CARNOT_INLINE double sum_terms(sum_term term, const float* x, int64_t n, float shift) {
  const vf32 s = v_set(shift);
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSumBlock) {
    const int64_t end = min_i64(n, begin + kSumBlock);
    vf32 sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    int64_t i = begin;
    for (; i + 4 * V_LANES <= end; i += 4 * V_LANES) {
      for (int j = 0; j < 4; ++j) {
        sum[j] = add_term(term, sum[j], v_load(x + i + j * V_LANES), s);
      }
    }
    for (; i + V_LANES <= end; i += V_LANES) sum[0] = add_term(term, sum[0], v_load(x + i), s);
    total += (double)v_sum(v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
    for (; i < end; ++i) {
      const float d = x[i] - shift;
      total += term == SUM_OF_X       ? x[i]
               : term == SUM_OF_SIZES ? f32_of_bits(bits_of_f32(x[i]) & 0x7fffffff)
                                      : d * d;
    }
  }
  return total;
}

#endif
