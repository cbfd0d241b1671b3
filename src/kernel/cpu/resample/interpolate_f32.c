// Weighted sum and maximum of taps over vectors of channels.
#include "kernel/cpu/resample/interpolate_f32.h"

#include "kernel/cpu/common/kernels_isa.h"

// |vectors| of channels from |c| on, the last one of |n| - (vectors - 1) * V_LANES lanes.
CARNOT_INLINE void sum_channels(const carnot_interpolate_f32* p, int64_t c, int64_t n, int vectors,
                                float* dst) {
  vf32 sum[4];
  CARNOT_UNROLL for (int v = 0; v < vectors; ++v) sum[v] = v_zero();
  for (int64_t r = 0; r < p->row_count; ++r) {
    const float* row = p->src + p->rows[r].offset + c;
    for (int64_t s = 0; s < p->column_count; ++s) {
      const float* src = row + p->columns[s].offset;
      const vf32 weight = v_set(p->rows[r].weight * p->columns[s].weight);
      CARNOT_UNROLL for (int v = 0; v < vectors; ++v) {
        sum[v] = v_fma(v_load_upto(src + v * V_LANES, n - v * V_LANES), weight, sum[v]);
      }
    }
  }
  CARNOT_UNROLL for (int v = 0; v < vectors; ++v) {
    v_store_upto(dst + c + v * V_LANES, sum[v], n - v * V_LANES);
  }
}

void CARNOT_KERNEL(interpolate_f32)(const carnot_interpolate_f32* p, float* dst) {
  int64_t c = 0;
  for (; c + 4 * V_LANES <= p->channels; c += 4 * V_LANES) sum_channels(p, c, 4 * V_LANES, 4, dst);
  for (; c < p->channels; c += V_LANES) sum_channels(p, c, p->channels - c, 1, dst);
}

void CARNOT_KERNEL(interpolate_max_f32)(const carnot_interpolate_f32* p, float* dst) {
  for (int64_t c = 0; c < p->channels; c += V_LANES) {
    const int64_t n = p->channels - c;
    vf32 best = v_set(p->least);
    for (int64_t r = 0; r < p->row_count; ++r) {
      const carnot_tap* row = &p->rows[r];
      for (int64_t s = 0; s < p->column_count; ++s) {
        const carnot_tap* column = &p->columns[s];
        const vf32 x = v_load_upto(p->src + row->offset + column->offset + c, n);
        best = v_max(best, v_mul(x, v_set(row->weight * column->weight)));
        best = v_max(best, v_mul(x, v_set(row->low * column->low)));
      }
    }
    v_store_upto(dst + c, best, n);
  }
}
