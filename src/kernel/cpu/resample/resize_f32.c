// Separable resize by tables of taps, channels last.
#include "kernel/cpu/resample/resize_f32.h"

#include "kernel/cpu/common/kernels_isa.h"

static void nearest_pixel(const carnot_resize_f32* p, const float* image, int64_t row, int64_t q,
                          float* dst) {
  const float* src = image + p->h_index[row] * p->src_h + p->w_index[q] * p->src_w;
  memcpy(dst, src, (size_t)p->c * sizeof *dst);
}

static void linear_pixel(const carnot_resize_f32* p, const float* image, int64_t row, int64_t q,
                         float* dst) {
  const int32_t *h = p->h_index + 2 * row, *w = p->w_index + 2 * q;
  const float *a = image + h[0] * p->src_h + w[0] * p->src_w, *b = a + (w[1] - w[0]) * p->src_w;
  const int64_t down = (h[1] - h[0]) * p->src_h;
  const vf32 left = v_set(p->w_weight[2 * q]), right = v_set(p->w_weight[2 * q + 1]);
  const vf32 upper = v_set(p->h_weight[2 * row]), lower = v_set(p->h_weight[2 * row + 1]);
  for (int64_t c = 0; c < p->c; c += V_LANES) {
    const int64_t n = p->c - c;
    const vf32 top = v_fma(v_load_upto(a + c, n), left, v_mul(v_load_upto(b + c, n), right));
    const vf32 bottom =
        v_fma(v_load_upto(a + down + c, n), left, v_mul(v_load_upto(b + down + c, n), right));
    v_store_upto(dst + c, v_fma(top, upper, v_mul(bottom, lower)), n);
  }
}

static void weighted_pixel(const carnot_resize_f32* p, const float* image, int64_t row, int64_t q,
                           float* dst) {
  for (int64_t c = 0; c < p->c; c += V_LANES) {
    const int64_t n = p->c - c;
    vf32 sum = v_zero();
    for (int64_t r = row * p->taps_h; r < (row + 1) * p->taps_h; ++r) {
      const float* src = image + p->h_index[r] * p->src_h + c;
      const float scale = p->taps_h > 1 ? p->h_weight[r] : 1;
      for (int64_t s = q * p->taps_w; s < (q + 1) * p->taps_w; ++s) {
        const float weight = p->taps_w > 1 ? scale * p->w_weight[s] : scale;
        sum = v_fma(v_load_upto(src + p->w_index[s] * p->src_w, n), v_set(weight), sum);
      }
    }
    v_store_upto(dst + c, sum, n);
  }
}

void CARNOT_KERNEL(resize_f32)(const carnot_resize_f32* p, int64_t row0, int64_t row1) {
  for (int64_t row = row0; row < row1; ++row) {
    const float* image = p->src + row / p->p * p->src_n;
    for (int64_t q = 0; q < p->q; ++q) {
      float* dst = p->dst + (row * p->q + q) * p->ld;
      if (p->taps_h == 1 && p->taps_w == 1) {
        nearest_pixel(p, image, row % p->p, q, dst);
      } else if (p->taps_h == 2 && p->taps_w == 2) {
        linear_pixel(p, image, row % p->p, q, dst);
      } else {
        weighted_pixel(p, image, row % p->p, q, dst);
      }
    }
  }
}
