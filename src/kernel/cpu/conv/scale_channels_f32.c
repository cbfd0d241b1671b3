// Pixels with scaled channels, a vector of channels at a time.
#include "kernel/cpu/conv/scale_channels_f32.h"

#include "kernel/cpu/common/kernels_isa.h"

CARNOT_INLINE void scale_as(const carnot_scale_channels_f32* p, bool src_is_bf16,
                            bool dst_is_bf16) {
  for (int64_t m = 0; m < p->m; ++m) {
    const int64_t from = m * p->src_ld, to = m * p->dst_ld;
    int64_t c = 0;
    for (; c + V_LANES <= p->c; c += V_LANES)
      v_store_stored(
          dst_is_bf16, p->dst, to + c,
          v_mul(v_load_stored(src_is_bf16, p->src, from + c, V_LANES), v_load(p->scale + c)),
          V_LANES);
    if (c < p->c)
      v_store_stored(dst_is_bf16, p->dst, to + c,
                     v_mul(v_load_stored(src_is_bf16, p->src, from + c, p->c - c),
                           v_load_n(p->scale + c, p->c - c)),
                     p->c - c);
  }
}

void CARNOT_KERNEL(scale_channels_f32)(const carnot_scale_channels_f32* p) {
  if (p->src_is_bf16 && p->dst_is_bf16) {
    scale_as(p, true, true);
  } else if (p->dst_is_bf16) {
    scale_as(p, false, true);
  } else {
    scale_as(p, p->src_is_bf16, false);
  }
}
