// Sums of shifted columns, a vector of channels at a time.
#include "kernel/cpu/conv/sum_columns_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

// |left| channels from |k| on.
CARNOT_INLINE void sum_channels(const carnot_sum_columns_f32* p, int64_t k, int64_t left) {
  const float* bias = p->epilogue.bias;
  const vf32 first = bias ? v_load_upto(bias + k, left) : v_zero();
  const int64_t step = p->dilation * p->src_ld + p->k;
  const float* src = p->src + k;
  for (int64_t q = 0; q < p->q; ++q, src += p->src_ld) {
    vf32 sum[2] = {first, v_zero()};
    const float* x = src;
    int64_t s = 0;
    for (; s + 2 <= p->s; s += 2, x += 2 * step) {
      sum[0] = v_add(sum[0], v_load_upto(x, left));
      sum[1] = v_add(sum[1], v_load_upto(x + step, left));
    }
    if (s < p->s) sum[0] = v_add(sum[0], v_load_upto(x, left));
    v_store_upto(p->dst + q * p->dst_ld + k, v_add(sum[0], sum[1]), left);
  }
}

void CARNOT_KERNEL(sum_columns_f32)(const carnot_sum_columns_f32* p) {
  const carnot_epilogue_f32* e = &p->epilogue;
  for (int64_t k = 0; k < p->k; k += V_LANES) sum_channels(p, k, min_i64(V_LANES, p->k - k));
  if (p->dst_ld == p->k)
    CARNOT_KERNEL(activate_f32)(e->activation, e->a, e->b, p->dst, 0, 1, p->q * p->k);
  else
    CARNOT_KERNEL(activate_f32)(e->activation, e->a, e->b, p->dst, p->dst_ld, p->q, p->k);
}
