// F(2x2,3x3) and F(4x4,3x3) against double precision: odd sizes, channels that fill no vector,
// every cut, and the relative error over many channels.
#include "kernel/cpu/conv/conv2d_winograd_f32.h"

#include "kernel/cpu/common/kernel_test.h"
#include "kernel/cpu/gemm/pack_f32.h"

typedef struct problem {
  int64_t n, h, w, c, k, pad_h, pad_w, below, right;
  carnot_kernel_activation activation;
  bool residual;
  int64_t dilation_h, dilation_w;
} problem;

static const problem kProblems[] = {
    {1, 8, 8, 16, 16, 1, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_RELU, false, 1, 1},
    {2, 7, 9, 19, 37, 1, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_CLIP, true, 1, 1},
    {1, 13, 31, 64, 80, 1, 0, 0, 2, CARNOT_KERNEL_ACTIVATION_SILU, true, 1, 1},
    {3, 3, 3, 33, 5, 0, 0, 0, 0, CARNOT_KERNEL_ACTIVATION_NONE, false, 1, 1},
    {1, 1, 1, 3, 17, 2, 1, 1, 2, CARNOT_KERNEL_ACTIVATION_TANH, false, 1, 1},
    {1, 29, 5, 300, 65, 1, 2, 1, 2, CARNOT_KERNEL_ACTIVATION_NONE, true, 1, 1},
    {2, 17, 13, 19, 37, 2, 3, 2, 3, CARNOT_KERNEL_ACTIVATION_CLIP, true, 2, 3},
    {1, 9, 21, 40, 17, 5, 0, 4, 0, CARNOT_KERNEL_ACTIVATION_SILU, false, 5, 4},
    {2, 5, 6, 16, 16, 7, 9, 7, 9, CARNOT_KERNEL_ACTIVATION_NONE, true, 7, 9},
};
// Many channels, whose relative L2 error has a bound of its own.
static const problem kDeep[] = {
    {1, 15, 14, 64, 5, 1, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, 1, 1},
    {1, 14, 14, 128, 5, 1, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, 1, 1},
    {1, 14, 13, 256, 5, 1, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, 1, 1},
    {1, 13, 14, 512, 5, 1, 1, 1, 1, CARNOT_KERNEL_ACTIVATION_NONE, false, 1, 1},
};

// The first result of the tile along an axis that holds result |i|.
static int64_t tile_of(int64_t i, int64_t side, int64_t dilation) {
  return i / (side * dilation) * side * dilation + i % dilation;
}

// The result, and the sum of the products' magnitudes over the pixels of its tile, which bounds the
// error.
static double reference(const carnot_conv2d_f32* d, int64_t side, const float* weights, int64_t m,
                        int64_t k, double* out_size) {
  const int64_t q = m % d->q, p = m / d->q % d->p, n = m / (d->q * d->p);
  const int64_t p0 = tile_of(p, side, d->dilation_h), q0 = tile_of(q, side, d->dilation_w);
  double sum = d->epilogue.bias[k], size = fabs(sum);
  for (int64_t c = 0; c < d->c; ++c) {
    double largest = 0;
    const float* w = weights + (k * d->c + c) * 9;
    for (int64_t i = 0; i < 9; ++i) largest = fmax(largest, fabs(w[i]));
    for (int64_t i = 0; i < carnot_winograd_points(side); ++i) {
      const int64_t y = i / (side + 2), x = i % (side + 2);
      const int64_t h = p0 + y * d->dilation_h - d->pad_h, v = q0 + x * d->dilation_w - d->pad_w;
      if (h < 0 || h >= d->h || v < 0 || v >= d->w) continue;
      const double value = d->src[n * d->src_n + h * d->src_h + v * d->src_w + c];
      const int64_t r = y - (p - p0) / d->dilation_h, s = x - (q - q0) / d->dilation_w;
      size += fabs(value) * largest;
      if (r >= 0 && r < 3 && s >= 0 && s < 3) sum += value * w[3 * r + s];
    }
  }
  if (d->epilogue.residual) {
    const double x = d->epilogue.residual[m * d->epilogue.residual_ld + k];
    sum += x, size += fabs(x);
  }
  *out_size = size;
  return activation_in_double(d->epilogue.activation, d->epilogue.a, d->epilogue.b, sum);
}

