// Layer and RMS normalization of rows.
#include "kernel/cpu/norm/row_norm_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_reduce.h"

static void apply_row(const carnot_row_norm_f32* p, const float* src, float mean, float inv,
                      float* dst) {
  const vf32 m = v_set(mean), r = v_set(inv);
  for (int64_t i = 0; i < p->n; i += V_LANES) {
    const int64_t left = p->n - i;
    vf32 y = v_mul(v_sub(v_load_upto(src + i, left), m), r);
    if (p->scale) y = v_mul(y, v_load_upto(p->scale + i, left));
    if (p->bias) y = v_add(y, v_load_upto(p->bias + i, left));
    v_store_upto(dst + i, y, left);
  }
}

CARNOT_INLINE void norm_rows(const carnot_row_norm_f32* p, int64_t row0, int64_t row1,
                             bool centred) {
  for (int64_t row = row0; row < row1; ++row) {
    const float* src = p->src + row * p->src_ld;
    const float mean = centred ? (float)(sum_terms(SUM_OF_X, src, p->n, 0) / (double)p->n) : 0;
    const double variance = sum_terms(SUM_OF_SQUARES, src, p->n, mean) / (double)p->n;
    const float inv = (float)(1 / __builtin_sqrt(variance + (double)p->epsilon));
    if (p->mean) p->mean[row] = mean;
    if (p->inv) p->inv[row] = inv;
    apply_row(p, src, mean, inv, p->dst + row * p->dst_ld);
  }
}

void CARNOT_KERNEL(layer_norm_f32)(const carnot_row_norm_f32* p, int64_t row0, int64_t row1) {
  norm_rows(p, row0, row1, /*centred=*/true);
}

void CARNOT_KERNEL(rms_norm_f32)(const carnot_row_norm_f32* p, int64_t row0, int64_t row1) {
  norm_rows(p, row0, row1, /*centred=*/false);
}
