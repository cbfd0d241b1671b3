// Convolution kernels against double precision.
#include "kernel/cpu/conv/conv2d_test.h"

static const problem kProblems[] = {
    {1, 7, 7, 5, 1, 6, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, false, false},
    {2, 9, 6, 64, 1, 40, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, false},
    {2, 10, 11, 33, 1, 17, 3, 2, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 12, 12, 16, 2, 32, 3, 3, 1, 2, 2, CARNOT_KERNEL_ACTIVATION_SILU, false, false},
    {1, 5, 5, 900, 1, 20, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_CLIP, true, false},
    {3, 8, 8, 24, 1, 50, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 30, 30, 3, 1, 8, 9, 9, 2, 1, 4, CARNOT_KERNEL_ACTIVATION_NONE, true, false},
    {1, 20, 1, 8, 4, 8, 5, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_GELU_ERF, false, false},
    {1, 23, 29, 3, 1, 33, 7, 7, 2, 1, 3, CARNOT_KERNEL_ACTIVATION_RELU, false, false},
    {1, 23, 29, 3, 1, 33, 7, 7, 2, 1, 3, CARNOT_KERNEL_ACTIVATION_RELU, false, true},
    {2, 17, 14, 1, 1, 20, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, true, true},
    {2, 3, 2, 4, 1, 20, 5, 7, 1, 1, 4, CARNOT_KERNEL_ACTIVATION_NONE, false, true},
    {2, 17, 14, 1, 1, 20, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 13, 14, 64, 1, 40, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_SIGMOID, true, false},
    {2, 27, 26, 32, 1, 20, 3, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 12, 12, 416, 1, 17, 3, 3, 1, 2, 2, CARNOT_KERNEL_ACTIVATION_RELU, true, false},
    {1, 33, 31, 32, 2, 17, 4, 3, 3, 2, 2, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 19, 17, 800, 1, 20, 3, 3, 1, 11, 11, CARNOT_KERNEL_ACTIVATION_RELU, true, false},
    {1, 9, 17, 300, 1, 20, 3, 3, 1, 20, 20, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
    {1, 11, 32, 40, 1, 50, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, true, false},
    {2, 18, 31, 70, 1, 33, 3, 3, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, true, false},
    {1, 21, 65, 37, 1, 17, 5, 3, 2, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
};

static carnot_conv2d_f32_fn* conv_fn(const carnot_cpu_kernels* kernels, weights_type type) {
  return type == WEIGHTS_F16     ? kernels->conv2d_f16
         : type == WEIGHTS_BF16  ? kernels->conv2d_bf16
         : type == WEIGHTS_SPLIT ? kernels->conv2d_split6_f32
                                 : kernels->conv2d_f32;
}

static void check_type(const carnot_cpu_kernels* kernels, weights_type type) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    const problem* p = &kProblems[i];
    operands o;
    operands_init(p, kernels, type, &o);
    const int64_t pixels = p->n * o.p * o.q;
    for (int64_t g = 0; g < p->groups; ++g) {
      const float* weights = o.weights + g * p->k * p->c * p->r * p->s;
      carnot_pack_conv_k1n16_f32(p->k, p->c, p->r * p->s, weights, o.packed);
      carnot_conv2d_f32 conv = conv_of(p, &o, g);
      float* packed = pack_as(type, p->r * p->s, p->c, p->k, o.packed);
      conv.weights = packed;
      conv_fn(kernels, type)(&conv, 0, pixels / 3, 0, p->k);
      conv_fn(kernels, type)(&conv, pixels / 3, pixels, 0, p->k);
      buffer_free(packed);
    }
    for (int64_t m = 0; m < pixels; ++m) {
      for (int64_t k = 0; k < p->k * p->groups; ++k) {
        double size;
        const double want = reference(p, &o, k / p->k, m, k % p->k, &size);
        const double bound = 4 * FLT_EPSILON * (size + fabs(want));
        check_near(o.dst[m * o.ld + k], want, bound, "conv", m, k);
      }
      for (int64_t k = p->k * p->groups; k < o.ld && m + 1 < pixels; ++k) {
        assert_true(o.dst[m * o.ld + k] == kCanary);
      }
    }
    operands_deinit(&o);
  }
}

static void check_conv(const carnot_cpu_kernels* kernels) {
  for (weights_type type = 0; type < WEIGHTS_TYPE_COUNT; ++type) check_type(kernels, type);
}

// K = 4,608: relative to the L2 norm of the result one chain of additions has an error of 1.2e-6.
static void check_long_sums_of(const carnot_cpu_kernels* kernels, weights_type type) {
  static const problem problems[] = {
      {1, 7, 7, 512, 1, 19, 3, 3, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
      {1, 9, 7, 513, 1, 17, 3, 3, 2, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, true, false},
      {1, 19, 17, 47, 1, 17, 10, 10, 3, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, true},
      {1, 5, 5, 4609, 2, 9, 1, 1, 1, 1, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, false},
  };
  for (size_t i = 0; i < sizeof problems / sizeof *problems; ++i) {
    const problem* p = &problems[i];
    operands o;
    operands_init(p, kernels, WEIGHTS_F32, &o);
    const int64_t pixels = p->n * o.p * o.q;
    double error = 0, size = 0, unused;
    for (int64_t g = 0; g < p->groups; ++g) {
      const float* weights = o.weights + g * p->k * p->c * p->r * p->s;
      carnot_pack_conv_k1n16_f32(p->k, p->c, p->r * p->s, weights, o.packed);
      carnot_conv2d_f32 conv = conv_of(p, &o, g);
      float* packed = pack_as(type, p->r * p->s, p->c, p->k, o.packed);
      conv.weights = packed;
      conv_fn(kernels, type)(&conv, 0, pixels, 0, p->k);
      buffer_free(packed);
      for (int64_t m = 0; m < pixels; ++m) {
        for (int64_t k = 0; k < p->k; ++k) {
          const double want = reference(p, &o, g, m, k, &unused);
          const double d = o.dst[m * o.ld + g * p->k + k] - want;
          error += d * d, size += want * want;
        }
      }
    }
    print_message("K %lld: %.2g\n", (long long)(p->r * p->s * p->c), sqrt(error / size));
    assert_true(sqrt(error / size) < 5e-7);
    operands_deinit(&o);
  }
}

static void check_long_sums(const carnot_cpu_kernels* kernels) {
  check_long_sums_of(kernels, WEIGHTS_F32);
  check_long_sums_of(kernels, WEIGHTS_SPLIT);
}

static void test_long_sums(void** state) { (void)state, for_each_isa(check_long_sums); }
static void test_conv(void** state) { (void)state, for_each_isa(check_conv); }

static void test_unpack(void** state) {
  (void)state;
  enum { kOut = 21, kIn = 3, kTaps = 9 };
  float weights[kOut * kIn * kTaps], back[kOut * kIn * kTaps], packed[32 * kIn * kTaps];
  uint64_t seed = 6;
  for (int i = 0; i < kOut * kIn * kTaps; ++i) weights[i] = random_f32(&seed);
  carnot_pack_conv_k1n16_f32(kOut, kIn, kTaps, weights, packed);
  carnot_unpack_conv_k1n16_f32(kOut, kIn, kTaps, packed, back);
  assert_memory_equal(weights, back, sizeof weights);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conv), cmocka_unit_test(test_long_sums),
                                     cmocka_unit_test(test_unpack)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
