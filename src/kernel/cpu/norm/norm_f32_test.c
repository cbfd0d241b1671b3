// Layer, RMS and group normalization against double precision.
#include "kernel/cpu/common/kernel_test.h"
#include "kernel/cpu/norm/group_norm_f32.h"
#include "kernel/cpu/norm/row_norm_f32.h"

// Mean and inverse deviation of the elements that |belongs| to in double precision.
typedef struct moments {
  double mean, inv;
} moments;

static moments moments_of(const float* x, int64_t rows, int64_t ld, int64_t n, double epsilon) {
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < n; ++j) sum += x[i * ld + j];
  }
  const double mean = sum / (double)(rows * n);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < n; ++j) squares += (x[i * ld + j] - mean) * (x[i * ld + j] - mean);
  }
  return (moments){mean, 1 / sqrt(squares / (double)(rows * n) + epsilon)};
}

// Values far from zero, so that a one-pass variance would lose its digits.
static float* shifted(int64_t count, uint64_t seed) {
  float* x = buffer(count, seed);
  for (int64_t i = 0; i < count; ++i) x[i] += 100;
  return x;
}

static void check_rows(const carnot_cpu_kernels* kernels) {
  static const int64_t widths[] = {1, 5, 16, 100, 768, 3001};
  for (size_t w = 0; w < sizeof widths / sizeof *widths; ++w) {
    const int64_t n = widths[w], rows = 3, ld = n + 3;
    float *src = shifted(rows * ld, 61), *dst = buffer(rows * ld - 3, 0);
    float *scale = buffer(n, 62), *bias = buffer(n, 63), mean[3], inv[3];
    carnot_row_norm_f32 norm = {.n = n,
                                .src = src,
                                .src_ld = ld,
                                .dst = dst,
                                .dst_ld = ld,
                                .scale = scale,
                                .bias = bias,
                                .epsilon = 1e-5f,
                                .mean = mean,
                                .inv = inv};
    kernels->layer_norm_f32(&norm, 0, rows);
    for (int64_t i = 0; i < rows; ++i) {
      const moments m = moments_of(src + i * ld, 1, ld, n, 1e-5f);
      for (int64_t j = 0; j < n; ++j) {
        const double want = (src[i * ld + j] - m.mean) * m.inv * scale[j] + bias[j];
        check_near(dst[i * ld + j], want, 4 * FLT_EPSILON * (100 * m.inv + 1), "layer norm", i, j);
      }
      check_near(mean[i], m.mean, 1e-4, "mean", i, 0);
      check_near(inv[i], m.inv, m.inv * 1e-4, "inv", i, 0);
      if (i + 1 < rows) assert_true(dst[i * ld + n] == kCanary);
    }
    norm.bias = NULL, norm.mean = NULL, norm.inv = NULL;
    kernels->rms_norm_f32(&norm, 0, rows);
    for (int64_t i = 0; i < rows; ++i) {
      double squares = 0;
      for (int64_t j = 0; j < n; ++j) squares += (double)src[i * ld + j] * src[i * ld + j];
      for (int64_t j = 0; j < n; ++j) {
        const double want = src[i * ld + j] / sqrt(squares / (double)n + 1e-5f) * scale[j];
        check_near(dst[i * ld + j], want, 4 * FLT_EPSILON, "rms norm", i, j);
      }
    }
    buffer_free(src), buffer_free(dst), buffer_free(scale), buffer_free(bias);
  }
}

typedef struct problem {
  int64_t n, pixels, c, groups;
  carnot_kernel_activation activation;
} problem;

static const problem kProblems[] = {
    {2, 50, 32, 4, CARNOT_KERNEL_ACTIVATION_NONE},   {1, 9, 30, 3, CARNOT_KERNEL_ACTIVATION_SILU},
    {1, 100, 17, 17, CARNOT_KERNEL_ACTIVATION_RELU}, {1, 333, 64, 1, CARNOT_KERNEL_ACTIVATION_NONE},
    {1, 5000, 6, 2, CARNOT_KERNEL_ACTIVATION_NONE},  {2, 1, 24, 6, CARNOT_KERNEL_ACTIVATION_NONE}};

