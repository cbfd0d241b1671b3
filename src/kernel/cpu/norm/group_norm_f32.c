// Group normalization: statistics in one pass, then scale and shift.
#include "kernel/cpu/norm/group_norm_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_reduce.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum { kRun = 32, kSpan = 4096 };  // pixels of a run; floats of a run of one channel

// ---- statistics ----

// One vector of channels: mean and squared deviations of runs of rows, joined as they come.
CARNOT_INLINE void stats_of_vector(int64_t rows, const float* src, int64_t ld, int64_t left,
                                   float* out_mean, float* out_m2) {
  vf32 mean = v_zero(), m2 = v_zero();
  for (int64_t done = 0; done < rows; done += kRun) {
    const int64_t run = min_i64(kRun, rows - done);
    const float* x = src + done * ld;
    vf32 sum = v_zero(), squares = v_zero();
    for (int64_t i = 0; i < run; ++i) sum = v_add(sum, v_load_upto(x + i * ld, left));
    const vf32 run_mean = v_div(sum, v_set((float)run));
    for (int64_t i = 0; i < run; ++i) {
      const vf32 d = v_sub(v_load_upto(x + i * ld, left), run_mean);
      squares = v_fma(d, d, squares);
    }
    const double share = (double)run / (double)(done + run);
    const vf32 d = v_sub(run_mean, mean);
    mean = v_fma(d, v_set((float)share), mean);
    m2 = v_add(m2, v_fma(v_mul(d, d), v_set((float)((double)done * share)), squares));
  }
  v_store_upto(out_mean, mean, left);
  v_store_upto(out_m2, m2, left);
}

void CARNOT_KERNEL(channel_stats_f32)(int64_t rows, int64_t c, const float* src, int64_t ld,
                                      float* out_mean, float* out_m2) {
  int64_t j = 0;
  for (; j + V_LANES <= c; j += V_LANES) {
    stats_of_vector(rows, src + j, ld, V_LANES, out_mean + j, out_m2 + j);
  }
  if (j < c) stats_of_vector(rows, src + j, ld, c - j, out_mean + j, out_m2 + j);
}

// ---- channels last ----

void CARNOT_KERNEL(scale_shift_f32)(int64_t rows, int64_t c, const float* src, int64_t src_ld,
                                    const float* scale, const float* shift, float* dst,
                                    int64_t dst_ld) {
  for (int64_t i = 0; i < rows; ++i) {
    const float* x = src + i * src_ld;
    float* y = dst + i * dst_ld;
    int64_t j = 0;
    for (; j + V_LANES <= c; j += V_LANES) {
      v_store(y + j, v_fma(v_load(x + j), v_load(scale + j), v_load(shift + j)));
    }
    if (j < c) {
      const int64_t left = c - j;
      const vf32 sum =
          v_fma(v_load_n(x + j, left), v_load_n(scale + j, left), v_load_n(shift + j, left));
      v_store_n(y + j, sum, left);
    }
  }
}

// Turns the means and squared deviations of a group's channels into x * scale + shift.
static void finish_group(const carnot_group_norm_f32* p, int64_t ch0, int64_t ch1, float* mean,
                         float* m2) {
  double sum = 0, squares = 0;
  for (int64_t ch = ch0; ch < ch1; ++ch) sum += mean[ch];
  const double group_mean = sum / (double)(ch1 - ch0);
  for (int64_t ch = ch0; ch < ch1; ++ch) {
    const double d = mean[ch] - group_mean;
    squares += m2[ch] + d * d * (double)p->pixels;
  }
  const double variance = squares / ((double)(ch1 - ch0) * (double)p->pixels);
  const double inv = 1 / __builtin_sqrt(variance + (double)p->epsilon);
  for (int64_t ch = ch0; ch < ch1; ++ch) {
    const double scale = p->scale ? p->scale[ch] * inv : inv;
    mean[ch] = (float)scale;
    m2[ch] = (float)((p->bias ? p->bias[ch] : 0) - group_mean * scale);
  }
}

void CARNOT_KERNEL(group_norm_nhwc_f32)(const carnot_group_norm_f32* p, int64_t n0, int64_t n1,
                                        int64_t g0, int64_t g1) {
  const int64_t size = p->c / p->groups, ch0 = g0 * size, ch1 = g1 * size;
  float *mean = p->workspace, *m2 = p->workspace + p->c;
  for (int64_t n = n0; n < n1; ++n) {
    const float* src = p->src + n * p->pixels * p->src_ld + ch0;
    float* dst = p->dst + n * p->pixels * p->dst_ld + ch0;
    CARNOT_KERNEL(channel_stats_f32)(p->pixels, ch1 - ch0, src, p->src_ld, mean + ch0, m2 + ch0);
    for (int64_t g = g0; g < g1; ++g) finish_group(p, g * size, (g + 1) * size, mean, m2);
    for (int64_t i = 0; i < p->pixels; i += kRun) {
      const int64_t run = min_i64(kRun, p->pixels - i);
      CARNOT_KERNEL(scale_shift_f32)
      (run, ch1 - ch0, src + i * p->src_ld, p->src_ld, mean + ch0, m2 + ch0, dst + i * p->dst_ld,
       p->dst_ld);
      CARNOT_KERNEL(activate_f32)
      (p->activation, p->a, p->b, dst + i * p->dst_ld, p->dst_ld, run, ch1 - ch0);
    }
  }
}

// ---- channels first: a group is one run of floats ----

static void stats_of_span(const float* x, int64_t n, double* out_mean, double* out_variance) {
  double mean = 0, m2 = 0;
  for (int64_t done = 0; done < n; done += kSpan) {
    const int64_t run = min_i64(kSpan, n - done);
    const float run_mean = (float)(sum_terms(SUM_OF_X, x + done, run, 0) / (double)run);
    const double left = sum_terms(SUM_OF_X, x + done, run, 0) / (double)run - (double)run_mean;
    const double squares =
        sum_terms(SUM_OF_SQUARES, x + done, run, run_mean) - left * left * (double)run;
    const double d = (double)run_mean + left - mean, share = (double)run / (double)(done + run);
    mean += d * share;
    m2 += squares + d * d * (double)done * share;
  }
  *out_mean = mean;
  *out_variance = m2 / (double)n;
}

static void scale_span(const float* x, int64_t n, float scale, float shift, float* y) {
  const vf32 a = v_set(scale), b = v_set(shift);
  for (int64_t i = 0; i < n; i += V_LANES) {
    v_store_upto(y + i, v_fma(v_load_upto(x + i, n - i), a, b), n - i);
  }
}

void CARNOT_KERNEL(group_norm_nchw_f32)(const carnot_group_norm_f32* p, int64_t n0, int64_t n1,
                                        int64_t g0, int64_t g1) {
  const int64_t size = p->c / p->groups;
  for (int64_t n = n0; n < n1; ++n) {
    for (int64_t g = g0; g < g1; ++g) {
      const int64_t at = (n * p->c + g * size) * p->pixels;
      double mean, variance;
      stats_of_span(p->src + at, size * p->pixels, &mean, &variance);
      const double inv = 1 / __builtin_sqrt(variance + (double)p->epsilon);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t ch = g * size + i;
        const double scale = p->scale ? p->scale[ch] * inv : inv;
        const double shift = (p->bias ? p->bias[ch] : 0) - mean * scale;
        float* y = p->dst + at + i * p->pixels;
        scale_span(p->src + at + i * p->pixels, p->pixels, (float)scale, (float)shift, y);
        CARNOT_KERNEL(activate_f32)(p->activation, p->a, p->b, y, 0, 1, p->pixels);
      }
    }
  }
}
