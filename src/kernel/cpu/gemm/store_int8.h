// Stores sums of integer products by carnot_int8_epilogue; private to the integer kernels. |bias|
// is that of the epilogue, or NULL where the sums hold it.
#ifndef CARNOT_KERNEL_CPU_GEMM_STORE_INT8_H_
#define CARNOT_KERNEL_CPU_GEMM_STORE_INT8_H_

#include <math.h>

#include "kernel/cpu/common/epilogue_int8.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum { kMostSums = 64 };  // of one call of store_sums

CARNOT_INLINE vf32 residual_at(const carnot_int8_epilogue* e, int64_t at, int64_t count) {
  if (e->residual_type == CARNOT_INT8_RESIDUAL_F32)
    return v_load_upto((const float*)e->residual + at, count);
  const bool is_signed = e->residual_type == CARNOT_INT8_RESIDUAL_S8;
  const vf32 x = v_load_bytes_upto((const uint8_t*)e->residual + at, count, is_signed);
  return v_mul(v_sub(x, v_set((float)e->residual_zero)), v_set(e->residual_scale));
}

// Bounds the inner quantization less its zero point. Bounds are integers: it is the same to bound
// before or after rounding.
CARNOT_INLINE vf32 inner_bounded(const carnot_int8_epilogue* e, vf32 v) {
  return v_min_to(v_set((float)e->inner_high), v_max_to(v_set((float)e->inner_low), v));
}

typedef struct row_bounds {  // what relu and clip do in registers
  vf32 lo, hi;
  bool any;    // there is such a bound
  bool later;  // another activation passes over the row once more
} row_bounds;

CARNOT_INLINE row_bounds bounds_of(const carnot_int8_epilogue* e) {
  switch (e->activation) {
    case CARNOT_KERNEL_ACTIVATION_NONE: return (row_bounds){v_zero(), v_zero(), false, false};
    case CARNOT_KERNEL_ACTIVATION_RELU: return (row_bounds){v_zero(), v_set(INFINITY), true, false};
    case CARNOT_KERNEL_ACTIVATION_CLIP: return (row_bounds){v_set(e->a), v_set(e->b), true, false};
    default: return (row_bounds){v_zero(), v_zero(), false, true};
  }
}

// A vector of sums with their bias as floats, scaled, with the offset and residual (m,n).
CARNOT_INLINE vf32 scaled_sums(const carnot_int8_epilogue* e, vi32 sum, vf32 scale, int64_t m,
                               int64_t n, int64_t count) {
  vf32 y = v_mul(v_of_int(sum), scale);
  if (e->is_twice) {
    y = v_select(v_is_nan(y), v_zero(), y);
    y = v_mul(v_round(inner_bounded(e, y)), v_set(e->inner_scale));
  }
  if (e->offset) y = v_add(y, v_load_upto(e->offset + n, count));
  if (e->residual_type) y = v_add(y, residual_at(e, m * e->residual_ld + n, count));
  return y;
}

// Quantizes |count| <= V_LANES floats.
CARNOT_INLINE void store_bytes(const carnot_int8_epilogue* e, vf32 y, uint8_t* dst, int64_t count) {
  if (e->divisor != 1) y = v_div(y, v_set(e->divisor));
  vf32 q = v_round(y);
  q = v_add(v_select(v_is_nan(q), v_zero(), q), v_set((float)e->zero_point));
  q = v_min_to(v_set((float)e->high), v_max_to(v_set((float)e->low), q));
  v_store_bytes_upto(dst, v_to_int(q), count);
}

CARNOT_INLINE void store_s32(const int32_t* bias, void* dst, int64_t at, int64_t n, int64_t columns,
                             const int32_t* sums) {
  int32_t* out = (int32_t*)dst + at;
  for (int64_t j = 0; j < columns; ++j) {
    out[j] = bias ? (int32_t)((uint32_t)sums[j] + (uint32_t)bias[n + j]) : sums[j];
  }
}

enum {
  kSmallColumns = 32,
  kSmallVectors = kSmallColumns / V_LANES,
  kSmallRows = kSmallVectors > 4 ? 2 : 8 / kSmallVectors,  // at a time
  kSmallTogether = kSmallRows * kSmallVectors
};

// Bias and scale of up to 32 columns; 0 beyond.
typedef struct small_columns {
  vi32 bias[kSmallVectors];
  vf32 scale[kSmallVectors];
} small_columns;

