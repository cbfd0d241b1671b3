// Channels-last pooling against double precision.
#include "kernel/cpu/pool/pool_f32.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t n, h, w, c, r, s, stride, dilation, pad;
} problem;

static const problem kProblems[] = {
    {1, 12, 13, 35, 3, 3, 2, 1, 1},  {2, 9, 7, 64, 2, 2, 2, 1, 0},
    {1, 11, 19, 150, 5, 4, 1, 1, 2}, {1, 7, 7, 70, 7, 7, 1, 1, 0},
    {1, 61, 67, 9, 60, 66, 1, 1, 0}, {1, 9, 10, 20, 3, 3, 1, 2, 2},
    {1, 5, 5, 3, 3, 3, 2, 1, 2},
};

static double reference(const carnot_pool_f32* d, int64_t m, int64_t ch, bool max) {
  const int64_t q = m % d->q, p = m / d->q % d->p, n = m / (d->q * d->p);
  double acc = max ? -INFINITY : 0;
  int64_t inside = 0, padded = 0;
  for (int64_t r = 0; r < d->r; ++r) {
    for (int64_t s = 0; s < d->s; ++s) {
      const int64_t h = p * d->stride_h + r * d->dilation_h - d->pad_h;
      const int64_t w = q * d->stride_w + s * d->dilation_w - d->pad_w;
      padded += h < d->h + d->pad_h_end && w < d->w + d->pad_w_end;
      if (h < 0 || h >= d->h || w < 0 || w >= d->w) continue;
      const double x = ((const float*)d->src)[n * d->src_n + h * d->src_h + w * d->src_w + ch];
      ++inside;
      acc = !max ? acc + x : isnan(acc) || acc > x ? acc : x;
    }
  }
  return max ? acc : acc / (double)(d->include_padding ? padded : inside);
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p) {
  // The last window may reach beyond the padding, as with ceil_mode.
  const int64_t h_out = (p->h + 2 * p->pad - (p->r - 1) * p->dilation) / p->stride;
  const int64_t w_out = (p->w + 2 * p->pad - (p->s - 1) * p->dilation) / p->stride;
  const int64_t ld = p->c + 3, src_ld = p->c + 5, pixels = p->n * h_out * w_out;
  float* src = buffer(p->n * p->h * p->w * src_ld - 5, 31);
  float* dst = buffer(pixels * ld - 3, 0);
  src[4 * src_ld + 1] = NAN, src[7 * src_ld] = -INFINITY, src[8 * src_ld + 2] = INFINITY;
  carnot_pool_f32 pool = {.n = p->n,
                          .h = p->h,
                          .w = p->w,
                          .c = p->c,
                          .p = h_out,
                          .q = w_out,
                          .r = p->r,
                          .s = p->s,
                          .stride_h = p->stride,
                          .stride_w = p->stride,
                          .dilation_h = p->dilation,
                          .dilation_w = p->dilation,
                          .pad_h = p->pad,
                          .pad_w = p->pad,
                          .pad_h_end = p->pad,
                          .pad_w_end = p->pad,
                          .src = src,
                          .src_n = p->h * p->w * src_ld,
                          .src_h = p->w * src_ld,
                          .src_w = src_ld,
                          .dst = dst,
                          .ld = ld};
  for (int form = 0; form < 3; ++form) {
    const bool max = form == 0;
    pool.include_padding = form == 2;
    (max ? kernels->max_pool_f32 : kernels->average_pool_f32)(&pool, 0, p->n * h_out);
    for (int64_t m = 0; m < pixels; ++m) {
      for (int64_t ch = 0; ch < p->c; ++ch) {
        const double want = reference(&pool, m, ch, max);
        check_near(dst[m * ld + ch], want, max ? 0 : 4 * FLT_EPSILON, "pool", m, ch);
      }
      if (m + 1 < pixels) assert_true(dst[m * ld + p->c] == kCanary);
    }
  }
  buffer_free(src), buffer_free(dst);
}