static void check_group_problem(const carnot_cpu_kernels* kernels, const problem* p, bool last,
                                bool src_is_bf16, bool dst_is_bf16) {
  const int64_t ld = last ? p->c + 3 : p->c, size = p->c / p->groups;
  const int64_t count = p->n * p->pixels * ld;
  float *src = shifted(count, 64), *dst = buffer(count, 0);
  if (src_is_bf16) round_all(WEIGHTS_BF16, src, count);
  void *from = stored(kernels, src_is_bf16, src, count),
       *to = stored(kernels, dst_is_bf16, dst, count);
  float *scale = buffer(p->c, 65), *bias = buffer(p->c, 66), *workspace = buffer(2 * p->c, 0);
  const carnot_group_norm_f32 norm = {.pixels = p->pixels,
                                      .c = p->c,
                                      .groups = p->groups,
                                      .src_is_bf16 = src_is_bf16,
                                      .dst_is_bf16 = dst_is_bf16,
                                      .src = from,
                                      .src_ld = ld,
                                      .dst = to,
                                      .dst_ld = ld,
                                      .scale = scale,
                                      .bias = bias,
                                      .epsilon = 1e-5f,
                                      .activation = p->activation,
                                      .workspace = workspace};
  const int64_t half = p->groups / 2, block = 7;
  if (last && p->n == 1 && p->pixels > block) {  // in blocks of pixels
    float* stats = buffer((p->pixels + block - 1) / block * 2 * p->c, 0);
    for (int64_t i = 0; i < p->pixels; i += block) {
      float* mean = stats + i / block * 2 * p->c;
      const int64_t rows = p->pixels - i < block ? p->pixels - i : block;
      kernels->channel_stats_f32(src_is_bf16, rows, p->c,
                                 (char*)from + i * ld * (src_is_bf16 ? 2 : 4), ld, mean,
                                 mean + p->c);
    }
    kernels->group_norm_scales_f32(&norm, stats, block, 0, p->groups);
    kernels->group_norm_apply_f32(&norm, 0, half, 0, p->c);
    kernels->group_norm_apply_f32(&norm, half, p->pixels, 0, p->c);
    buffer_free(stats);
  } else if (last) {
    kernels->group_norm_nhwc_f32(&norm, 0, p->n, 0, half);
    kernels->group_norm_nhwc_f32(&norm, 0, p->n, half, p->groups);
  } else {
    kernels->group_norm_nchw_f32(&norm, 0, p->n, 0, half);
    kernels->group_norm_nchw_f32(&norm, 0, p->n, half, p->groups);
  }
  if (dst_is_bf16)
    kernels->f32_of_bf16(count, to, dst);
  else
    memcpy(dst, to, (size_t)count * sizeof *dst);
  for (int64_t n = 0; n < p->n; ++n) {
    for (int64_t g = 0; g < p->groups; ++g) {
      const int64_t at = last ? n * p->pixels * ld + g * size : (n * p->c + g * size) * p->pixels;
      const moments m = last ? moments_of(src + at, p->pixels, ld, size, 1e-5f)
                             : moments_of(src + at, size, p->pixels, p->pixels, 1e-5f);
      for (int64_t i = 0; i < size * p->pixels; ++i) {
        const int64_t ch = g * size + (last ? i % size : i / p->pixels);
        const int64_t j = at + (last ? i / size * ld + i % size : i);
        const double x = (src[j] - m.mean) * m.inv * scale[ch] + bias[ch];
        const double want = activation_in_double(p->activation, 0, 0, x);
        const double bound =
            8 * FLT_EPSILON * (100 * m.inv + 1) + dst_is_bf16 * fabs(want) * 0x1p-8;
        check_near(dst[j], want, bound, "group norm", ch, i);
      }
    }
    if (last)
      assert_true(fabsf(dst[n * p->pixels * ld + p->c] - kCanary) < (dst_is_bf16 ? 64 : 1e-3));
  }
  stored_free(src_is_bf16, from, count), stored_free(dst_is_bf16, to, count);
  buffer_free(src), buffer_free(dst), buffer_free(scale), buffer_free(bias);
  buffer_free(workspace);
}

static void check_groups(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i)
    for (unsigned types = 0; types < 4; ++types) {
      check_group_problem(kernels, &kProblems[i], /*last=*/true, types & 1, types & 2);
      check_group_problem(kernels, &kProblems[i], /*last=*/false, types & 1, types & 2);
    }
}

static void check_stats(const carnot_cpu_kernels* kernels) {
  enum { kRows = 1000, kWidth = 21 };
  float *x = shifted(kRows * kWidth, 67), mean[kWidth], m2[kWidth];
  kernels->channel_stats_f32(/*is_bf16=*/false, kRows, kWidth, x, kWidth, mean, m2);
  for (int j = 0; j < kWidth; ++j) {
    const moments m = moments_of(x + j, kRows, kWidth, 1, 0);
    check_near(mean[j], m.mean, 4 * FLT_EPSILON * 100, "mean", j, 0);
    check_near(m2[j], kRows / (m.inv * m.inv), 1e-5 * kRows, "m2", j, 0);
  }
  buffer_free(x);
}

static void test_rows(void** state) { (void)state, for_each_isa(check_rows); }
static void test_groups(void** state) { (void)state, for_each_isa(check_groups); }
static void test_stats(void** state) { (void)state, for_each_isa(check_stats); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_groups),
                                     cmocka_unit_test(test_stats)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
