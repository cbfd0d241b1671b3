// Group normalization: statistics in one pass, then scale and shift.
#include "kernel/cpu/norm/group_norm_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_reduce.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum {
  kRun = 32,      // pixels of a run
  kSpan = 4096,   // numbers of a run of one channel
  kVectors = 4,   // of channels, whose sums are independent chains
  kChannels = 64  // of a buffer
};

static void narrow(int64_t n, const float* x, float* dst, int64_t at) {
  CARNOT_KERNEL(bf16_of_f32)(n, x, (uint16_t*)(void*)dst + at);
}

// ---- statistics ----

// |count| vectors of channels: means and squared deviations of runs of rows, joined as they come.
CARNOT_INLINE void stats_of_vectors(bool is_bf16, int count, int64_t rows, const void* src,
                                    int64_t at, int64_t ld, int64_t left, float* out_mean,
                                    float* out_m2) {
  vf32 mean[kVectors], m2[kVectors], sum[kVectors], squares[kVectors], run_mean[kVectors];
  for (int v = 0; v < count; ++v) mean[v] = m2[v] = v_zero();
  for (int64_t done = 0; done < rows; done += kRun) {
    const int64_t run = min_i64(kRun, rows - done), first = at + done * ld;
    for (int v = 0; v < count; ++v) sum[v] = squares[v] = v_zero();
    for (int64_t i = 0; i < run; ++i)
      for (int v = 0; v < count; ++v)
        sum[v] = v_add(sum[v], v_load_stored(is_bf16, src, first + i * ld + v * V_LANES, left));
    for (int v = 0; v < count; ++v) run_mean[v] = v_div(sum[v], v_set((float)run));
    for (int64_t i = 0; i < run; ++i)
      for (int v = 0; v < count; ++v) {
        const vf32 x = v_load_stored(is_bf16, src, first + i * ld + v * V_LANES, left);
        const vf32 d = v_sub(x, run_mean[v]);
        squares[v] = v_fma(d, d, squares[v]);
      }
    const double share = (double)run / (double)(done + run);
    for (int v = 0; v < count; ++v) {
      const vf32 d = v_sub(run_mean[v], mean[v]);
      mean[v] = v_fma(d, v_set((float)share), mean[v]);
      m2[v] = v_add(m2[v], v_fma(v_mul(d, d), v_set((float)((double)done * share)), squares[v]));
    }
  }
  for (int v = 0; v < count; ++v) {
    v_store_upto(out_mean + v * V_LANES, mean[v], left);
    v_store_upto(out_m2 + v * V_LANES, m2[v], left);
  }
}

// Of |c| channels from element |at| on.
CARNOT_INLINE void stats_of_channels(bool is_bf16, int64_t rows, int64_t c, const void* src,
                                     int64_t at, int64_t ld, float* out_mean, float* out_m2) {
  int64_t j = 0;
  for (; j + kVectors * V_LANES <= c; j += kVectors * V_LANES)
    stats_of_vectors(is_bf16, kVectors, rows, src, at + j, ld, V_LANES, out_mean + j, out_m2 + j);
  for (; j + V_LANES <= c; j += V_LANES)
    stats_of_vectors(is_bf16, 1, rows, src, at + j, ld, V_LANES, out_mean + j, out_m2 + j);
  if (j < c) stats_of_vectors(is_bf16, 1, rows, src, at + j, ld, c - j, out_mean + j, out_m2 + j);
}

void CARNOT_KERNEL(channel_stats_f32)(int64_t rows, int64_t c, const float* src, int64_t ld,
                                      float* out_mean, float* out_m2) {
  stats_of_channels(/*is_bf16=*/false, rows, c, src, 0, ld, out_mean, out_m2);
}

// ---- channels last ----

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

// Scales and shifts |rows| rows of |c| numbers from element |at| of |src| on.
CARNOT_INLINE void scale_rows(bool is_bf16, int64_t rows, int64_t c, const void* src, int64_t at,
                              int64_t src_ld, const float* scale, const float* shift, float* dst,
                              int64_t dst_ld) {
  for (int64_t i = 0; i < rows; ++i, at += src_ld, dst += dst_ld) {
    int64_t j = 0;
    for (; j + V_LANES <= c; j += V_LANES) {
      const vf32 x = v_load_stored(is_bf16, src, at + j, V_LANES);
      v_store(dst + j, v_fma(x, v_load(scale + j), v_load(shift + j)));
    }
    if (j < c) {
      const int64_t left = c - j;
      const vf32 x = v_load_stored(is_bf16, src, at + j, left);
      v_store_n(dst + j, v_fma(x, v_load_n(scale + j, left), v_load_n(shift + j, left)), left);
    }
  }
}

