// Depthwise convolution against double precision.
#include "kernel/cpu/conv/depthwise_f32.h"

#include "kernel/cpu/common/kernel_test.h"
#include "kernel/cpu/gemm/pack_f32.h"

typedef struct problem {
  int64_t n, h, w, c, r, s, stride, dilation, pad;
  carnot_kernel_activation activation;
  bool residual;
} problem;

static const problem kProblems[] = {
    {1, 12, 13, 35, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_CLIP, false},
    {2, 15, 17, 16, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, true},
    {1, 11, 19, 50, 5, 5, 1, 1, 2, CARNOT_KERNEL_ACTIVATION_SILU, false},
    {1, 14, 23, 7, 5, 5, 2, 1, 2, CARNOT_KERNEL_ACTIVATION_RELU, true},
    {1, 16, 15, 33, 7, 7, 1, 1, 3, CARNOT_KERNEL_ACTIVATION_GELU_ERF, false},
    {1, 13, 22, 19, 9, 9, 1, 1, 4, CARNOT_KERNEL_ACTIVATION_RELU, true},
    {1, 9, 14, 20, 3, 3, 1, 2, 2, CARNOT_KERNEL_ACTIVATION_NONE, false},
    {1, 2, 2, 18, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false},
    {1, 3, 1, 18, 5, 5, 1, 1, 4, CARNOT_KERNEL_ACTIVATION_NONE, false},
    {2, 1, 30, 12, 1, 9, 3, 1, 0, CARNOT_KERNEL_ACTIVATION_HARD_SWISH, false},
    {1, 12, 21, 48, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_HARD_SWISH, false},
};

static double reference(const carnot_depthwise_f32* d, const float* weights, int64_t m, int64_t ch,
                        double* out_size) {
  const int64_t q = m % d->q, p = m / d->q % d->p, n = m / (d->q * d->p);
  double sum = d->epilogue.bias[ch], size = fabs(sum);
  for (int64_t r = 0; r < d->r; ++r) {
    for (int64_t s = 0; s < d->s; ++s) {
      const int64_t h = p * d->stride_h + r * d->dilation_h - d->pad_h;
      const int64_t w = q * d->stride_w + s * d->dilation_w - d->pad_w;
      if (h < 0 || h >= d->h || w < 0 || w >= d->w) continue;
      const double x = ((const float*)d->src)[n * d->src_n + h * d->src_h + w * d->src_w + ch];
      const double term = x * weights[(ch * d->r + r) * d->s + s];
      sum += term, size += fabs(term);
    }
  }
  if (d->epilogue.residual) {
    const double x = d->epilogue.residual[m * d->epilogue.residual_ld + ch];
    sum += x, size += fabs(x);
  }
  *out_size = size;
  return activation_in_double(d->epilogue.activation, d->epilogue.a, d->epilogue.b, sum);
}

// The same numbers in BF16 give the float32 results, rounded where they are stored as BF16.
static void check_stored(const carnot_cpu_kernels* kernels, carnot_depthwise_f32 d,
                         int64_t src_count, int64_t pixels) {
  const int64_t count = pixels * d.ld - 3;
  float *src = buffer(src_count, 0), *want = buffer(count, 0), *got = buffer(count, 0);
  uint16_t *half = malloc((size_t)src_count * 2), *half_dst = malloc((size_t)count * 2);
  kernels->bf16_of_f32(src_count, d.src, half);
  kernels->f32_of_bf16(src_count, half, src);
  for (int dst_is_bf16 = 0; dst_is_bf16 < 2; ++dst_is_bf16) {
    carnot_depthwise_f32 stored = d;
    stored.epilogue.residual = NULL;
    const bool is_gate = dst_is_bf16 && carnot_kernel_is_gate(d.epilogue.activation);
    if (dst_is_bf16 && !is_gate) stored.epilogue.activation = CARNOT_KERNEL_ACTIVATION_CLIP;
    stored.src = src, stored.dst = want;
    kernels->depthwise_f32(&stored, 0, d.n * d.p);
    stored.src = half, stored.src_is_bf16 = true;
    stored.dst = dst_is_bf16 ? (void*)half_dst : got, stored.dst_is_bf16 = dst_is_bf16;
    kernels->depthwise_f32(&stored, 0, d.n * d.p);
    if (dst_is_bf16)
      kernels->f32_of_bf16(count, half_dst, got), round_all(WEIGHTS_BF16, want, count);
    for (int64_t i = 0; i < count; ++i)
      if (i % d.ld < d.c)
        assert_true(is_gate ? fabsf(got[i] - want[i]) <= fabsf(want[i]) * 0x1p-7f
                            : got[i] == want[i]);
  }
  buffer_free(src), buffer_free(want), buffer_free(got);
  free(half), free(half_dst);
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p) {
  const int64_t h_out = window_count(p->h, p->r, p->stride, p->dilation, p->pad);
  const int64_t pad_w = p->s > 1 ? p->pad : 0;
  const int64_t w_out = window_count(p->w, p->s, p->stride, p->dilation, pad_w);
  const int64_t ld = p->c + 3, src_ld = p->c + 5, pixels = p->n * h_out * w_out;
  float* src = buffer(p->n * p->h * p->w * src_ld - 5, 21);
  float* weights = buffer(p->c * p->r * p->s, 22);
  float* packed = buffer(carnot_packed_k1n16_count(p->r * p->s, p->c), 0);
  float* bias = buffer(p->c, 23);
  float* residual = buffer(pixels * ld, 24);
  float* dst = buffer(pixels * ld - 3, 0);
  carnot_pack_k1n16_f32(p->r * p->s, p->c, weights, 1, p->r * p->s, packed);
  const carnot_depthwise_f32 d = {.n = p->n,
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
                                  .pad_w = pad_w,
                                  .src = src,
                                  .src_n = p->h * p->w * src_ld,
                                  .src_h = p->w * src_ld,
                                  .src_w = src_ld,
                                  .weights = packed,
                                  .dst = dst,
                                  .ld = ld,
                                  .epilogue = {.bias = bias,
                                               .residual = p->residual ? residual : NULL,
                                               .residual_ld = ld,
                                               .activation = p->activation,
                                               .a = -0.3f,
                                               .b = 0.7f}};
  kernels->depthwise_f32(&d, 0, p->n * h_out / 2);
  kernels->depthwise_f32(&d, p->n * h_out / 2, p->n * h_out);
  for (int64_t m = 0; m < pixels; ++m) {
    for (int64_t ch = 0; ch < p->c; ++ch) {
      double size;
      const double want = reference(&d, weights, m, ch, &size);
      check_near(dst[m * ld + ch], want, 4 * FLT_EPSILON * (size + fabs(want)), "depthwise", m, ch);
    }
    for (int64_t ch = p->c; ch < ld && m + 1 < pixels; ++ch) {
      assert_true(dst[m * ld + ch] == kCanary);
    }
  }
  check_stored(kernels, d, p->n * p->h * p->w * src_ld - 5, pixels);
  buffer_free(src), buffer_free(weights), buffer_free(packed), buffer_free(bias);
  buffer_free(residual), buffer_free(dst);
}

static void check_depthwise(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    check_problem(kernels, &kProblems[i]);
  }
}

static void test_depthwise(void** state) { (void)state, for_each_isa(check_depthwise); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_depthwise)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
