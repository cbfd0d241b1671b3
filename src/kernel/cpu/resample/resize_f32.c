// Separable resize by tables of taps, channels last.
#include "kernel/cpu/resample/resize_f32.h"

#include "kernel/cpu/common/kernels_isa.h"

// |image| and |dst| are element indices.
static void nearest_pixel(bool is_bf16, const carnot_resize_f32* p, int64_t image, int64_t row,
                          int64_t q, int64_t dst) {
  const int64_t bytes = is_bf16 ? 2 : 4,
                src = image + p->h_index[row] * p->src_h + p->w_index[q] * p->src_w;
  memcpy((char*)p->dst + dst * bytes, (const char*)p->src + src * bytes, (size_t)(p->c * bytes));
}

CARNOT_INLINE void linear_pixel(bool is_bf16, const carnot_resize_f32* p, int64_t image,
                                int64_t row, int64_t q, int64_t dst) {
  const int32_t *h = p->h_index + 2 * row, *w = p->w_index + 2 * q;
  const int64_t a = image + h[0] * p->src_h + w[0] * p->src_w, b = a + (w[1] - w[0]) * p->src_w;
  const int64_t down = (h[1] - h[0]) * p->src_h;
  const vf32 left = v_set(p->w_weight[2 * q]), right = v_set(p->w_weight[2 * q + 1]);
  const vf32 upper = v_set(p->h_weight[2 * row]), lower = v_set(p->h_weight[2 * row + 1]);
  for (int64_t c = 0; c < p->c; c += V_LANES) {
    const int64_t n = p->c - c;
    const vf32 a0 = v_load_stored(is_bf16, p->src, a + c, n),
               b0 = v_load_stored(is_bf16, p->src, b + c, n),
               a1 = v_load_stored(is_bf16, p->src, a + down + c, n),
               b1 = v_load_stored(is_bf16, p->src, b + down + c, n);
    const vf32 top = v_fma(a0, left, v_mul(b0, right)), bottom = v_fma(a1, left, v_mul(b1, right));
    v_store_stored(is_bf16, p->dst, dst + c, v_fma(top, upper, v_mul(bottom, lower)), n);
  }
}

CARNOT_INLINE void weighted_pixel(bool is_bf16, const carnot_resize_f32* p, int64_t image,
                                  int64_t row, int64_t q, int64_t dst) {
  for (int64_t c = 0; c < p->c; c += V_LANES) {
    const int64_t n = p->c - c;
    vf32 sum = v_zero();
    for (int64_t r = row * p->taps_h; r < (row + 1) * p->taps_h; ++r) {
      const int64_t src = image + p->h_index[r] * p->src_h + c;
      const float scale = p->taps_h > 1 ? p->h_weight[r] : 1;
      for (int64_t s = q * p->taps_w; s < (q + 1) * p->taps_w; ++s) {
        const float weight = p->taps_w > 1 ? scale * p->w_weight[s] : scale;
        const vf32 x = v_load_stored(is_bf16, p->src, src + p->w_index[s] * p->src_w, n);
        sum = v_fma(x, v_set(weight), sum);
      }
    }
    v_store_stored(is_bf16, p->dst, dst + c, sum, n);
  }
}

CARNOT_INLINE void resize_rows(bool is_bf16, const carnot_resize_f32* p, int64_t row0,
                               int64_t row1) {
  for (int64_t row = row0; row < row1; ++row) {
    const int64_t image = row / p->p * p->src_n;
    for (int64_t q = 0; q < p->q; ++q) {
      const int64_t dst = (row * p->q + q) * p->ld;
      if (p->taps_h == 1 && p->taps_w == 1) {
        nearest_pixel(is_bf16, p, image, row % p->p, q, dst);
      } else if (p->taps_h == 2 && p->taps_w == 2) {
        linear_pixel(is_bf16, p, image, row % p->p, q, dst);
      } else {
        weighted_pixel(is_bf16, p, image, row % p->p, q, dst);
      }
    }
  }
}

void CARNOT_KERNEL(resize_f32)(const carnot_resize_f32* p, int64_t row0, int64_t row1) {
  if (p->is_bf16)
    resize_rows(true, p, row0, row1);
  else
    resize_rows(false, p, row0, row1);
}
