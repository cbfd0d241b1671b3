// Rows of convolutions of few filters. Tiles of filters and vectors of pixels hold their sums in
// registers.
#include "kernel/cpu/conv/conv2d_planes_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum {
  kPlanesBlock = 256,  // numbers of a sum that are accumulated in a row
#if defined(__AVX512F__)
  kAccumulators = 24
#else
  kAccumulators = 12
#endif
};

// Adds the terms of |channels| channels of one filter row to |sums| [K,V]. |x|: the first pixel of
// the first channel.
CARNOT_INLINE void add_channels(int filters, int vectors, const carnot_conv2d_planes_f32* p,
                                const float* x, const float* w, int64_t channels, float* sums) {
  vf32 sum[kAccumulators];
  CARNOT_UNROLL
  for (int i = 0; i < filters * vectors; ++i) sum[i] = v_zero();
  for (int64_t c = 0; c < channels; ++c, x += p->ld) {
    const float* at = x;
    for (int64_t s = 0; s < p->s; ++s, at += p->dilation, w += filters) {
      vf32 weight[CARNOT_CONV2D_PLANES_FILTERS];
      CARNOT_UNROLL
      for (int k = 0; k < filters; ++k) weight[k] = v_set(w[k]);
      CARNOT_UNROLL
      for (int v = 0; v < vectors; ++v) {
        vf32 pixels = v_load(at + v * V_LANES);
        V_KEEP(pixels);
        CARNOT_UNROLL
        for (int k = 0; k < filters; ++k)
          sum[k * vectors + v] = v_fma(pixels, weight[k], sum[k * vectors + v]);
      }
    }
  }
  CARNOT_UNROLL
  for (int i = 0; i < filters * vectors; ++i)
    v_store(sums + i * V_LANES, v_add(v_load(sums + i * V_LANES), sum[i]));
}

// Outputs [q, q + n), n <= V * V_LANES.
CARNOT_INLINE void outputs(int filters, int vectors, const carnot_conv2d_planes_f32* p, int64_t q,
                           int64_t n) {
  float sums[kAccumulators * V_LANES] __attribute__((aligned(64)));
  const int64_t most = max_i64(1, kPlanesBlock / p->s);
  for (int k = 0; k < filters; ++k)
    for (int v = 0; v < vectors; ++v)
      v_store(sums + (k * vectors + v) * V_LANES,
              v_set(p->epilogue.bias ? p->epilogue.bias[k] : 0));
  for (int64_t r = 0; r < p->r; ++r) {
    if (!p->rows[r]) continue;
    for (int64_t c = 0; c < p->c; c += most)
      add_channels(filters, vectors, p, p->rows[r] + c * p->ld + q,
                   p->weights + (r * p->c + c) * p->s * filters, min_i64(most, p->c - c), sums);
  }
  for (int k = 0; k < filters; ++k)
    for (int v = 0; v < vectors && v * V_LANES < n; ++v)
      v_store_upto(p->dst + k * p->dst_ld + q + v * V_LANES,
                   v_load(sums + (k * vectors + v) * V_LANES), n - v * V_LANES);
}

// Tiles that would be less than half full are of half the size, or of one vector.
#define PLANES_ROW(filters)                                                            \
  static void row_of_##filters(const carnot_conv2d_planes_f32* p) {                    \
    enum { kMost = kAccumulators / filters < 8 ? kAccumulators / filters : 8 };        \
    enum { kHalf = (kMost + 1) / 2 };                                                  \
    for (int64_t q = 0; q < p->q;) {                                                   \
      const int64_t left = p->q - q;                                                   \
      const int vectors = left > kHalf * V_LANES ? kMost : left > V_LANES ? kHalf : 1; \
      if (vectors == kMost)                                                            \
        outputs(filters, kMost, p, q, left);                                           \
      else if (vectors == kHalf)                                                       \
        outputs(filters, kHalf, p, q, left);                                           \
      else                                                                             \
        outputs(filters, 1, p, q, left);                                               \
      q += vectors * V_LANES;                                                          \
    }                                                                                  \
  }

PLANES_ROW(1)
PLANES_ROW(2)
PLANES_ROW(3)
PLANES_ROW(4)
PLANES_ROW(5)
PLANES_ROW(6)
PLANES_ROW(7)
PLANES_ROW(8)

void CARNOT_KERNEL(conv2d_planes_f32)(const carnot_conv2d_planes_f32* p) {
  static void (*const kRow[])(const carnot_conv2d_planes_f32*) = {
      row_of_1, row_of_2, row_of_3, row_of_4, row_of_5, row_of_6, row_of_7, row_of_8};
  const carnot_epilogue_f32* e = &p->epilogue;
  kRow[p->k - 1](p);
  CARNOT_KERNEL(activate_f32)(e->activation, e->a, e->b, p->dst, p->dst_ld, p->k, p->q);
}
