// Group normalization: statistics in one pass, then scale and shift.
#include "kernel/cpu/norm/group_norm_f32.h"

#include "kernel/cpu/common/kernels_isa.h"
#include "kernel/cpu/common/simd_math.h"
#include "kernel/cpu/common/simd_reduce.h"
#include "kernel/cpu/gemm/gemm_macro_kernel_f32.h"

enum {
  kRun = 32,        // pixels of a run
  kStatsRun = 128,  // pixels whose statistics are joined to those before
  kSpan = 4096,     // numbers of a run of one channel
  kChains = 4,      // of sums
  kChannels = 64    // of a buffer
};

static void narrow(int64_t n, const float* x, float* dst, int64_t at) {
  CARNOT_KERNEL(bf16_of_f32)(n, x, (uint16_t*)(void*)dst + at);
}

// ---- statistics ----

// Sums of |rows| rows of up to two vectors of channels, minus |mean|, and of their squares. Four
// chains: a single one would wait for its sums.
CARNOT_INLINE void sum_rows(bool is_bf16, int vectors, bool squares, int64_t rows, const void* src,
                            int64_t at, int64_t ld, int64_t left, const vf32 mean[2], vf32 sum[2],
                            vf32 square[2]) {
  vf32 s1[kChains][2], s2[kChains][2];
  for (int k = 0; k < kChains; ++k)
    for (int v = 0; v < vectors; ++v) s1[k][v] = s2[k][v] = v_zero();
  int64_t i = 0;
#define ADD_ROW(k)                                                   \
  for (int v = 0; v < vectors; ++v) {                                \
    const int64_t n = vectors == 2 ? V_LANES : left;                 \
    const vf32 x = v_load_stored(is_bf16, src, at + v * V_LANES, n); \
    const vf32 d = v_sub(x, mean[v]);                                \
    s1[k][v] = v_add(s1[k][v], d);                                   \
    if (squares) s2[k][v] = v_fma(d, d, s2[k][v]);                   \
  }
  for (; i + kChains <= rows; i += kChains) {
    CARNOT_UNROLL
    for (int k = 0; k < kChains; ++k, at += ld) ADD_ROW(k)
  }
  for (; i < rows; ++i, at += ld) ADD_ROW(0)
#undef ADD_ROW
  for (int v = 0; v < vectors; ++v) {
    sum[v] = v_add(v_add(s1[0][v], s1[1][v]), v_add(s1[2][v], s1[3][v]));
    square[v] = v_add(v_add(s2[0][v], s2[1][v]), v_add(s2[2][v], s2[3][v]));
  }
}

// Joins a run of |rows| rows to the mean and m2 of the |done| rows before it. With d and n the mean
// and count of the run's differences to the mean so far, m2 grows by their squares minus
// n^2 d^2 / (done + n), at most half of them; so one pass is as exact as two. The first run takes
// its differences to its own mean.
CARNOT_INLINE void join_run(bool is_bf16, int vectors, int64_t done, int64_t rows, const void* src,
                            int64_t at, int64_t ld, int64_t left, float* out_mean, float* out_m2) {
  const int64_t n = vectors == 2 ? V_LANES : left;
  const vf32 each = v_set((float)(1 / (double)rows));
  const vf32 share = v_set((float)((double)rows / (double)(done + rows)));
  vf32 mean[2] = {v_zero(), v_zero()}, m2[2] = {v_zero(), v_zero()}, sum[2], squares[2];
  if (done) {
    for (int v = 0; v < vectors; ++v) {
      mean[v] = v_load_upto(out_mean + v * V_LANES, n);
      m2[v] = v_load_upto(out_m2 + v * V_LANES, n);
    }
  } else {
    sum_rows(is_bf16, vectors, false, rows, src, at, ld, left, mean, sum, squares);
    for (int v = 0; v < vectors; ++v) mean[v] = v_mul(sum[v], each);
  }
  sum_rows(is_bf16, vectors, true, rows, src, at, ld, left, mean, sum, squares);
  for (int v = 0; v < vectors; ++v) {
    const vf32 d = v_mul(v_mul(sum[v], each), share);
    v_store_upto(out_mean + v * V_LANES, v_add(mean[v], d), n);
    v_store_upto(out_m2 + v * V_LANES, v_add(m2[v], v_sub(squares[v], v_mul(sum[v], d))), n);
  }
}

