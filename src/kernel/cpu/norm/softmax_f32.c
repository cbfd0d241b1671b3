// Softmax and log-softmax.
#include "kernel/cpu/norm/softmax_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_math.h"
#include "kernel/cpu/common/simd_reduce.h"

enum { kPart = 16 };  // numbers of a strided sum that are one chain

// The largest lane in all lanes; NaN may get lost.
CARNOT_INLINE vf32 max_of_lanes(vf32 x) {
  CARNOT_UNROLL
  for (int half = V_LANES / 2; half; half /= 2) {
    int32_t from[V_LANES];
    for (int i = 0; i < V_LANES; ++i) from[i] = i ^ half;
    x = v_max_to(x, v_permute(x, v_iload(from)));
  }
  return x;
}

// A bound of what exp is taken of, in all lanes. NaN may get lost: exp of it is NaN, and so is the
// row's sum.
static vf32 row_max(const float* x, int64_t n) {
  enum { kChains = 4 };  // a maximum waits for the one before it
  vf32 max[kChains];
  int64_t i = 0;
  for (int c = 0; c < kChains; ++c) max[c] = v_set(-INFINITY);
  for (; i + kChains * V_LANES <= n; i += kChains * V_LANES) CARNOT_UNROLL
  for (int c = 0; c < kChains; ++c) max[c] = v_max_to(max[c], v_load(x + i + c * V_LANES));
  for (; i + V_LANES <= n; i += V_LANES) max[0] = v_max_to(max[0], v_load(x + i));
  if (i < n && n >= V_LANES) {  // the last vector again, up to the end
    max[1] = v_max_to(max[1], v_load(x + n - V_LANES));
  } else if (i < n) {
    for (; i < n; ++i) max[0] = v_max_to(max[0], v_set(x[i]));
  }
  return max_of_lanes(v_max_to(v_max_to(max[0], max[1]), v_max_to(max[2], max[3])));
}

// Stores exp(x - m), or nothing if |dst| is NULL; returns the sum.
CARNOT_INLINE float exp_of_row(const float* x, vf32 m, float* dst, int64_t n) {
  vf32 sum = v_zero();
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES) {
    __builtin_prefetch(x + n + i);  // the row that follows, which the maximum reads first
    const vf32 e = v_exp_normal(v_sub(v_load(x + i), m));
    if (dst) v_store(dst + i, e);
    sum = v_add(sum, e);
  }
  if (i < n) {
    float lanes[V_LANES];
    const vf32 e = v_exp_normal(v_sub(v_load_n(x + i, n - i), m));
    if (dst) v_store_n(dst + i, e, n - i);
    v_store(lanes, v_zero());
    v_store_n(lanes, e, n - i);
    sum = v_add(sum, v_load(lanes));
  }
  return v_sum(sum);
}

CARNOT_INLINE float log_of(float x) {
  float lanes[V_LANES];
  v_store(lanes, v_log(v_set(x)));
  return lanes[0];
}

// In blocks, so that the error does not grow with n.
static double sum_of_exp(const float* x, vf32 m, float* dst, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kSumBlock) {
    const int64_t count = min_i64(kSumBlock, n - i);
    sum += (double)(dst ? exp_of_row(x + i, m, dst + i, count) : exp_of_row(x + i, m, NULL, count));
  }
  return sum;
}

static void softmax_row(const float* src, float* dst, int64_t n, bool log) {
  const vf32 m = row_max(src, n);
  const float sum = (float)sum_of_exp(src, m, log ? NULL : dst, n);
  const vf32 scale = v_set(1 / sum), shift = v_set(log ? log_of(sum) : 0);
  for (int64_t i = 0; i < n; i += V_LANES) {
    const vf32 y = log ? v_sub(v_sub(v_load_upto(src + i, n - i), m), shift)
                       : v_mul(v_load_upto(dst + i, n - i), scale);
    v_store_upto(dst + i, y, n - i);
  }
}

// One vector of inner elements along a strided axis; the sum in parts of kPart, so that its error
// does not grow with n.
CARNOT_INLINE void softmax_strided(const carnot_softmax_f32* p, const float* src, float* dst,
                                   int64_t left, bool log) {
  vf32 max = v_set(-INFINITY), sum = v_zero();
  for (int64_t i = 0; i < p->n; ++i) max = v_max(max, v_load_upto(src + i * p->src_axis, left));
  for (int64_t begin = 0; begin < p->n; begin += kPart) {
    const int64_t end = min_i64(p->n, begin + kPart);
    vf32 part = v_zero();
    for (int64_t i = begin; i < end; ++i) {
      const vf32 e = v_exp_normal(v_sub(v_load_upto(src + i * p->src_axis, left), max));
      if (!log) v_store_upto(dst + i * p->dst_axis, e, left);
      part = v_add(part, e);
    }
    sum = v_add(sum, part);
  }
  const vf32 scale = v_div(v_set(1), sum), shift = v_log(sum);
  for (int64_t i = 0; i < p->n; ++i) {
    float* y = dst + i * p->dst_axis;
    const vf32 x = v_load_upto(src + i * p->src_axis, left);
    v_store_upto(y, log ? v_sub(v_sub(x, max), shift) : v_mul(v_load_upto(y, left), scale), left);
  }
}

// |rows| <= V_LANES rows of |n| < V_LANES numbers, a row a lane: single rows would leave most lanes
// empty.
CARNOT_INLINE void softmax_short_rows(const carnot_softmax_f32* p, const float* src, float* dst,
                                      int64_t rows, bool log) {
  float columns[V_LANES * V_LANES];
  for (int64_t o = 0; o < rows; ++o)
    for (int64_t i = 0; i < p->n; ++i) columns[i * V_LANES + o] = src[o * p->src_outer + i];
  carnot_softmax_f32 turned = *p;
  turned.src_axis = turned.dst_axis = V_LANES;
  softmax_strided(&turned, columns, columns, rows, log);
  for (int64_t o = 0; o < rows; ++o)
    for (int64_t i = 0; i < p->n; ++i) dst[o * p->dst_outer + i] = columns[i * V_LANES + o];
}

CARNOT_INLINE void softmax_rows(const carnot_softmax_f32* p, int64_t o0, int64_t o1, bool log) {
  if (p->inner == 1 && p->n < V_LANES) {
    for (int64_t o = o0; o < o1; o += V_LANES)
      softmax_short_rows(p, p->src + o * p->src_outer, p->dst + o * p->dst_outer,
                         min_i64(V_LANES, o1 - o), log);
    return;
  }
  for (int64_t o = o0; o < o1; ++o) {
    const float* src = p->src + o * p->src_outer;
    float* dst = p->dst + o * p->dst_outer;
    if (p->inner == 1) {
      softmax_row(src, dst, p->n, log);
      continue;
    }
    for (int64_t j = 0; j < p->inner; j += V_LANES) {
      softmax_strided(p, src + j, dst + j, min_i64(V_LANES, p->inner - j), log);
    }
  }
}

void CARNOT_KERNEL(softmax_f32)(const carnot_softmax_f32* p, int64_t o0, int64_t o1) {
  softmax_rows(p, o0, o1, /*log=*/false);
}

void CARNOT_KERNEL(log_softmax_f32)(const carnot_softmax_f32* p, int64_t o0, int64_t o1) {
  softmax_rows(p, o0, o1, /*log=*/true);
}