CARNOT_INLINE small_columns load_columns(const carnot_int8_epilogue* e, const int32_t* bias,
                                         int64_t n, int64_t columns) {
  small_columns c;
  CARNOT_UNROLL
  for (int i = 0; i < kSmallVectors; ++i) {
    const int64_t left = columns - i * V_LANES, at = n + i * V_LANES;
    c.bias[i] = v_iset(0), c.scale[i] = v_zero();
    if (left <= 0) continue;
    c.scale[i] = v_load_upto(e->scale + at, left);
    if (bias) c.bias[i] = left >= V_LANES ? v_iload(bias + at) : v_iload_n(bias + at, left);
  }
  return c;
}

typedef enum small_form {
  SMALL_PLAIN,
  SMALL_RESIDUAL_U8,
  SMALL_RESIDUAL_S8,
  SMALL_TWICE_U8,
  SMALL_TWICE_S8
} small_form;

CARNOT_INLINE small_form form_of(const carnot_int8_epilogue* e) {
  const bool is_signed = e->residual_type == CARNOT_INT8_RESIDUAL_S8;
  if (e->is_twice) return is_signed ? SMALL_TWICE_S8 : SMALL_TWICE_U8;
  if (!e->residual_type) return SMALL_PLAIN;
  return is_signed ? SMALL_RESIDUAL_S8 : SMALL_RESIDUAL_U8;
}

typedef struct small_source {
  const uint8_t* residual;
  int64_t residual_ld;
  const int32_t* sums;
  int64_t sum_ld;
} small_source;

// The integers of up to 32 columns of |count| rows, a row |step| rows behind the other. Of eight
// vectors each operation is done before the next one begins: in this order the ports of a processor
// stay busy, which else wait for chains of results (beside AMX one port of two multiplies).
CARNOT_INLINE void small_rows(const carnot_int8_epilogue* e, small_form form, int count,
                              const small_columns* c, int64_t columns, const small_source* from,
                              int64_t step, vi32* q) {
  const int vectors = count * kSmallVectors;
  const bool is_signed = form == SMALL_RESIDUAL_S8 || form == SMALL_TWICE_S8;
  vf32 y[kSmallTogether], r[kSmallTogether];
#define EACH    \
  CARNOT_UNROLL \
  for (int i = 0; i < vectors; ++i)
#define BEFORE_THE_NEXT(x) \
  if (vectors == 8) V_ALL_8(x)
  EACH {
    const int v = i % kSmallVectors;
    const int64_t row = i / kSmallVectors * step, at = v * V_LANES, left = columns - at;
    q[i] = v_iset(0), r[i] = v_zero();
    if (left <= 0) continue;
    q[i] = v_iadd(v_iload(from->sums + row * from->sum_ld + at), c->bias[v]);
    if (form != SMALL_PLAIN)
      r[i] = v_load_bytes_upto(from->residual + row * from->residual_ld + at, left, is_signed);
  }
  BEFORE_THE_NEXT(q);
  EACH y[i] = v_of_int(q[i]);
  BEFORE_THE_NEXT(y);
  EACH y[i] = v_mul(y[i], c->scale[i % kSmallVectors]);
  BEFORE_THE_NEXT(y);
  if (form == SMALL_RESIDUAL_U8 || form == SMALL_RESIDUAL_S8) {
    EACH r[i] = v_sub(r[i], v_set((float)e->residual_zero));
    EACH y[i] = v_add(y[i], v_mul(r[i], v_set(e->residual_scale)));
  }
  if (form == SMALL_TWICE_U8 || form == SMALL_TWICE_S8) {
    EACH r[i] = v_fma(r[i], v_set(e->residual_factor), v_set(e->residual_base));
    BEFORE_THE_NEXT(r);
    EACH y[i] = inner_bounded(e, y[i]);
    BEFORE_THE_NEXT(y);
    EACH y[i] = v_of_int(v_to_int(y[i]));
    BEFORE_THE_NEXT(y);
    EACH y[i] = v_fma(y[i], v_set(e->inner_factor), r[i]);
    BEFORE_THE_NEXT(y);
  }
  EACH q[i] = v_to_int(y[i]);
  BEFORE_THE_NEXT(q);
#undef EACH
#undef BEFORE_THE_NEXT
}

// |count| rows of |columns| <= 32 columns of small results, a row |step| rows behind the other.
CARNOT_INLINE void store_small_group(const carnot_int8_epilogue* to, small_form form, int count,
                                     const small_columns* c, int64_t columns,
                                     const small_source* from, int64_t step, uint8_t* dst,
                                     int64_t ld) {
  vi32 q[kSmallTogether];
  small_rows(to, form, count, c, columns, from, step, q);
  CARNOT_UNROLL
  for (int i = 0; i < count; i += 2)
    v_store_clamped_2x32(dst + i * step * ld, dst + (i + 1) * step * ld, q + i * kSmallVectors,
                         q + (i + 1) * kSmallVectors, to->zero_point, to->low, to->high,
                         to->output == CARNOT_INT8_OUTPUT_S8, columns);
}

