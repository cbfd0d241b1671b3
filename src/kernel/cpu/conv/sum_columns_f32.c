// Sums of shifted columns: the columns of a span of pixels are transposed, so that vectors hold
// pixels.
#include "kernel/cpu/conv/sum_columns_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/copy/transpose.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

// Filter |k| of |n| pixels.
CARNOT_INLINE void sum_filter(const carnot_sum_columns_f32* p, int64_t k, int64_t n, float* dst) {
  const int64_t ld = carnot_sum_columns_ld(p), step = p->k * ld + p->dilation;
  const vf32 first = v_set(p->epilogue.bias ? p->epilogue.bias[k] : 0);
  for (int64_t q = 0; q < n; q += V_LANES) {
    const float* x = p->scratch + k * ld + q;
    vf32 sum[2] = {first, v_zero()};
    int64_t s = 0;
    for (; s + 2 <= p->s; s += 2, x += 2 * step) {
      sum[0] = v_add(sum[0], v_load_upto(x, n - q));
      sum[1] = v_add(sum[1], v_load_upto(x + step, n - q));
    }
    if (s < p->s) sum[0] = v_add(sum[0], v_load_upto(x, n - q));
    v_store_upto(dst + q, v_add(sum[0], sum[1]), n - q);
  }
}

void CARNOT_KERNEL(sum_columns_f32)(const carnot_sum_columns_f32* p) {
  const carnot_epilogue_f32* e = &p->epilogue;
  for (int64_t q = 0; q < p->q; q += CARNOT_SUM_COLUMNS_SPAN) {
    const int64_t n = min_i64(CARNOT_SUM_COLUMNS_SPAN, p->q - q);
    CARNOT_KERNEL(transpose_f32)
    (n + (p->s - 1) * p->dilation, p->s * p->k, p->src + q * p->src_ld, p->src_ld, p->scratch,
     carnot_sum_columns_ld(p));
    for (int64_t k = 0; k < p->k; ++k) sum_filter(p, k, n, p->dst + k * p->dst_ld + q);
    CARNOT_KERNEL(activate_f32)(e->activation, e->a, e->b, p->dst + q, p->dst_ld, p->k, n);
  }
}