// Of |c| channels from element |at| on.
CARNOT_INLINE void stats_of_channels(bool is_bf16, int64_t rows, int64_t c, const void* src,
                                     int64_t at, int64_t ld, float* out_mean, float* out_m2) {
  for (int64_t done = 0; done < rows; done += kStatsRun, at += kStatsRun * ld) {
    const int64_t run = min_i64(kStatsRun, rows - done);
    int64_t j = 0;
    for (; j + 2 * V_LANES <= c; j += 2 * V_LANES)
      join_run(is_bf16, 2, done, run, src, at + j, ld, V_LANES, out_mean + j, out_m2 + j);
    for (; j < c; j += V_LANES)
      join_run(is_bf16, 1, done, run, src, at + j, ld, c - j, out_mean + j, out_m2 + j);
  }
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

typedef enum apply_activation { APPLY_BOUNDS, APPLY_SILU } apply_activation;

// Scales, shifts and activates |left| channels of |rows| rows from elements |from| and |to| on.
CARNOT_INLINE void apply_vector(bool from_bf16, bool to_bf16, apply_activation activation,
                                const carnot_group_norm_f32* p, const vf32 bounds[2], int64_t rows,
                                int64_t ch, int64_t left, int64_t from, int64_t to, void* dst,
                                int64_t dst_ld) {
  const vf32 scale = v_load_upto(p->workspace + ch, left);
  const vf32 shift = v_load_upto(p->workspace + p->c + ch, left);
  const vf32 lo = bounds[0], hi = bounds[1];
  for (int64_t i = 0; i < rows; ++i, from += p->src_ld, to += dst_ld) {
    const vf32 y = v_fma(v_load_stored(from_bf16, p->src, from, left), scale, shift);
    const vf32 z = activation == APPLY_SILU ? v_silu_roughly(y) : v_min_to(hi, v_max_to(lo, y));
    v_store_stored(to_bf16, dst, to, z, left);
  }
}

CARNOT_INLINE void apply_channels(bool from_bf16, bool to_bf16, apply_activation activation,
                                  const carnot_group_norm_f32* p, const vf32 bounds[2],
                                  int64_t rows, int64_t ch, int64_t c, int64_t from, int64_t to,
                                  void* dst, int64_t dst_ld) {
  int64_t j = 0;
  for (; j + V_LANES <= c; j += V_LANES)
    apply_vector(from_bf16, to_bf16, activation, p, bounds, rows, ch + j, V_LANES, from + j, to + j,
                 dst, dst_ld);
  if (j < c)
    apply_vector(from_bf16, to_bf16, activation, p, bounds, rows, ch + j, c - j, from + j, to + j,
                 dst, dst_ld);
}

// A run of |rows| pixels from |pixel| of all images on, channels [ch, ch + c). Activations but
// bounds, and SiLU of results in BF16, follow in float32.
static void apply_run(const carnot_group_norm_f32* p, int64_t pixel, int64_t rows, int64_t ch,
                      int64_t c) {
  float buffer[kRun * kChannels];
  const carnot_kernel_activation activation = p->activation;
  const bool clips = activation == CARNOT_KERNEL_ACTIVATION_CLIP;
  const bool rectifies = activation == CARNOT_KERNEL_ACTIVATION_RELU;
  const bool silu = p->dst_is_bf16 && activation == CARNOT_KERNEL_ACTIVATION_SILU;
  const bool later = !clips && !rectifies && !silu && activation != CARNOT_KERNEL_ACTIVATION_NONE;
  // NaN passes infinite bounds.
  const vf32 bounds[2] = {v_set(clips       ? p->a
                                : rectifies ? 0
                                            : -__builtin_inff()),
                          v_set(clips ? p->b : __builtin_inff())};
  const int64_t from = pixel * p->src_ld + ch, to = pixel * p->dst_ld + ch;
  const bool buffers = later && p->dst_is_bf16;
  float* y = buffers ? buffer : p->dst;
  const int64_t at = buffers ? 0 : to, ld = buffers ? kChannels : p->dst_ld;
  const bool to_bf16 = p->dst_is_bf16 && !buffers;
  if (silu && p->src_is_bf16)
    apply_channels(true, true, APPLY_SILU, p, bounds, rows, ch, c, from, at, y, ld);
  else if (silu)
    apply_channels(false, true, APPLY_SILU, p, bounds, rows, ch, c, from, at, y, ld);
  else if (p->src_is_bf16 && to_bf16)
    apply_channels(true, true, APPLY_BOUNDS, p, bounds, rows, ch, c, from, at, y, ld);
  else if (p->src_is_bf16)
    apply_channels(true, false, APPLY_BOUNDS, p, bounds, rows, ch, c, from, at, y, ld);
  else if (to_bf16)
    apply_channels(false, true, APPLY_BOUNDS, p, bounds, rows, ch, c, from, at, y, ld);
  else
    apply_channels(false, false, APPLY_BOUNDS, p, bounds, rows, ch, c, from, at, y, ld);
  if (later) CARNOT_KERNEL(activate_f32)(activation, p->a, p->b, y + at, ld, rows, c);
  for (int64_t i = 0; i < rows && buffers; ++i)
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