// A run of |rows| pixels from |pixel| of all images on, channels [ch, ch + c).
static void apply_run(const carnot_group_norm_f32* p, int64_t pixel, int64_t rows, int64_t ch,
                      int64_t c) {
  float buffer[kRun * kChannels];
  const float *scale = p->workspace + ch, *shift = scale + p->c;
  const int64_t from = pixel * p->src_ld + ch, to = pixel * p->dst_ld + ch;
  const int64_t ld = p->dst_is_bf16 ? kChannels : p->dst_ld;
  float* y = p->dst_is_bf16 ? buffer : p->dst + to;
  if (p->src_is_bf16)
    scale_rows(true, rows, c, p->src, from, p->src_ld, scale, shift, y, ld);
  else
    scale_rows(false, rows, c, p->src, from, p->src_ld, scale, shift, y, ld);
  CARNOT_KERNEL(activate_f32)(p->activation, p->a, p->b, y, ld, rows, c);
  for (int64_t i = 0; i < rows && p->dst_is_bf16; ++i)
    narrow(c, buffer + i * kChannels, p->dst, to + i * p->dst_ld);
}

void CARNOT_KERNEL(group_norm_nhwc_f32)(const carnot_group_norm_f32* p, int64_t n0, int64_t n1,
                                        int64_t g0, int64_t g1) {
  const int64_t size = p->c / p->groups, ch0 = g0 * size, ch1 = g1 * size;
  float *mean = p->workspace, *m2 = p->workspace + p->c;
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t at = n * p->pixels * p->src_ld + ch0;
    if (p->src_is_bf16)
      stats_of_channels(true, p->pixels, ch1 - ch0, p->src, at, p->src_ld, mean + ch0, m2 + ch0);
    else
      stats_of_channels(false, p->pixels, ch1 - ch0, p->src, at, p->src_ld, mean + ch0, m2 + ch0);
    for (int64_t g = g0; g < g1; ++g) finish_group(p, g * size, (g + 1) * size, mean, m2);
    for (int64_t i = 0; i < p->pixels; i += kRun)
      for (int64_t ch = ch0; ch < ch1; ch += kChannels)
        apply_run(p, n * p->pixels + i, min_i64(kRun, p->pixels - i), ch,
                  min_i64(kChannels, ch1 - ch));
  }
}

// ---- channels first: a group is one run of numbers ----

// |n| numbers from element |at| on as float32: in place or widened to |buffer|.
static const float* span_of(const carnot_group_norm_f32* p, int64_t at, int64_t n, float* buffer) {
  if (!p->src_is_bf16) return p->src + at;
  CARNOT_KERNEL(f32_of_bf16)(n, (const uint16_t*)(const void*)p->src + at, buffer);
  return buffer;
}

static void stats_of_span(const carnot_group_norm_f32* p, int64_t at, int64_t n, double* out_mean,
                          double* out_variance) {
  float buffer[kSpan];
  double mean = 0, m2 = 0;
  for (int64_t done = 0; done < n; done += kSpan) {
    const int64_t run = min_i64(kSpan, n - done);
    const float* x = span_of(p, at + done, run, buffer);
    const double sum = sum_terms(SUM_OF_X, x, run, 0);
    const float run_mean = (float)(sum / (double)run);
    const double left = sum / (double)run - (double)run_mean;
    const double squares = sum_terms(SUM_OF_SQUARES, x, run, run_mean) - left * left * (double)run;
    const double d = (double)run_mean + left - mean, share = (double)run / (double)(done + run);
    mean += d * share;
    m2 += squares + d * d * (double)done * share;
  }
  *out_mean = mean;
  *out_variance = m2 / (double)n;
}

static void apply_span(const carnot_group_norm_f32* p, int64_t at, int64_t n, float scale,
                       float shift) {
  float buffer[kSpan];
  const vf32 a = v_set(scale), b = v_set(shift);
  for (int64_t done = 0; done < n; done += kSpan, at += kSpan) {
    const int64_t run = min_i64(kSpan, n - done);
    const float* x = span_of(p, at, run, buffer);
    float* y = p->dst_is_bf16 ? buffer : p->dst + at;
    for (int64_t i = 0; i < run; i += V_LANES)
      v_store_upto(y + i, v_fma(v_load_upto(x + i, run - i), a, b), run - i);
    CARNOT_KERNEL(activate_f32)(p->activation, p->a, p->b, y, 0, 1, run);
    if (p->dst_is_bf16) narrow(run, buffer, p->dst, at);
  }
}

void CARNOT_KERNEL(group_norm_nchw_f32)(const carnot_group_norm_f32* p, int64_t n0, int64_t n1,
                                        int64_t g0, int64_t g1) {
  const int64_t size = p->c / p->groups;
  for (int64_t n = n0; n < n1; ++n) {
    for (int64_t g = g0; g < g1; ++g) {
      const int64_t at = (n * p->c + g * size) * p->pixels;
      double mean, variance;
      stats_of_span(p, at, size * p->pixels, &mean, &variance);
      const double inv = 1 / __builtin_sqrt(variance + (double)p->epsilon);
      for (int64_t i = 0; i < size; ++i) {
        const int64_t ch = g * size + i;
        const double scale = p->scale ? p->scale[ch] * inv : inv;
        const double shift = (p->bias ? p->bias[ch] : 0) - mean * scale;
        apply_span(p, at + i * p->pixels, p->pixels, (float)scale, (float)shift);
      }
    }
  }
}