// |rows| rows, some at a time; of an odd number the last one twice. |to| is a copy: stores of bytes
// might change the caller's.
CARNOT_INLINE void store_small_rows(carnot_int8_epilogue to, const int32_t* bias, small_form form,
                                    uint8_t* dst, int64_t ld, int64_t m, int64_t rows, int64_t n,
                                    int64_t columns, const int32_t* sums, int64_t sum_ld) {
  const small_columns c = load_columns(&to, bias, n, columns);
  small_source from = {(const uint8_t*)to.residual + m * to.residual_ld + n, to.residual_ld, sums,
                       sum_ld};
  for (int64_t row = 0, count; row < rows; row += count) {
    const int64_t left = rows - row;
    count = left >= kSmallRows ? kSmallRows : 2;
    if (left >= kSmallRows)
      store_small_group(&to, form, kSmallRows, &c, columns, &from, /*step=*/1, dst, ld);
    else
      store_small_group(&to, form, 2, &c, columns, &from, /*step=*/left > 1, dst, ld);
    dst += count * ld, from.sums += count * sum_ld, from.residual += count * to.residual_ld;
  }
}

// |sums| [rows][sum_ld]. Whole tiles have no branches.
CARNOT_INLINE void store_small(const carnot_int8_epilogue* e, const int32_t* bias, uint8_t* dst,
                               int64_t ld, int64_t m, int64_t rows, int64_t n, int64_t columns,
                               const int32_t* sums, int64_t sum_ld) {
  const small_form form = form_of(e);
#define STORE_SMALL(form, count) \
  store_small_rows(*e, bias, form, dst, ld, m, rows, n, count, sums, sum_ld)
  if (columns < kSmallColumns)
    STORE_SMALL(form, columns);
  else if (form == SMALL_PLAIN)
    STORE_SMALL(SMALL_PLAIN, kSmallColumns);
  else if (form == SMALL_TWICE_U8)
    STORE_SMALL(SMALL_TWICE_U8, kSmallColumns);
  else if (form == SMALL_TWICE_S8)
    STORE_SMALL(SMALL_TWICE_S8, kSmallColumns);
  else if (form == SMALL_RESIDUAL_U8)
    STORE_SMALL(SMALL_RESIDUAL_U8, kSmallColumns);
  else
    STORE_SMALL(SMALL_RESIDUAL_S8, kSmallColumns);
#undef STORE_SMALL
}

// Whether store_small serves; its factors are those of a fused multiply-add.
CARNOT_INLINE bool takes_small(const carnot_int8_epilogue* e) {
  return e->is_small && (V_FMA_IS_FUSED || !e->is_twice);
}

// The range so far, in lanes. Without one nothing is loaded or stored.
typedef struct range_lanes {
  vf32 low, high;
} range_lanes;

CARNOT_INLINE range_lanes load_range(const float* range) {
  return (range_lanes){range ? v_load(range) : v_zero(),
                       range ? v_load(range + CARNOT_INT8_RANGE_LANES) : v_zero()};
}

CARNOT_INLINE void extend(range_lanes* r, vf32 v) {
  r->low = v_min_to(v, r->low), r->high = v_max_to(v, r->high);
}

CARNOT_INLINE void store_range(range_lanes r, float* range) {
  if (!range) return;
  v_store(range, r.low), v_store(range + CARNOT_INT8_RANGE_LANES, r.high);
}

// Takes rows of |columns| floats into the range.
CARNOT_INLINE void extend_range(float* range, const float* y, int64_t ld, int64_t rows,
                                int64_t columns) {
  range_lanes r = load_range(range);
  for (int64_t row = 0; row < rows; ++row, y += ld)
    for (int64_t j = 0; j < columns; j += V_LANES) extend(&r, v_load_upto(y + j, columns - j));
  store_range(r, range);
}

// |rows| rows of |columns| <= 32 float32 results. |to| is a copy: stores of floats might change the
// caller's.
CARNOT_INLINE void store_float_rows(carnot_int8_epilogue to, const int32_t* bias, float* dst,
                                    int64_t ld, int64_t m, int64_t rows, int64_t n, int64_t columns,
                                    const int32_t* sums, int64_t sum_ld) {
  const small_columns c = load_columns(&to, bias, n, columns);
  const row_bounds bounds = bounds_of(&to);
  const bool whole = columns % V_LANES == 0;
  float* const range = whole && !bounds.later ? to.range : NULL;
  range_lanes r = load_range(range);
  for (int64_t row = 0; row < rows; ++row) {
    CARNOT_UNROLL
    for (int i = 0; i < kSmallVectors; ++i) {
      const int64_t at = i * V_LANES, left = columns - at;
      if (left <= 0) continue;
      const vi32 sum = v_iadd(v_iload(sums + row * sum_ld + at), c.bias[i]);
      vf32 y = scaled_sums(&to, sum, c.scale[i], m + row, n + at, left);
      if (bounds.any) y = v_min_to(bounds.hi, v_max_to(bounds.lo, y));
      v_store_upto(dst + row * ld + at, y, left);
      if (range) extend(&r, y);
    }
  }
  store_range(r, range);
  if (bounds.later) CARNOT_KERNEL(activate_f32)(to.activation, to.a, to.b, dst, ld, rows, columns);
  if (to.range && !range) extend_range(to.range, dst, ld, rows, columns);
}

