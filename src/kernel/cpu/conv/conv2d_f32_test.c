// Convolution kernels against double precision.
#include "kernel/cpu/conv/conv2d_f32.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t n, h, w, c, groups, k, r, s, stride, dilation, pad;
  carnot_kernel_activation activation;
  bool residual, dense;  // dense: no gap between pixels
} problem;

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
};

static int64_t out_size(int64_t in, int64_t filter, const problem* p) {
  return (in + 2 * p->pad - (filter - 1) * p->dilation - 1) / p->stride + 1;
}

typedef struct operands {
  int64_t p, q, src_ld, ld;
  float *src, *weights, *packed, *bias, *residual, *zeros, *dst;
} operands;

// Input and weights hold what the kernel computes with: the oracle sees the same numbers.
static void operands_init(const problem* p, const carnot_cpu_kernels* kernels, weights_type type,
                          operands* o) {
  const int64_t c = p->c * p->groups, k = p->k * p->groups;
  o->p = out_size(p->h, p->r, p), o->q = out_size(p->w, p->s, p);
  o->src_ld = p->dense ? c : c + 2, o->ld = k + 3;
  o->src = buffer(p->n * p->h * p->w * o->src_ld - (o->src_ld - c), 11);
  o->weights = buffer(k * p->c * p->r * p->s, 12);
  round_all(type, o->weights, k * p->c * p->r * p->s);
  if (rounds_rows(kernels, type))
    round_all(type, o->src, p->n * p->h * p->w * o->src_ld - (o->src_ld - c));
  o->packed = buffer(carnot_packed_k1n16_count(p->r * p->s * p->c, p->k), 0);
  o->bias = buffer(k, 13);
  o->residual = buffer(p->n * o->p * o->q * o->ld, 14);
  o->zeros = buffer(p->c, 0);
  memset(o->zeros, 0, (size_t)p->c * sizeof(float));
  o->dst = buffer(p->n * o->p * o->q * o->ld - 3, 0);
}

static void operands_deinit(operands* o) {
  buffer_free(o->src), buffer_free(o->weights), buffer_free(o->packed), buffer_free(o->bias);
  buffer_free(o->residual), buffer_free(o->zeros), buffer_free(o->dst);
}

static carnot_conv2d_f32 conv_of(const problem* p, const operands* o, int64_t group) {
  return (carnot_conv2d_f32){
      .n = p->n,
      .h = p->h,
      .w = p->w,
      .c = p->c,
      .p = o->p,
      .q = o->q,
      .k = p->k,
      .r = p->r,
      .s = p->s,
      .stride_h = p->stride,
      .stride_w = p->stride,
      .dilation_h = p->dilation,
      .dilation_w = p->dilation,
      .pad_h = p->pad,
      .pad_w = p->pad,
      .src = o->src + group * p->c,
      .src_n = p->h * p->w * o->src_ld,
      .src_h = p->w * o->src_ld,
      .src_w = o->src_ld,
      .weights = o->packed,
      .zeros = o->zeros,
      .dst = o->dst + group * p->k,
      .ld = o->ld,
      .epilogue = {.bias = o->bias + group * p->k,
                   .residual = p->residual ? o->residual + group * p->k : NULL,
                   .residual_ld = o->ld,
                   .activation = p->activation,
                   .a = -0.2f,
                   .b = 1.5f}};
}

// Output (m, k) of a group in double precision; the sum of sizes for the bound.
static double reference(const problem* p, const operands* o, int64_t group, int64_t m, int64_t k,
                        double* out_size_sum) {
  const int64_t q = m % o->q, row = m / o->q % o->p, n = m / (o->q * o->p);
  double sum = o->bias[group * p->k + k], size = fabs(sum);
  for (int64_t r = 0; r < p->r; ++r) {
    for (int64_t s = 0; s < p->s; ++s) {
      const int64_t h = row * p->stride + r * p->dilation - p->pad;
      const int64_t w = q * p->stride + s * p->dilation - p->pad;
      if (h < 0 || h >= p->h || w < 0 || w >= p->w) continue;
      for (int64_t c = 0; c < p->c; ++c) {
        const double x = o->src[((n * p->h + h) * p->w + w) * o->src_ld + group * p->c + c];
        const int64_t at = (((group * p->k + k) * p->c + c) * p->r + r) * p->s + s;
        sum += x * o->weights[at], size += fabs(x * o->weights[at]);
      }
    }
  }
  if (p->residual) {
    const double x = o->residual[m * o->ld + group * p->k + k];
    sum += x, size += fabs(x);
  }
  *out_size_sum = size;
  return activation_in_double(p->activation, -0.2f, 1.5f, sum);
}

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
