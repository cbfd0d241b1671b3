#include "kernel/cpu/conv2d_f32.h"

#include "kernel/cpu/gemm_loop_f32.h"
#include "kernel/cpu/kernels_isa.h"

// Pointers to the input pixels under taps t0 .. t1 - 1 of |count| output pixels from m on.
static void pixels_under_taps(const void* problem, int64_t m, int count, int64_t t0, int64_t t1,
                              const float** out_rows) {
  const carnot_conv2d_f32* c = problem;
  int64_t q = m % c->q, p = m / c->q % c->p, n = m / (c->q * c->p);
  for (int i = 0; i < count; ++i) {
    const int64_t h0 = p * c->stride_h - c->pad_h, w0 = q * c->stride_w - c->pad_w;
    const float* image = c->src + n * c->src_n;
    int64_t r = t0 / c->s, s = t0 % c->s;
    for (int64_t t = t0; t < t1; ++t) {
      const int64_t h = h0 + r * c->dilation_h, w = w0 + s * c->dilation_w;
      const bool inside = (uint64_t)h < (uint64_t)c->h && (uint64_t)w < (uint64_t)c->w;
      out_rows[(t - t0) * count + i] = inside ? image + h * c->src_h + w * c->src_w : c->zeros;
      if (++s == c->s) s = 0, ++r;
    }
    if (++q == c->q) {
      q = 0;
      if (++p == c->p) p = 0, ++n;
    }
  }
}

void CARNOT_KERNEL(conv2d_f32)(const carnot_conv2d_f32* p, int64_t m0, int64_t m1, int64_t n0,
                               int64_t n1) {
  const gemm_loop_f32 loop = {pixels_under_taps, p,      p->r * p->s, p->c,        p->k,
                              p->weights,        p->dst, p->ld,       &p->epilogue};
  CARNOT_KERNEL(gemm_loop_f32)(&loop, m0, m1, n0, n1);
}
