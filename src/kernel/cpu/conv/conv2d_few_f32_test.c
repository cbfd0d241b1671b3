// Convolution of few channels against double precision, from both orders of the channels.
#include "kernel/cpu/conv/conv2d_few_f32.h"

#include "kernel/cpu/common/kernel_test.h"
#include "kernel/cpu/gemm/pack_f32.h"

typedef struct problem {
  int64_t n, h, w, c, k, r, s, stride, dilation, pad;
  carnot_kernel_activation activation;
  bool residual, planes;  // planes: each channel is an image of its own
} problem;

static const problem kProblems[] = {
    {1, 12, 47, 3, 32, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_CLIP, false, true},
    {2, 9, 33, 3, 64, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, true},
    {1, 15, 61, 3, 37, 7, 7, 2, 1, 3, CARNOT_KERNEL_ACTIVATION_SILU, false, false},
    {1, 11, 50, 3, 24, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_HARD_SWISH, false, true},
    {1, 7, 29, 1, 5, 5, 5, 1, 1, 2, CARNOT_KERNEL_ACTIVATION_NONE, true, true},
    {1, 8, 90, 4, 19, 2, 4, 4, 1, 0, CARNOT_KERNEL_ACTIVATION_GELU_ERF, false, false},
    {1, 19, 40, 2, 16, 3, 3, 1, 3, 3, CARNOT_KERNEL_ACTIVATION_NONE, false, true},
    {2, 3, 2, 3, 48, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, true},
    {1, 1, 1, 3, 17, 3, 3, 1, 1, 4, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 5, 120, 3, 9, 1, 1, 9, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, true},
};

static double reference(const carnot_conv2d_few_f32* d, const float* weights, int64_t m, int64_t k,
                        double* out_size) {
  const int64_t q = m % d->q, p = m / d->q % d->p, n = m / (d->q * d->p);
  double sum = d->epilogue.bias[k], size = fabs(sum);
  for (int64_t i = 0; i < d->c * d->r * d->s; ++i) {
    const int64_t c = i / (d->r * d->s), r = i / d->s % d->r, s = i % d->s;
    const int64_t h = p * d->stride_h + r * d->dilation_h - d->pad_h;
    const int64_t w = q * d->stride_w + s * d->dilation_w - d->pad_w;
    if (h < 0 || h >= d->h || w < 0 || w >= d->w) continue;
    const double x = d->src[n * d->src_n + c * d->src_c + h * d->src_h + w * d->src_w];
    const double term = x * weights[k * d->c * d->r * d->s + i];
    sum += term, size += fabs(term);
  }
  if (d->epilogue.residual) {
    const double x = d->epilogue.residual[m * d->epilogue.residual_ld + k];
    sum += x, size += fabs(x);
  }
  *out_size = size;
  return activation_in_double(d->epilogue.activation, d->epilogue.a, d->epilogue.b, sum);
}

// BF16 results are the float32 ones, rounded.
static void check_stored(const carnot_cpu_kernels* kernels, carnot_conv2d_few_f32 d,
                         int64_t pixels) {
  const int64_t count = pixels * d.ld - 3;
  float *want = buffer(count, 0), *got = buffer(count, 0);
  uint16_t* half = malloc((size_t)count * 2);
  d.epilogue.residual = NULL;
  const bool is_gate = carnot_kernel_is_gate(d.epilogue.activation);
  if (!is_gate) d.epilogue.activation = CARNOT_KERNEL_ACTIVATION_RELU;
  d.dst = want;
  kernels->conv2d_few_f32(&d, 0, d.n * d.p);
  d.dst = half, d.dst_is_bf16 = true;
  kernels->conv2d_few_f32(&d, 0, d.n * d.p);
  kernels->f32_of_bf16(count, half, got);
  round_all(WEIGHTS_BF16, want, count);
  for (int64_t i = 0; i < count; ++i)
    if (i % d.ld < d.k)
      assert_true(is_gate ? fabsf(got[i] - want[i]) <= fabsf(want[i]) * 0x1p-7f
                          : got[i] == want[i]);
  free(half);
  buffer_free(want), buffer_free(got);
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p) {
  const int64_t h_out = window_count(p->h, p->r, p->stride, p->dilation, p->pad);
  const int64_t w_out = window_count(p->w, p->s, p->stride, p->dilation, p->pad);
  const int64_t ld = p->k + 3, pixels = p->n * h_out * w_out, depth = p->c * p->r * p->s;
  float* src = buffer(p->n * p->c * p->h * p->w, 21);
  float* weights = buffer(p->k * depth, 22);
  float* packed = buffer(carnot_packed_k1n16_count(depth, p->k), 0);
  float* bias = buffer(p->k, 23);
  float* residual = buffer(pixels * ld, 24);
  float* dst = buffer(pixels * ld - 3, 0);
  carnot_pack_k1n16_f32(depth, p->k, weights, 1, depth, packed);
  const carnot_conv2d_few_f32 d = {.n = p->n,
                                   .h = p->h,
                                   .w = p->w,
                                   .c = p->c,
                                   .p = h_out,
                                   .q = w_out,
                                   .k = p->k,
                                   .r = p->r,
                                   .s = p->s,
                                   .stride_h = p->stride,
                                   .stride_w = p->stride,
                                   .dilation_h = p->dilation,
                                   .dilation_w = p->dilation,
                                   .pad_h = p->pad,
                                   .pad_w = p->pad,
                                   .src = src,
                                   .src_n = p->c * p->h * p->w,
                                   .src_c = p->planes ? p->h * p->w : 1,
                                   .src_h = p->planes ? p->w : p->w * p->c,
                                   .src_w = p->planes ? 1 : p->c,
                                   .weights = packed,
                                   .dst = dst,
                                   .ld = ld,
                                   .epilogue = {.bias = bias,
                                                .residual = p->residual ? residual : NULL,
                                                .residual_ld = ld,
                                                .activation = p->activation,
                                                .a = -0.3f,
                                                .b = 0.7f}};
  kernels->conv2d_few_f32(&d, 0, p->n * h_out / 2);
  kernels->conv2d_few_f32(&d, p->n * h_out / 2, p->n * h_out);
  for (int64_t m = 0; m < pixels; ++m) {
    for (int64_t k = 0; k < p->k; ++k) {
      double size;
      const double want = reference(&d, weights, m, k, &size);
      check_near(dst[m * ld + k], want, 8 * FLT_EPSILON * (size + fabs(want)), "conv2d_few", m, k);
    }
    for (int64_t k = p->k; k < ld && m + 1 < pixels; ++k) assert_true(dst[m * ld + k] == kCanary);
  }
  check_stored(kernels, d, pixels);
  buffer_free(src), buffer_free(weights), buffer_free(packed), buffer_free(bias);
  buffer_free(residual), buffer_free(dst);
}

static void check_conv(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    check_problem(kernels, &kProblems[i]);
  }
}

static void test_conv(void** state) { (void)state, for_each_isa(check_conv); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conv)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
