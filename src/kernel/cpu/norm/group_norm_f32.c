// Group normalization: statistics in one pass, then scale and shift.
#include "kernel/cpu/norm/group_norm_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_math.h"
#include "kernel/cpu/common/simd_reduce.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum {
  kRun = 32,      // pixels of a run
  kSpan = 4096,   // numbers of a run of one channel
  kChains = 4,    // of sums
  kChannels = 64  // of a buffer
};

static void narrow(int64_t n, const float* x, float* dst, int64_t at) {
  CARNOT_KERNEL(bf16_of_f32)(n, x, (uint16_t*)(void*)dst + at);
}

// ---- statistics ----

// One vector of channels in four chains, as many rows apart: a single one would wait for its sums.
CARNOT_INLINE vf32 sum_of_rows(bool is_bf16, bool squares, const void* src, int64_t at, int64_t ld,
                               int64_t rows, int64_t left, vf32 mean) {
  vf32 sum[kChains] = {v_zero(), v_zero(), v_zero(), v_zero()};
  for (int64_t i = 0; i < rows; i += kChains)
    for (int k = 0; k < kChains; ++k) {
      if (i + k >= rows) break;
      const vf32 x = v_load_stored(is_bf16, src, at + (i + k) * ld, left), d = v_sub(x, mean);
      sum[k] = squares ? v_fma(d, d, sum[k]) : v_add(sum[k], x);
    }
  return v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3]));
}

// Means and squared deviations of runs of rows, joined as they come.
CARNOT_INLINE void stats_of_vector(bool is_bf16, int64_t rows, const void* src, int64_t at,
                                   int64_t ld, int64_t left, float* out_mean, float* out_m2) {
  vf32 mean = v_zero(), m2 = v_zero();
  for (int64_t done = 0; done < rows; done += kRun, at += kRun * ld) {
    const int64_t run = min_i64(kRun, rows - done);
    const vf32 sum = sum_of_rows(is_bf16, false, src, at, ld, run, left, v_zero());
    const vf32 run_mean = v_div(sum, v_set((float)run));
    const vf32 squares = sum_of_rows(is_bf16, true, src, at, ld, run, left, run_mean);
    const double share = (double)run / (double)(done + run);
    const vf32 d = v_sub(run_mean, mean);
    mean = v_fma(d, v_set((float)share), mean);
    m2 = v_add(m2, v_fma(v_mul(d, d), v_set((float)((double)done * share)), squares));
  }
  v_store_upto(out_mean, mean, left);
  v_store_upto(out_m2, m2, left);
}

// Of |c| channels from element |at| on; 64 bytes and more of a row at a time are in L1 for the
// next vector.
CARNOT_INLINE void stats_of_channels(bool is_bf16, int64_t rows, int64_t c, const void* src,
                                     int64_t at, int64_t ld, float* out_mean, float* out_m2) {
  int64_t j = 0;
  for (; j + V_LANES <= c; j += V_LANES)
    stats_of_vector(is_bf16, rows, src, at + j, ld, V_LANES, out_mean + j, out_m2 + j);
  if (j < c) stats_of_vector(is_bf16, rows, src, at + j, ld, c - j, out_mean + j, out_m2 + j);
}

void CARNOT_KERNEL(channel_stats_f32)(bool is_bf16, int64_t rows, int64_t c, const void* src,
                                      int64_t ld, float* out_mean, float* out_m2) {
  if (is_bf16)
    stats_of_channels(true, rows, c, src, 0, ld, out_mean, out_m2);
  else
    stats_of_channels(false, rows, c, src, 0, ld, out_mean, out_m2);
}

// ---- channels last ----

// Statistics of a channel over all blocks.
static void join_blocks(const carnot_group_norm_f32* p, const float* stats, int64_t block,
                        int64_t ch, double* out_mean, double* out_m2) {
  double mean = 0, m2 = 0;
  for (int64_t done = 0; done < p->pixels; done += block, stats += 2 * p->c) {
    const double count = (double)min_i64(block, p->pixels - done), d = (double)stats[ch] - mean;
    const double share = count / ((double)done + count);
    mean += d * share;
    m2 += (double)stats[p->c + ch] + d * d * (double)done * share;
  }
  *out_mean = mean;
  *out_m2 = m2;
}