// With BF16 pixels, results or both: those of float32 pixels of the same numbers, rounded.
// |positive|: but for the last rows no number is negative.
static void check_stored(const carnot_cpu_kernels* kernels, int64_t c, bool src_bf16, bool dst_bf16,
                         bool max, bool positive) {
  enum { kSide = 9, kOut = 4 };
  const int64_t in = kSide * kSide * c, out = kOut * kOut * c;
  float *src = buffer(in, 5), *want = buffer(out, 0), *got = buffer(out, 0);
  round_all(WEIGHTS_BF16, src, in);
  if (max) {
    // NaN of both signs, infinities, and a window of -inf alone (the last).
    for (int64_t i = 0; i < 7 * kSide * c && positive; ++i) src[i] = fabsf(src[i]);
    src[c * 10] = NAN, src[c * 13 + 1] = positive ? NAN : -NAN, src[c * 40 + 2] = INFINITY,
            src[c * 45] = -INFINITY;
    for (int64_t h = 6; h < 9; ++h)
      for (int64_t w = 6; w < 9; ++w) src[(h * kSide + w) * c + c - 1] = -INFINITY;
  }
  uint16_t *half = malloc((size_t)in * 2), *half_out = malloc((size_t)out * 2);
  kernels->bf16_of_f32(in, src, half);
  carnot_pool_f32 pool = {.n = 1,
                          .h = kSide,
                          .w = kSide,
                          .c = c,
                          .p = kOut,
                          .q = kOut,
                          .r = 3,
                          .s = 3,
                          .stride_h = 2,
                          .stride_w = 2,
                          .dilation_h = 1,
                          .dilation_w = 1,
                          .src = src,
                          .src_n = in,
                          .src_h = kSide * c,
                          .src_w = c,
                          .dst = want,
                          .ld = c};
  carnot_max_pool_f32_fn* fn = max ? kernels->max_pool_f32 : kernels->average_pool_f32;
  fn(&pool, 0, kOut);
  if (src_bf16) pool.src = half, pool.src_is_bf16 = true;
  pool.dst = dst_bf16 ? (void*)half_out : got, pool.dst_is_bf16 = dst_bf16;
  fn(&pool, 0, kOut);
  if (dst_bf16) kernels->f32_of_bf16(out, half_out, got), round_all(WEIGHTS_BF16, want, out);
  for (int64_t i = 0; i < out; ++i)
    if (isnan(want[i]) && isnan(got[i])) got[i] = want[i] = 0;  // of whatever bits
  assert_memory_equal(got, want, (size_t)out * sizeof *got);
  free(half), free(half_out);
  buffer_free(src), buffer_free(want), buffer_free(got);
}

static void check_pool(const carnot_cpu_kernels* kernels) {
  for (unsigned types = 0; types < 16; ++types)
    for (int64_t c = 3; c < 200; c += 64)
      check_stored(kernels, c, types & 1, types & 2, types & 4, types & 8);
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    check_problem(kernels, &kProblems[i]);
  }
}

// A window of 61 x 67 positive numbers: one running sum over it is off by 8e-7.
static void check_large_window(const carnot_cpu_kernels* kernels) {
  enum { kHeight = 61, kWidth = 67, kChannels = 37 };
  float* src = buffer(kHeight * kWidth * kChannels, 41);
  float* dst = buffer(kChannels, 0);
  for (int64_t i = 0; i < kHeight * kWidth * kChannels; ++i) src[i] = fabsf(src[i]);
  const carnot_pool_f32 pool = {.n = 1,
                                .h = kHeight,
                                .w = kWidth,
                                .c = kChannels,
                                .p = 1,
                                .q = 1,
                                .r = kHeight,
                                .s = kWidth,
                                .stride_h = 1,
                                .stride_w = 1,
                                .dilation_h = 1,
                                .dilation_w = 1,
                                .src = src,
                                .src_n = kHeight * kWidth * kChannels,
                                .src_h = kWidth * kChannels,
                                .src_w = kChannels,
                                .dst = dst,
                                .ld = kChannels};
  kernels->average_pool_f32(&pool, 0, 1);
  double error = 0, size = 0;
  for (int64_t ch = 0; ch < kChannels; ++ch) {
    const double want = reference(&pool, 0, ch, /*max=*/false);
    error += (dst[ch] - want) * (dst[ch] - want), size += want * want;
  }
  print_message("average of %d: %.2g\n", kHeight * kWidth, sqrt(error / size));
  assert_true(sqrt(error / size) < 4e-7);
  buffer_free(src), buffer_free(dst);
}

static void test_large_window(void** state) { (void)state, for_each_isa(check_large_window); }
static void test_pool(void** state) { (void)state, for_each_isa(check_pool); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pool),
                                     cmocka_unit_test(test_large_window)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
