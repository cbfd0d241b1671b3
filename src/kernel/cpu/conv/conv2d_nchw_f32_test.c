// Convolution of row-major pictures against double precision.
#include "kernel/cpu/conv/conv2d_nchw_f32.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t h, w, c, k, r, s, stride, dilation, pad;
  carnot_kernel_activation activation;
} problem;

static const problem kProblems[] = {
    {5, 7, 3, 2, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE},
    {1, 131, 5, 31, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_RELU},
    {3, 149, 67, 45, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_RELU},
    {1, 80, 128, 32, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE},
    {9, 56, 4, 16, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE},
    {11, 37, 3, 9, 7, 7, 2, 1, 3, CARNOT_KERNEL_ACTIVATION_SILU},
    {12, 80, 2, 8, 3, 3, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_CLIP},
    {13, 29, 2, 7, 3, 2, 3, 2, 4, CARNOT_KERNEL_ACTIVATION_NONE},
    {17, 56, 1, 1, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU},
    {17, 33, 1, 1, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE},
    {14, 19, 1, 1, 5, 5, 1, 1, 2, CARNOT_KERNEL_ACTIVATION_NONE},
    {15, 70, 1, 1, 5, 3, 2, 1, 2, CARNOT_KERNEL_ACTIVATION_NONE},
    {9, 64, 1, 1, 7, 7, 1, 1, 3, CARNOT_KERNEL_ACTIVATION_GELU_ERF},
    {10, 30, 1, 1, 7, 7, 2, 1, 3, CARNOT_KERNEL_ACTIVATION_NONE},
    {8, 41, 1, 1, 3, 3, 1, 2, 2, CARNOT_KERNEL_ACTIVATION_NONE},
    {4, 3, 2, 3, 3, 3, 1, 1, 5, CARNOT_KERNEL_ACTIVATION_NONE},
    {1, 300, 1, 1, 1, 31, 1, 1, 15, CARNOT_KERNEL_ACTIVATION_NONE},
    {1, 5, 2, 2, 1, 3, 4, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE},
    {6, 90, 5, 3, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE},
    {6, 90, 5, 7, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE},
};

static double exact(const carnot_conv2d_nchw_f32* c, int64_t k, int64_t p, int64_t q,
                    double* out_size) {
  double sum = c->bias[k], size = fabs(sum);
  for (int64_t ch = 0; ch < c->c; ++ch) {
    for (int64_t r = 0; r < c->r; ++r) {
      for (int64_t s = 0; s < c->s; ++s) {
        const int64_t h = p * c->stride_h + r * c->dilation_h - c->pad_h;
        const int64_t w = q * c->stride_w + s * c->dilation_w - c->pad_w;
        if (h < 0 || h >= c->h || w < 0 || w >= c->w) continue;
        const double x = c->src[ch * c->src_plane + h * c->w + w];
        const int64_t depth = c->c * c->r * c->s, tap = (ch * c->r + r) * c->s + s;
        const int64_t block = k / CARNOT_CONV2D_NCHW_BLOCK * CARNOT_CONV2D_NCHW_BLOCK;
        const int64_t width =
            c->k - block < CARNOT_CONV2D_NCHW_BLOCK ? c->k - block : CARNOT_CONV2D_NCHW_BLOCK;
        const double y = c->weights[block * depth + tap * width + k - block];
        sum += x * y, size += fabs(x * y);
      }
    }
  }
  *out_size = size;
  return activation_in_double(c->activation, c->a, c->b, sum);
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p) {
  const int64_t span = (p->r - 1) * p->dilation + 1, across = (p->s - 1) * p->dilation + 1;
  carnot_conv2d_nchw_f32 c = {.h = p->h,
                              .w = p->w,
                              .p = (p->h + 2 * p->pad - span) / p->stride + 1,
                              .q = (p->w + 2 * p->pad - across) / p->stride + 1,
                              .r = p->r,
                              .s = p->s,
                              .stride_h = p->stride,
                              .stride_w = p->stride,
                              .dilation_h = p->dilation,
                              .dilation_w = p->dilation,
                              .pad_h = p->pad,
                              .pad_w = p->pad,
                              .c = p->c,
                              .k = p->k,
                              .activation = p->activation,
                              .a = -0.2f,
                              .b = 1.5f};
  c.src_plane = p->h * p->w + 5, c.dst_plane = c.p * c.q + 3;
  float *src = buffer(p->c * c.src_plane - 5, 31), *bias = buffer(p->k, 33);
  float* weights = buffer(p->c * p->r * p->s * p->k, 32);
  float *dst = buffer(p->k * c.dst_plane - 3, 0),
        *scratch = buffer(carnot_conv2d_nchw_scratch(&c, c.p), 0);
  c.src = src, c.weights = weights, c.bias = bias, c.dst = dst;
  kernels->conv2d_nchw_f32(&c, 0, c.p / 3, scratch);
  kernels->conv2d_nchw_f32(&c, c.p / 3, c.p, scratch);
  for (int64_t k = 0; k < p->k; ++k) {
    for (int64_t i = 0; i < c.p * c.q; ++i) {
      double size;
      const double want = exact(&c, k, i / c.q, i % c.q, &size);
      check_near(dst[k * c.dst_plane + i], want, 8 * FLT_EPSILON * (1 + size), "conv", k, i);
    }
  }
  buffer_free(src), buffer_free(weights), buffer_free(bias), buffer_free(dst), buffer_free(scratch);
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
