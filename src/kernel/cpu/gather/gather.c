// Gather of rows, and ArgMax and ArgMin.
#include "kernel/cpu/gather/gather.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_reduce.h"

enum { kPanel = 16 };

// The row that an index means, or -1.
static int64_t row_at(int64_t index, int64_t rows) {
  const int64_t row = index < 0 ? index + rows : index;
  return row >= 0 && row < rows ? row : -1;
}

int64_t CARNOT_KERNEL(gather_rows)(int64_t rows, int64_t row_bytes, const void* src,
                                   int64_t src_stride, int64_t count, const int64_t* index,
                                   void* dst, int64_t dst_stride) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = row_at(index[i], rows);
    if (row < 0) return i;
    memcpy((char*)dst + i * dst_stride, (const char*)src + row * src_stride, (size_t)row_bytes);
  }
  return count;
}

int64_t CARNOT_KERNEL(gather_panel_rows_f32)(int64_t rows, int64_t k, const float* packed,
                                             int64_t count, const int64_t* index, float* dst,
                                             int64_t dst_ld) {
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = row_at(index[i], rows);
    if (row < 0) return i;
    const float* src = packed + row / kPanel * k * kPanel + row % kPanel;
    for (int64_t j = 0; j < k; ++j) dst[i * dst_ld + j] = src[j * kPanel];
  }
  return count;
}

// Whether x goes before best.
static bool beats(float x, float best, bool min, bool last) {
  if (best != best) return last && x != x;
  if (x != x || (last && x == best)) return true;
  return min ? x < best : x > best;
}

CARNOT_INLINE vmask is_one_of(vf32 x, vf32 extreme, bool nan) {
  return nan ? v_is_nan(x) : v_eq(x, extreme);
}

// First the extreme value, by vectors; then its index: the vector that holds it, and its place.
static int64_t arg_of_row(const carnot_arg_extreme_f32* p, const float* x) {
  const int64_t n = p->n;
  const float extreme = p->min ? extreme_of(x, n, /*max=*/false) : extreme_of(x, n, /*max=*/true);
  const bool nan = extreme != extreme;
  const vf32 wanted = v_set(extreme);
  if (p->last) {
    int64_t end = n;
    while (end >= V_LANES && !v_m_any(is_one_of(v_load(x + end - V_LANES), wanted, nan)))
      end -= V_LANES;
    do --end;
    while (nan ? x[end] == x[end] : x[end] != extreme);
    return end;
  }
  int64_t i = 0;
  while (i + V_LANES <= n && !v_m_any(is_one_of(v_load(x + i), wanted, nan))) i += V_LANES;
  while (nan ? x[i] == x[i] : x[i] != extreme) ++i;
  return i;
}

// V_LANES columns: the extreme so far of each, and its index, of which 2^24 are exact in float32.
CARNOT_INLINE void arg_of_columns(const carnot_arg_extreme_f32* p, const float* src, int64_t* dst,
                                  int64_t left, bool min, bool last) {
  vf32 best = v_load_upto(src, left), index = v_zero();
  for (int64_t i = 1; i < p->n; ++i) {
    const vf32 x = v_load_upto(src + i * p->src_axis, left);
    const vmask more = min ? v_lt(x, best) : v_lt(best, x);
    vmask beats = v_m_and(v_is_nan(x), v_m_not(v_is_nan(best)));  // NaN beats numbers
    beats = v_m_or(beats, more);
    if (last) beats = v_m_or(beats, v_m_or(v_eq(x, best), v_m_and(v_is_nan(x), v_is_nan(best))));
    best = v_select(beats, x, best);
    index = v_select(beats, v_set((float)i), index);
  }
  float lanes[V_LANES];
  v_store(lanes, index);
  for (int64_t j = 0; j < left; ++j) dst[j] = (int64_t)lanes[j];
}

static void arg_of_block(const carnot_arg_extreme_f32* p, const float* src, int64_t* dst) {
  for (int64_t j = 0; j < p->inner; j += V_LANES) {
    const int64_t left = min_i64(V_LANES, p->inner - j);
    if (p->last) {
      arg_of_columns(p, src + j, dst + j, left, p->min, true);
    } else if (p->min) {
      arg_of_columns(p, src + j, dst + j, left, true, false);
    } else {
      arg_of_columns(p, src + j, dst + j, left, false, false);
    }
  }
}

// Axes of 2^24 elements and more: by single elements.
static void arg_of_long_columns(const carnot_arg_extreme_f32* p, const float* src, int64_t* dst) {
  for (int64_t j = 0; j < p->inner; ++j) {
    dst[j] = 0;
    for (int64_t i = 1; i < p->n; ++i) {
      const float x = src[i * p->src_axis + j], best = src[dst[j] * p->src_axis + j];
      if (beats(x, best, p->min, p->last)) dst[j] = i;
    }
  }
}

void CARNOT_KERNEL(arg_extreme_f32)(const carnot_arg_extreme_f32* p, int64_t o0, int64_t o1) {
  for (int64_t o = o0; o < o1; ++o) {
    const float* src = p->src + o * p->src_outer;
    int64_t* dst = p->dst + o * p->inner;
    if (p->inner == 1 && p->src_axis == 1) {
      *dst = arg_of_row(p, src);
    } else if (p->n < 1 << 24) {
      arg_of_block(p, src, dst);
    } else {
      arg_of_long_columns(p, src, dst);
    }
  }
}
