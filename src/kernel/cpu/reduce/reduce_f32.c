// Reductions along a contiguous or strided axis.
#include "kernel/cpu/reduce/reduce_f32.h"

#include <math.h>

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_math.h"
#include "kernel/cpu/common/simd_reduce.h"

enum { kLeastBlock = 16, kMostBlock = 128, kVectors = 4 };  // of rows; vectors at once

// Rows summed before they join the total: about as many as there are blocks, for the error grows
// with the root of either.
static int64_t rows_of_block(int64_t n) {
  int64_t rows = kLeastBlock;
  while (rows < kMostBlock && rows * rows < n) rows *= 2;
  return rows;
}

// ---- contiguous axis ----

static float product_of_row(const float* x, int64_t n) {
  enum { kChains = 16 };  // a product waits for the one before it
  double products[kChains], product = 1;
  int64_t i = 0;
  for (int c = 0; c < kChains; ++c) products[c] = 1;
  for (; i + kChains <= n; i += kChains)
    for (int c = 0; c < kChains; ++c) products[c] *= (double)x[i + c];
  for (; i < n; ++i) product *= (double)x[i];
  for (int c = 0; c < kChains; ++c) product *= products[c];
  return (float)product;
}

CARNOT_INLINE float log_of(float x) {
  float lanes[V_LANES];
  v_store(lanes, v_log(v_set(x)));
  return lanes[0];
}

// max + log(sum of exp(x - max)); infinite and not a number where the largest element is.
static float log_sum_exp_of_row(const float* x, int64_t n) {
  const float max = extreme_of(x, n, /*max=*/true);
  if (!(max > -INFINITY && max < INFINITY)) return max;
  const vf32 m = v_set(max), none = v_set(-INFINITY);
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += kSumBlock) {
    const int64_t end = min_i64(n, begin + kSumBlock);
    vf32 sum[2] = {v_zero(), v_zero()};
    for (int64_t i = begin; i < end; i += 2 * V_LANES) {
      for (int k = 0; k < 2; ++k) {
        const int64_t at = i + k * V_LANES, left = end - at;
        if (left <= 0) break;
        float lanes[V_LANES];
        vf32 y = none;
        if (left >= V_LANES) {
          y = v_load(x + at);
        } else {
          v_store(lanes, none);
          v_store_n(lanes, v_load_n(x + at, left), left);
          y = v_load(lanes);
        }
        sum[k] = v_add(sum[k], v_exp_normal(v_sub(y, m)));
      }
    }
    total += (double)v_sum(v_add(sum[0], sum[1]));
  }
  return max + log_of((float)total);
}

static float reduce_row(carnot_kernel_reduction reduction, const float* x, int64_t n) {
  switch (reduction) {
    case CARNOT_KERNEL_REDUCTION_SUM: return (float)sum_terms(SUM_OF_X, x, n, 0);
    case CARNOT_KERNEL_REDUCTION_MEAN: return (float)(sum_terms(SUM_OF_X, x, n, 0) / (double)n);
    case CARNOT_KERNEL_REDUCTION_MAX: return extreme_of(x, n, /*max=*/true);
    case CARNOT_KERNEL_REDUCTION_MIN: return extreme_of(x, n, /*max=*/false);
    case CARNOT_KERNEL_REDUCTION_SUM_SQUARE: return (float)sum_terms(SUM_OF_SQUARES, x, n, 0);
    case CARNOT_KERNEL_REDUCTION_SUM_ABS: return (float)sum_terms(SUM_OF_SIZES, x, n, 0);
    case CARNOT_KERNEL_REDUCTION_L2: return (float)sqrt(sum_terms(SUM_OF_SQUARES, x, n, 0));
    case CARNOT_KERNEL_REDUCTION_LOG_SUM_EXP: return log_sum_exp_of_row(x, n);
    default: return product_of_row(x, n);
  }
}

// ---- strided axis: vectors of inner elements ----

CARNOT_INLINE vf32 identity_of(carnot_kernel_reduction reduction) {
  switch (reduction) {
    case CARNOT_KERNEL_REDUCTION_MAX: return v_set(-INFINITY);
    case CARNOT_KERNEL_REDUCTION_MIN: return v_set(INFINITY);
    case CARNOT_KERNEL_REDUCTION_PRODUCT: return v_set(1);
    default: return v_zero();
  }
}

CARNOT_INLINE vf32 joined(carnot_kernel_reduction reduction, vf32 acc, vf32 x, bool block) {
  switch (reduction) {
    case CARNOT_KERNEL_REDUCTION_MAX: return v_max(acc, x);
    case CARNOT_KERNEL_REDUCTION_MIN: return v_min(acc, x);
    case CARNOT_KERNEL_REDUCTION_PRODUCT: return v_mul(acc, x);
    case CARNOT_KERNEL_REDUCTION_L2:
    case CARNOT_KERNEL_REDUCTION_SUM_SQUARE: return block ? v_add(acc, x) : v_fma(x, x, acc);
    case CARNOT_KERNEL_REDUCTION_SUM_ABS: return v_add(acc, v_abs(x));
    default: return v_add(acc, x);
  }
}