// Turns the statistics of a group's channels into x * scale + shift.
static void scale_group(const carnot_group_norm_f32* p, const float* stats, int64_t block,
                        int64_t ch0, int64_t ch1) {
  double mean, m2, sum = 0, squares = 0;
  for (int64_t ch = ch0; ch < ch1; ++ch) {
    join_blocks(p, stats, block, ch, &mean, &m2);
    sum += mean;
  }
  const double group_mean = sum / (double)(ch1 - ch0);
  for (int64_t ch = ch0; ch < ch1; ++ch) {
    join_blocks(p, stats, block, ch, &mean, &m2);
    squares += m2 + (mean - group_mean) * (mean - group_mean) * (double)p->pixels;
  }
  const double variance = squares / ((double)(ch1 - ch0) * (double)p->pixels);
  const double inv = 1 / __builtin_sqrt(variance + (double)p->epsilon);
  for (int64_t ch = ch0; ch < ch1; ++ch) {
    const double scale = p->scale ? p->scale[ch] * inv : inv;
    p->workspace[ch] = (float)scale;
    p->workspace[p->c + ch] = (float)((p->bias ? p->bias[ch] : 0) - group_mean * scale);
  }
}

void CARNOT_KERNEL(group_norm_scales_f32)(const carnot_group_norm_f32* p, const float* stats,
                                          int64_t pixels_of_block, int64_t g0, int64_t g1) {
  const int64_t size = p->c / p->groups;
  for (int64_t g = g0; g < g1; ++g)
    scale_group(p, stats, pixels_of_block, g * size, (g + 1) * size);
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

// SiLU of results in BF16; the rows of the buffer are whole vectors.
static void silu_buffer(float* buffer, int64_t rows, int64_t c) {
  for (int64_t i = 0; i < rows; ++i, buffer += kChannels)
    for (int64_t j = 0; j < c; j += V_LANES)
      v_store(buffer + j, v_silu_roughly(v_load(buffer + j)));
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
  if (p->dst_is_bf16 && p->activation == CARNOT_KERNEL_ACTIVATION_SILU)
    silu_buffer(buffer, rows, c);
  else
    CARNOT_KERNEL(activate_f32)(p->activation, p->a, p->b, y, ld, rows, c);
  for (int64_t i = 0; i < rows && p->dst_is_bf16; ++i)
    narrow(c, buffer + i * kChannels, p->dst, to + i * p->dst_ld);
}

void CARNOT_KERNEL(group_norm_apply_f32)(const carnot_group_norm_f32* p, int64_t begin, int64_t end,
                                         int64_t c0, int64_t c1) {
  for (int64_t i = begin; i < end; i += kRun)
    for (int64_t ch = c0; ch < c1; ch += kChannels)
      apply_run(p, i, min_i64(kRun, end - i), ch, min_i64(kChannels, c1 - ch));
}

void CARNOT_KERNEL(group_norm_nhwc_f32)(const carnot_group_norm_f32* p, int64_t n0, int64_t n1,
                                        int64_t g0, int64_t g1) {
  const int64_t size = p->c / p->groups, c0 = g0 * size, c1 = g1 * size;
  float *mean = p->workspace + c0, *m2 = mean + p->c;
  for (int64_t n = n0; n < n1; ++n) {
    const int64_t at = n * p->pixels * p->src_ld + c0;
    if (p->src_is_bf16)
      stats_of_channels(true, p->pixels, c1 - c0, p->src, at, p->src_ld, mean, m2);
    else
      stats_of_channels(false, p->pixels, c1 - c0, p->src, at, p->src_ld, mean, m2);
    CARNOT_KERNEL(group_norm_scales_f32)(p, p->workspace, p->pixels, g0, g1);
    CARNOT_KERNEL(group_norm_apply_f32)(p, n * p->pixels, (n + 1) * p->pixels, c0, c1);
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
