// Rows of convolutions of few filters against double precision.
#include "kernel/cpu/conv/conv2d_planes_f32.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t q, k, r, c, s, dilation;
  int64_t absent;  // the filter row without pixels, or -1
} problem;

static void check_row(const carnot_cpu_kernels* kernels, const problem* p) {
  const int64_t ld = carnot_conv2d_planes_ld(p->q, p->s, p->dilation), dst_ld = p->q + 3;
  float *src = buffer(p->r * p->c * ld, 31), *bias = buffer(p->k, 32),
        *weights = buffer(p->r * p->c * p->s * p->k, 33), *dst = buffer(p->k * dst_ld, 0);
  const float* rows[16];
  for (int64_t r = 0; r < p->r; ++r) rows[r] = r == p->absent ? NULL : src + r * p->c * ld;
  // What the last tile reads beyond the pixels reaches no result.
  const int64_t pixels = p->q + (p->s - 1) * p->dilation;
  for (int64_t i = 0; i < p->r * p->c; ++i)
    for (int64_t x = pixels; x < ld; ++x) src[i * ld + x] = NAN;
  const carnot_conv2d_planes_f32 conv = {
      .q = p->q,
      .k = p->k,
      .r = p->r,
      .c = p->c,
      .s = p->s,
      .dilation = p->dilation,
      .rows = rows,
      .ld = ld,
      .weights = weights,
      .dst = dst,
      .dst_ld = dst_ld,
      .epilogue = {.bias = bias, .activation = CARNOT_KERNEL_ACTIVATION_TANH}};
  kernels->conv2d_planes_f32(&conv);
  for (int64_t k = 0; k < p->k; ++k) {
    for (int64_t q = 0; q < p->q; ++q) {
      double want = bias[k], magnitude = 1;
      for (int64_t i = 0; i < p->r * p->c * p->s; ++i) {
        const int64_t row = i / p->s;
        if (row / p->c == p->absent) continue;
        const double term =
            (double)src[row * ld + q + i % p->s * p->dilation] * weights[i * p->k + k];
        want += term, magnitude += fabs(term);
      }
      check_near(dst[k * dst_ld + q], tanh(want), 2 * FLT_EPSILON * magnitude, "row", k, q);
    }
    for (int64_t q = p->q; q < dst_ld; ++q) assert_true(dst[k * dst_ld + q] == kCanary);
  }
  buffer_free(src), buffer_free(bias), buffer_free(weights), buffer_free(dst);
}

static void check_rows(const carnot_cpu_kernels* kernels) {
  // Widths around whole, half and single vectors of a tile; each number of filters.
  static const int64_t kWidths[] = {1, 15, 17, 48, 65, 130, 145, 259};
  for (int64_t k = 1; k <= CARNOT_CONV2D_PLANES_FILTERS; ++k)
    for (size_t i = 0; i < sizeof kWidths / sizeof *kWidths; ++i)
      check_row(kernels, &(problem){kWidths[i], k, 3, 5, 3, 1, -1});
  check_row(kernels, &(problem){200, 3, 9, 16, 9, 1, 8});
  check_row(kernels, &(problem){50, 2, 2, 70, 7, 3, 0});  // several blocks of channels
  check_row(kernels, &(problem){50, 2, 2, 7, 1, 1, -1});
}

static void test_rows(void** state) { (void)state, for_each_isa(check_rows); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