// |src|: index of the first element.
CARNOT_INLINE void reduce_columns(const carnot_reduce_f32* p, bool is_bf16,
                                  carnot_kernel_reduction reduction, int64_t src, float* dst,
                                  int vectors, int64_t left) {
  const int64_t block = rows_of_block(p->n);
  vf32 total[kVectors];
  for (int v = 0; v < vectors; ++v) total[v] = identity_of(reduction);
  for (int64_t begin = 0; begin < p->n; begin += block) {
    const int64_t end = min_i64(p->n, begin + block);
    vf32 acc[kVectors];
    for (int v = 0; v < vectors; ++v) acc[v] = identity_of(reduction);
    for (int64_t i = begin; i < end; ++i) {
      for (int v = 0; v < vectors; ++v) {
        const vf32 x = v_load_stored(is_bf16, p->src, src + i * p->src_axis + v * V_LANES, left);
        acc[v] = joined(reduction, acc[v], x, /*block=*/false);
      }
    }
    for (int v = 0; v < vectors; ++v)
      total[v] = joined(reduction, total[v], acc[v], /*block=*/true);
  }
  for (int v = 0; v < vectors; ++v) {
    if (reduction == CARNOT_KERNEL_REDUCTION_MEAN) total[v] = v_div(total[v], v_set((float)p->n));
    if (reduction == CARNOT_KERNEL_REDUCTION_L2) total[v] = v_sqrt(total[v]);
    v_store_upto(dst + v * V_LANES, total[v], left);
  }
}

CARNOT_INLINE void reduce_strided(const carnot_reduce_f32* p, bool is_bf16,
                                  carnot_kernel_reduction reduction, int64_t src, float* dst,
                                  int64_t count) {
  int64_t j = 0;
  for (; j + kVectors * V_LANES <= count; j += kVectors * V_LANES) {
    reduce_columns(p, is_bf16, reduction, src + j, dst + j, kVectors, V_LANES);
  }
  for (; j + V_LANES <= count; j += V_LANES) {
    reduce_columns(p, is_bf16, reduction, src + j, dst + j, 1, V_LANES);
  }
  if (j < count) reduce_columns(p, is_bf16, reduction, src + j, dst + j, 1, count - j);
}

// One vector of inner elements, as log_sum_exp_of_row.
static void log_sum_exp_of_columns(const carnot_reduce_f32* p, bool is_bf16, int64_t src,
                                   float* dst, int64_t left) {
  const int64_t block = rows_of_block(p->n);
  vf32 max = v_set(-INFINITY), total = v_zero();
  for (int64_t i = 0; i < p->n; ++i)
    max = v_max(max, v_load_stored(is_bf16, p->src, src + i * p->src_axis, left));
  for (int64_t begin = 0; begin < p->n; begin += block) {
    const int64_t end = min_i64(p->n, begin + block);
    vf32 sum = v_zero();
    for (int64_t i = begin; i < end; ++i) {
      const vf32 x = v_load_stored(is_bf16, p->src, src + i * p->src_axis, left);
      sum = v_add(sum, v_exp_normal(v_sub(x, max)));
    }
    total = v_add(total, sum);
  }
  const vmask finite = v_lt(v_abs(max), v_set(INFINITY));
  v_store_upto(dst, v_select(finite, v_add(max, v_log(total)), max), left);
}

#define CASE(name)                                                                      \
  case CARNOT_KERNEL_REDUCTION_##name:                                                  \
    reduce_strided(p, is_bf16, CARNOT_KERNEL_REDUCTION_##name, src, dst + j0, j1 - j0); \
    break;

CARNOT_INLINE void reduce_columns_of(const carnot_reduce_f32* p, bool is_bf16, int64_t o,
                                     int64_t j0, int64_t j1) {
  const int64_t src = o * p->src_outer + j0;
  float* dst = p->dst + o * p->dst_outer;
  switch (p->reduction) {
    CASE(SUM)
    CASE(MEAN)
    CASE(MAX)
    CASE(MIN)
    CASE(SUM_SQUARE)
    CASE(SUM_ABS)
    CASE(PRODUCT)
    CASE(L2)
    case CARNOT_KERNEL_REDUCTION_LOG_SUM_EXP:
      for (int64_t j = j0; j < j1; j += V_LANES)
        log_sum_exp_of_columns(p, is_bf16, src + j - j0, dst + j, min_i64(V_LANES, j1 - j));
      break;
    default: break;
  }
}

void CARNOT_KERNEL(reduce_f32)(const carnot_reduce_f32* p, int64_t o0, int64_t o1, int64_t j0,
                               int64_t j1) {
  for (int64_t o = o0; o < o1; ++o) {
    if (p->src_is_bf16) {
      reduce_columns_of(p, true, o, j0, j1);
    } else if (p->inner > 1) {
      reduce_columns_of(p, false, o, j0, j1);
    } else if (j0 < j1) {
      p->dst[o * p->dst_outer] =
          reduce_row(p->reduction, (const float*)p->src + o * p->src_outer, p->n);
    }
  }
}