// Returns the relative L2 error.
static double check_results(const carnot_conv2d_f32* d, int64_t side, const float* weights) {
  const int64_t pixels = d->n * d->p * d->q;
  double error = 0, norm = 0;
  for (int64_t m = 0; m < pixels; ++m) {
    for (int64_t k = 0; k < d->k; ++k) {
      double size;
      const double want = reference(d, side, weights, m, k, &size), got = d->dst[m * d->ld + k];
      check_near(d->dst[m * d->ld + k], want, 4 * FLT_EPSILON * (size + fabs(want)), "winograd", m,
                 k);
      error += (got - want) * (got - want);
      norm += want * want;
    }
    for (int64_t k = d->k; k < d->ld && m + 1 < pixels; ++k)
      assert_true(d->dst[m * d->ld + k] == kCanary);
  }
  return sqrt(error / norm);
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p, int64_t side,
                          double most_error) {
  const int64_t h_out = p->h + p->pad_h + p->below - 2 * p->dilation_h,
                w_out = p->w + p->pad_w + p->right - 2 * p->dilation_w;
  const int64_t ld = p->k + 3, pixels = p->n * h_out * w_out,
                rows = p->n * carnot_winograd_tiles_of(side, h_out, p->dilation_h);
  float *src = buffer(p->n * p->h * p->w * p->c, 31), *weights = buffer(p->k * p->c * 9, 32);
  float* packed = buffer(carnot_packed_winograd_count(side, p->c, p->k), 0);
  float* zeros = calloc((size_t)p->c, sizeof(float));
  float* workspace = buffer(carnot_conv2d_winograd_f32_workspace(side, p->c), 0);
  float *bias = buffer(p->k, 33), *residual = buffer(pixels * ld, 34);
  float *dst = buffer(pixels * ld - 3, 0), *again = buffer(pixels * ld - 3, 0);
  carnot_pack_winograd_f32(side, p->k, p->c, weights, 0, (p->k + 15) / 16, packed);
  carnot_conv2d_winograd_f32 d = {.conv = {.n = p->n,
                                           .h = p->h,
                                           .w = p->w,
                                           .c = p->c,
                                           .p = h_out,
                                           .q = w_out,
                                           .k = p->k,
                                           .r = 3,
                                           .s = 3,
                                           .stride_h = 1,
                                           .stride_w = 1,
                                           .dilation_h = p->dilation_h,
                                           .dilation_w = p->dilation_w,
                                           .pad_h = p->pad_h,
                                           .pad_w = p->pad_w,
                                           .src = src,
                                           .src_n = p->h * p->w * p->c,
                                           .src_h = p->w * p->c,
                                           .src_w = p->c,
                                           .weights = packed,
                                           .zeros = zeros,
                                           .dst = dst,
                                           .ld = ld,
                                           .epilogue = {.bias = bias,
                                                        .residual = p->residual ? residual : NULL,
                                                        .residual_ld = ld,
                                                        .activation = p->activation,
                                                        .a = -0.3f,
                                                        .b = 0.7f}},
                                  .side = side,
                                  .workspace = workspace};
  kernels->conv2d_winograd_f32(&d, 0, rows, 0, p->k);
  const double error = check_results(&d.conv, side, weights);
  if (most_error > 0) {
    print_message("F(%dx%d), %3d channels: %.2e\n", (int)side, (int)side, (int)p->c, error);
    assert_true(error < most_error);
  }
  d.conv.dst = again;
  const int64_t cut = p->k > 32 ? 32 : p->k;
  for (int64_t row = 0; row < rows; ++row) {
    kernels->conv2d_winograd_f32(&d, row, row + 1, 0, cut);
    if (cut < p->k) kernels->conv2d_winograd_f32(&d, row, row + 1, cut, p->k);
  }
  assert_memory_equal(dst, again, (size_t)(pixels * ld - 3) * sizeof(float));
  buffer_free(src), buffer_free(weights), buffer_free(packed), free(zeros);
  buffer_free(workspace), buffer_free(bias), buffer_free(residual);
  buffer_free(dst), buffer_free(again);
}

static void check_conv(const carnot_cpu_kernels* kernels) {
  for (int64_t side = 2; side <= 4; side += 2) {
    for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i)
      check_problem(kernels, &kProblems[i], side, /*most_error=*/0);
    for (size_t i = 0; i < sizeof kDeep / sizeof *kDeep; ++i)
      check_problem(kernels, &kDeep[i], side, side == 2 ? 4e-7 : 1.2e-6);
  }
}

static void test_conv(void** state) { (void)state, for_each_isa(check_conv); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_conv)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