CARNOT_INLINE void store_floats(const carnot_int8_epilogue* e, const int32_t* bias, float* dst,
                                int64_t ld, int64_t m, int64_t rows, int64_t n, int64_t columns,
                                const int32_t* sums, int64_t sum_ld) {
  if (columns == kSmallColumns)
    store_float_rows(*e, bias, dst, ld, m, rows, n, kSmallColumns, sums, sum_ld);
  else
    store_float_rows(*e, bias, dst, ld, m, rows, n, columns, sums, sum_ld);
}

// Sums of columns [n, n + |columns|) of row m to bytes, by whatever the epilogue says.
CARNOT_INLINE void store_quantized(const carnot_int8_epilogue* e, const int32_t* bias, uint8_t* dst,
                                   int64_t m, int64_t n, int64_t columns, const int32_t* sums) {
  const row_bounds bounds = bounds_of(e);
  float rest[kMostSums];
  for (int64_t j = 0; j < columns; j += V_LANES) {
    const int64_t count = min_i64(V_LANES, columns - j), at = n + j;
    vi32 sum = v_iload(sums + j);
    if (bias)
      sum = v_iadd(sum, count >= V_LANES ? v_iload(bias + at) : v_iload_n(bias + at, count));
    vf32 x = scaled_sums(e, sum, v_load_upto(e->scale + at, count), m, at, count);
    if (bounds.any) x = v_min_to(bounds.hi, v_max_to(bounds.lo, x));
    if (bounds.later)
      v_store_upto(rest + j, x, count);
    else
      store_bytes(e, x, dst + j, count);
  }
  if (!bounds.later) return;
  CARNOT_KERNEL(activate_f32)(e->activation, e->a, e->b, rest, 0, 1, columns);
  for (int64_t j = 0; j < columns; j += V_LANES) {
    const int64_t count = min_i64(V_LANES, columns - j);
    store_bytes(e, v_load_upto(rest + j, count), dst + j, count);
  }
}

// Sums of columns [n, n + |columns|) of row m; |sums| has kMostSums entries, of which those beyond
// |columns| are ignored. dst[m,n] is element |at| of |dst|.
static void store_sums(const carnot_int8_epilogue* e, const int32_t* bias, void* dst, int64_t at,
                       int64_t m, int64_t n, int64_t columns, const int32_t* sums) {
  if (e->output == CARNOT_INT8_OUTPUT_S32) {
    store_s32(bias, dst, at, n, columns, sums);
    return;
  }
  const bool is_float = e->output == CARNOT_INT8_OUTPUT_F32, small = takes_small(e);
  for (int64_t j = 0; (small || is_float) && j < columns; j += kSmallColumns) {
    const int64_t count = min_i64(kSmallColumns, columns - j);
    if (small)
      store_small(e, bias, (uint8_t*)dst + at + j, 0, m, 1, n + j, count, sums + j, 0);
    else
      store_floats(e, bias, (float*)dst + at + j, 0, m, 1, n + j, count, sums + j, 0);
  }
  if (!small && !is_float) store_quantized(e, bias, (uint8_t*)dst + at, m, n, columns, sums);
}

// Sums [rows][sum_ld] of columns [n, n + |columns|), up to 32, of rows from m on; dst[m,n] is
// element m * ld + n of |dst|.
CARNOT_INLINE void store_rows(const carnot_int8_epilogue* e, const int32_t* bias, void* dst,
                              int64_t ld, int64_t m, int64_t rows, int64_t n, int64_t columns,
                              const int32_t* sums, int64_t sum_ld) {
  if (takes_small(e)) {
    store_small(e, bias, (uint8_t*)dst + m * ld + n, ld, m, rows, n, columns, sums, sum_ld);
    return;
  }
  if (e->output == CARNOT_INT8_OUTPUT_F32) {
    store_floats(e, bias, (float*)dst + m * ld + n, ld, m, rows, n, columns, sums, sum_ld);
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    store_sums(e, bias, dst, (m + i) * ld + n, m + i, n, columns, sums + i * sum_ld);
}

#endif
