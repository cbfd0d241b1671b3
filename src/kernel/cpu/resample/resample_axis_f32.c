// Resampling along one axis: vectors of inner elements, or of results along the innermost axis.
#include "kernel/cpu/resample/resample_axis_f32.h"

#include "kernel/cpu/common/kernels_isa.h"

static void resample_row(const carnot_resample_axis_f32* p, const float* src, const int32_t* index,
                         const float* weight, float* dst) {
  for (int64_t i = 0; i < p->inner; i += V_LANES) {
    const int64_t left = p->inner - i;
    vf32 sum = v_load_upto(src + index[0] * p->inner + i, left);
    if (p->taps > 1) sum = v_mul(sum, v_set(weight[0]));
    for (int64_t t = 1; t < p->taps; ++t) {
      sum = v_fma(v_load_upto(src + index[t] * p->inner + i, left), v_set(weight[t]), sum);
    }
    v_store_upto(dst + i, sum, left);
  }
}

// One result of the innermost axis: its taps are gathered.
static float resample_one(const carnot_resample_axis_f32* p, const float* src, const int32_t* index,
                          const float* weight) {
  if (p->taps == 1) return src[index[0]];
  float sum = 0;
  for (int64_t t = 0; t < p->taps; ++t) sum += weight[t] * src[index[t]];
  return sum;
}

// |count| results of a row of the innermost axis, of two taps each.
static void resample_pairs(const float* restrict src, const int32_t* restrict index,
                           const float* restrict weight, int64_t count, float* restrict dst) {
  for (int64_t j = 0; j < count; ++j)
    dst[j] = weight[2 * j] * src[index[2 * j]] + weight[2 * j + 1] * src[index[2 * j + 1]];
}

void CARNOT_KERNEL(resample_axis_f32)(const carnot_resample_axis_f32* p, int64_t row0,
                                      int64_t row1) {
  for (int64_t row = row0; row < row1; ++row) {
    const int64_t j = row % p->out;
    if (p->inner == 1 && p->taps == 2) {
      const int64_t count = min_i64(p->out - j, row1 - row);
      resample_pairs(p->src + row / p->out * p->in, p->index + 2 * j, p->weight + 2 * j, count,
                     p->dst + row);
      row += count - 1;
      continue;
    }
    const float* src = p->src + row / p->out * p->in * p->inner;
    const int32_t* index = p->index + j * p->taps;
    const float* weight = p->weight + j * p->taps;
    if (p->inner == 1) {
      p->dst[row] = resample_one(p, src, index, weight);
    } else {
      resample_row(p, src, index, weight, p->dst + row * p->inner);
    }
  }
}
