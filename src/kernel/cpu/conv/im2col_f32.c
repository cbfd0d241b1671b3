// im2col of few channels: the columns of a filter row are one run of numbers of a held row.
#include "kernel/cpu/conv/im2col_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd.h"

// |count| outputs of a row: of each, |runs| runs of |run| numbers at |from|, in |vectors| vectors,
// whose last one is overwritten by the next run. |vectors| 0: as many as there are.
CARNOT_INLINE float* copy_runs(int vectors, const float* const* from, int64_t runs, int64_t run,
                               int64_t step, int64_t count, float* dst) {
  for (int64_t q = 0; q < count; ++q) {
    for (int64_t i = 0; i < runs; ++i, dst += run) {
      const float* src = from[i] + q * step;
      if (vectors) {
        CARNOT_UNROLL
        for (int v = 0; v < vectors; ++v) v_store(dst + v * V_LANES, v_load(src + v * V_LANES));
      } else {
        for (int64_t k = 0; k < run; k += V_LANES) v_store(dst + k, v_load(src + k));
      }
    }
  }
  return dst;
}

void CARNOT_KERNEL(im2col_f32)(const carnot_im2col_f32* c, int64_t m0, int64_t m1, float* dst) {
  const float* from[CARNOT_IM2COL_MAX_RUNS];
  const int64_t row = carnot_im2col_held_row(c), step = c->stride_w * c->c;
  // Columns next to each other are one run.
  const bool joined = c->dilation_w == 1 || c->s == 1;
  const int64_t run = joined ? c->s * c->c : c->c, columns = joined ? 1 : c->s;
  for (int64_t m = m0; m < m1;) {
    const int64_t p = m / c->q, q = m % c->q, count = min_i64(c->q - q, m1 - m);
    for (int64_t i = 0; i < c->r * columns; ++i) {
      const int64_t slot = (p * c->stride_h + i / columns * c->dilation_h) % c->held_rows;
      from[i] = c->held + slot * row + q * step + i % columns * c->dilation_w * c->c;
    }
    const int64_t runs = c->r * columns;
    if (run <= V_LANES)
      dst = copy_runs(1, from, runs, run, step, count, dst);
    else if (run <= 2 * V_LANES)
      dst = copy_runs(2, from, runs, run, step, count, dst);
    else
      dst = copy_runs(0, from, runs, run, step, count, dst);
    m += count;
  }
}
