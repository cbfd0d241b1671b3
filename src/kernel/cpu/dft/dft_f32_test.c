// Fourier transforms against their definition in double precision.
#include "kernel/cpu/dft/dft_f32.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t n, lanes;
  int64_t radices[8];
  int parts;
  bool inverse, mirror, window;
  int64_t inner;  // 1: sequences follow one another; else the numbers of |inner| alternate
  int64_t given;  // numbers in memory
} problem;

static const problem kProblems[] = {
    {1, 3, {1}, 1, false, false, false, 1, 1},
    {2, 1, {2}, 2, false, false, false, 1, 2},
    {7, 33, {7}, 1, false, false, true, 1, 7},
    {8, 17, {4, 2}, 2, true, false, false, 1, 8},
    {11, 5, {11}, 1, false, false, false, 1, 11},
    {12, 40, {4, 3}, 1, false, false, true, 1, 9},
    {13, 16, {13}, 2, false, false, false, 3, 13},
    {30, 7, {2, 3, 5}, 2, true, false, false, 5, 30},
    {64, 37, {4, 4, 4}, 1, false, false, true, 1, 64},
    {400, 35, {4, 4, 5, 5}, 1, false, false, true, 1, 400},
    {9, 18, {3, 3}, 2, true, true, false, 1, 5},
    {16, 6, {4, 4}, 2, true, true, false, 2, 9},
    {22, 3, {2, 11}, 1, true, true, false, 1, 12},
    {98, 20, {2, 7, 7}, 2, false, false, false, 1, 98},
};

// Part |part| of number |i| of the whole sequence |lane|.
static double number(const carnot_dft_f32* d, int64_t lane, int64_t i, int part) {
  const bool image = d->mirror && i > d->n / 2;
  const int64_t at = image ? d->n - i : i;
  if (at >= d->size || part >= d->parts) return 0;
  if (d->mirror && part == 1 && (i == 0 || 2 * i == d->n)) return 0;
  const double x = d->src[lane * d->src_lane + at * d->src_step + part];
  return (image && part == 1 ? -x : x) * (d->window ? d->window[i] : 1);
}

static void check_number(const carnot_dft_f32* d, bool inverse, int64_t lane, int64_t k) {
  double want[2] = {0, 0}, norm = 0;
  for (int64_t i = 0; i < d->n; ++i) {
    const double turn = 2 * 3.14159265358979323846 * (double)(i * k % d->n) / (double)d->n;
    const double re = number(d, lane, i, 0), im = number(d, lane, i, 1);
    const double c = cos(turn), s = inverse ? sin(turn) : -sin(turn);
    want[0] += re * c - im * s, want[1] += re * s + im * c;
    norm += re * re + im * im;
  }
  for (int part = 0; part < d->dst_parts; ++part) {
    const double got = d->dst[lane * d->dst_lane + k * d->dst_step + part];
    check_near(got, want[part] * (double)d->scale, 8 * FLT_EPSILON * sqrt(norm), "transform", lane,
               k);
  }
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p) {
  const int dst_parts = p->mirror ? 1 : 2;
  const int64_t bins = p->inverse || p->parts == 2 ? p->n : p->n / 2 + 1;
  const bool apart = p->inner == 1;
  carnot_dft_f32 d = {.n = p->n,
                      .size = p->given,
                      .src_lane = apart ? p->given * p->parts : p->parts,
                      .src_step = apart ? p->parts : p->lanes * p->parts,
                      .parts = p->parts,
                      .mirror = p->mirror,
                      .bins = bins,
                      .dst_lane = apart ? bins * dst_parts : dst_parts,
                      .dst_step = apart ? dst_parts : p->lanes * dst_parts,
                      .dst_parts = dst_parts,
                      .scale = p->inverse ? 1 / (float)p->n : 1};
  for (int i = 0; i < 8 && p->radices[i] > 1; ++i) d.radices[d.radix_count++] = p->radices[i];
  float *src = buffer(p->lanes * p->given * p->parts, 51), *window = buffer(p->n, 52);
  float *dst = buffer(p->lanes * bins * dst_parts, 0), *roots = buffer(2 * p->n, 0);
  float* scratch = buffer(carnot_dft_f32_scratch(p->n), 0);
  for (int64_t k = 0; k < p->n; ++k) {
    const double turn = 2 * 3.14159265358979323846 * (double)k / (double)p->n;
    roots[2 * k] = (float)cos(turn);
    roots[2 * k + 1] = (float)(p->inverse ? sin(turn) : -sin(turn));
  }
  d.src = src, d.dst = dst, d.roots = roots, d.window = p->window ? window : NULL;
  const int64_t half = p->lanes > CARNOT_DFT_LANES ? CARNOT_DFT_LANES : p->lanes;
  kernels->dft_f32(&d, 0, half, scratch);
  kernels->dft_f32(&d, half, p->lanes, scratch);
  for (int64_t lane = 0; lane < p->lanes; ++lane)
    for (int64_t k = 0; k < bins; ++k) check_number(&d, p->inverse, lane, k);
  buffer_free(src), buffer_free(window), buffer_free(dst), buffer_free(roots), buffer_free(scratch);
}

static void check_dft(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    check_problem(kernels, &kProblems[i]);
  }
}

static void test_dft(void** state) { (void)state, for_each_isa(check_dft); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_dft)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
