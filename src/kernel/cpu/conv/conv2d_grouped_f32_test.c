// Grouped convolution against double precision.
#include "kernel/cpu/conv/conv2d_test.h"

static const problem kProblems[] = {
    {1, 12, 13, 4, 9, 4, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, false, false},
    {2, 15, 19, 4, 8, 4, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_CLIP, true, false},
    {1, 11, 33, 8, 5, 8, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_SILU, false, false},
    {1, 9, 30, 8, 4, 8, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, true, true},
    {2, 7, 18, 2, 11, 2, 5, 5, 1, 1, 2, CARNOT_KERNEL_ACTIVATION_NONE, true, false},
    {1, 8, 21, 1, 13, 2, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, false, false},
    {1, 9, 17, 3, 6, 4, 3, 3, 1, 2, 2, CARNOT_KERNEL_ACTIVATION_HARD_SWISH, false, false},
    {1, 6, 40, 16, 3, 16, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, false},
    {2, 9, 31, 24, 2, 24, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 5, 29, 32, 2, 40, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_GELU_ERF, false, false},
    {1, 2, 2, 16, 2, 17, 3, 3, 1, 2, 2, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 14, 14, 20, 1, 33, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, true, false},
    {3, 1, 44, 4, 6, 4, 1, 7, 3, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {2, 7, 7, 16, 3, 16, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, true},
    {1, 14, 13, 16, 2, 24, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_SILU, true, false},
    {2, 5, 3, 17, 2, 20, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_CLIP, false, false},
    {2, 23, 40, 32, 2, 32, 3, 3, 3, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, false},
    {1, 26, 43, 24, 2, 20, 3, 3, 5, 2, 2, CARNOT_KERNEL_ACTIVATION_NONE, true, false},
    {1, 15, 20, 12, 3, 16, 5, 5, 1, 2, 4, CARNOT_KERNEL_ACTIVATION_SILU, true, true},
    {1, 19, 30, 20, 1, 12, 3, 3, 1, 2, 2, CARNOT_KERNEL_ACTIVATION_RELU, true, true},
    {2, 11, 17, 3, 1, 5, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 4, 1, 16, 2, 16, 3, 1, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, true, false},
    {1, 3, 1, 4, 5, 4, 5, 5, 1, 1, 4, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
};

// The same numbers in BF16 give the float32 results, rounded where they are stored as BF16.
static void check_stored(const carnot_cpu_kernels* kernels, carnot_conv2d_grouped_f32 conv,
                         int64_t src_count, int64_t panels, int64_t rows) {
  const int64_t count = rows * conv.q * conv.ld - 3;
  float *src = buffer(src_count, 0), *want = buffer(count, 0), *got = buffer(count, 0);
  uint16_t *half = malloc((size_t)src_count * 2), *half_dst = malloc((size_t)count * 2);
  kernels->bf16_of_f32(src_count, conv.src, half);
  kernels->f32_of_bf16(src_count, half, src);
  for (int dst_is_bf16 = 0; dst_is_bf16 < 2; ++dst_is_bf16) {
    conv.epilogue.residual = NULL;
    if (dst_is_bf16) conv.epilogue.activation = CARNOT_KERNEL_ACTIVATION_CLIP;
    conv.src = src, conv.dst = want, conv.src_is_bf16 = conv.dst_is_bf16 = false;
    kernels->conv2d_grouped_f32(&conv, 0, panels, 0, rows);
    conv.src = half, conv.src_is_bf16 = true;
    conv.dst = dst_is_bf16 ? (void*)half_dst : got, conv.dst_is_bf16 = dst_is_bf16;
    kernels->conv2d_grouped_f32(&conv, 0, panels, 0, rows);
    if (dst_is_bf16)
      kernels->f32_of_bf16(count, half_dst, got), round_all(WEIGHTS_BF16, want, count);
    for (int64_t i = 0; i < count; ++i)
      if (i % conv.ld < conv.groups * conv.k) assert_true(got[i] == want[i]);
  }
  buffer_free(src), buffer_free(want), buffer_free(got);
  free(half), free(half_dst);
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p) {
  operands o;
  operands_init(p, kernels, WEIGHTS_F32, &o);
  const int64_t pixels = p->n * o.p * o.q, rows = p->n * o.p, outputs = p->k * p->groups;
  const int64_t panels = carnot_conv2d_grouped_panels(p->groups, p->k);
  float* packed = buffer(panels * 16 * p->c * p->r * p->s, 0);
  carnot_pack_conv2d_grouped_f32(p->groups, p->k, p->c, p->r, p->s, o.weights, packed);
  const carnot_conv2d_f32 of = conv_of(p, &o, 0);
  const carnot_conv2d_grouped_f32 conv = {.n = p->n,
                                          .h = p->h,
                                          .w = p->w,
                                          .groups = p->groups,
                                          .c = p->c,
                                          .k = p->k,
                                          .p = o.p,
                                          .q = o.q,
                                          .r = p->r,
                                          .s = p->s,
                                          .stride_h = p->stride,
                                          .stride_w = p->stride,
                                          .dilation_h = p->dilation,
                                          .dilation_w = p->dilation,
                                          .pad_h = p->pad,
                                          .pad_w = p->pad,
                                          .src = o.src,
                                          .src_n = of.src_n,
                                          .src_h = of.src_h,
                                          .src_w = of.src_w,
                                          .weights = packed,
                                          .dst = o.dst,
                                          .ld = o.ld,
                                          .epilogue = of.epilogue};
  for (int64_t panel = 0; panel < panels; ++panel) {
    kernels->conv2d_grouped_f32(&conv, panel, panel + 1, 0, rows / 3);
    kernels->conv2d_grouped_f32(&conv, panel, panel + 1, rows / 3, rows);
  }
  for (int64_t m = 0; m < pixels; ++m) {
    for (int64_t k = 0; k < outputs; ++k) {
      double size;
      const double want = reference(p, &o, k / p->k, m, k % p->k, &size);
      check_near(o.dst[m * o.ld + k], want, 4 * FLT_EPSILON * (size + fabs(want)), "grouped", m, k);
    }
    for (int64_t k = outputs; k < o.ld && m + 1 < pixels; ++k)
      assert_true(o.dst[m * o.ld + k] == kCanary);
  }
  check_stored(kernels, conv, p->n * p->h * p->w * o.src_ld - (o.src_ld - p->c * p->groups), panels,
               rows);
  buffer_free(packed);
  operands_deinit(&o);
}

static void check_grouped(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i)
    check_problem(kernels, &kProblems[i]);
}

static void test_grouped(void** state) { (void)state, for_each_isa(check_grouped); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_grouped)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
