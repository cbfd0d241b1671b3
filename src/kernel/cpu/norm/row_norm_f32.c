// Layer and RMS normalization of rows.
#include "kernel/cpu/norm/row_norm_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_reduce.h"

CARNOT_INLINE vf32 apply(bool scales, bool shifts, vf32 x, vf32 mean, vf32 inv, vf32 scale,
                         vf32 bias) {
  const vf32 y = v_mul(v_sub(x, mean), inv);
  if (scales && shifts) return v_fma(y, scale, bias);
  return scales ? v_mul(y, scale) : shifts ? v_add(y, bias) : y;
}

CARNOT_INLINE void apply_row(bool scales, bool shifts, const carnot_row_norm_f32* p,
                             const float* src, float mean, float inv, float* dst) {
  const float *scale = scales ? p->scale : src, *bias = shifts ? p->bias : src;
  const int64_t n = p->n;
  const vf32 m = v_set(mean), r = v_set(inv);
  int64_t i = 0;
  for (; i + V_LANES <= n; i += V_LANES)
    v_store(dst + i,
            apply(scales, shifts, v_load(src + i), m, r, v_load(scale + i), v_load(bias + i)));
  if (i == n) return;
  const vf32 y = apply(scales, shifts, v_load_upto(src + i, n - i), m, r,
                       v_load_upto(scale + i, n - i), v_load_upto(bias + i, n - i));
  v_store_upto(dst + i, y, n - i);
}

static void apply_to_row(const carnot_row_norm_f32* p, const float* src, float mean, float inv,
                         float* dst) {
  if (p->scale && p->bias)
    apply_row(true, true, p, src, mean, inv, dst);
  else if (p->scale)
    apply_row(true, false, p, src, mean, inv, dst);
  else if (p->bias)
    apply_row(false, true, p, src, mean, inv, dst);
  else
    apply_row(false, false, p, src, mean, inv, dst);
}

// Up to kGroup rows that stay in L1 go through each pass together: the sum of a row waits for its
// additions, not for those of the next row.
enum { kGroup = 4, kGroupFloats = 6144 };

CARNOT_INLINE void norm_rows(const carnot_row_norm_f32* p, int64_t row0, int64_t row1,
                             bool centred) {
  const int64_t group = max_i64(1, min_i64(kGroup, kGroupFloats / max_i64(1, p->n)));
  for (int64_t row = row0; row < row1; row += group) {
    const int64_t count = min_i64(group, row1 - row);
    const float* src = p->src + row * p->src_ld;
    float mean[kGroup] = {0}, inv[kGroup];
    for (int64_t i = 0; i < count && centred; ++i)
      mean[i] = (float)(sum_terms(SUM_OF_X, src + i * p->src_ld, p->n, 0) / (double)p->n);
    for (int64_t i = 0; i < count; ++i) {
      const double variance =
          sum_terms(SUM_OF_SQUARES, src + i * p->src_ld, p->n, mean[i]) / (double)p->n;
      inv[i] = (float)(1 / __builtin_sqrt(variance + (double)p->epsilon));
    }
    for (int64_t i = 0; i < count; ++i) {
      if (p->mean) p->mean[row + i] = mean[i];
      if (p->inv) p->inv[row + i] = inv[i];
      apply_to_row(p, src + i * p->src_ld, mean[i], inv[i], p->dst + (row + i) * p->dst_ld);
    }
  }
}

void CARNOT_KERNEL(layer_norm_f32)(const carnot_row_norm_f32* p, int64_t row0, int64_t row1) {
  norm_rows(p, row0, row1, /*centred=*/true);
}

void CARNOT_KERNEL(rms_norm_f32)(const carnot_row_norm_f32* p, int64_t row0, int64_t row1) {
  norm_rows(p, row0, row1, /*centred=*/false);
}
