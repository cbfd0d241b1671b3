// im2col against its definition, element by element.
#include "kernel/cpu/conv/im2col_f32.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t p, q, c, r, s, stride_h, stride_w, dilation_h, dilation_w;
  int64_t outputs;  // of a call
} problem;

static float want_at(const carnot_im2col_f32* c, int64_t m, int64_t k) {
  const int64_t tap = k / c->c, h = m / c->q * c->stride_h + tap / c->s * c->dilation_h,
                w = m % c->q * c->stride_w + tap % c->s * c->dilation_w;
  return c->held[h % c->held_rows * carnot_im2col_held_row(c) + w * c->c + k % c->c];
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* t) {
  carnot_im2col_f32 c = {.c = t->c,
                         .q = t->q,
                         .r = t->r,
                         .s = t->s,
                         .stride_h = t->stride_h,
                         .stride_w = t->stride_w,
                         .dilation_h = t->dilation_h,
                         .dilation_w = t->dilation_w,
                         .held_rows = (t->r - 1) * t->dilation_h + t->stride_h + 2};
  const int64_t depth = t->r * t->s * t->c;
  float* held = buffer(c.held_rows * carnot_im2col_held_row(&c), 41);
  c.held = held;
  for (int64_t m0 = 0; m0 < t->p * t->q; m0 += t->outputs) {
    const int64_t m1 = m0 + t->outputs < t->p * t->q ? m0 + t->outputs : t->p * t->q;
    float* dst = buffer((m1 - m0) * depth + CARNOT_IM2COL_SLACK, 0);
    kernels->im2col_f32(&c, m0, m1, dst);
    for (int64_t i = 0; i < (m1 - m0) * depth; ++i)
      if (dst[i] != want_at(&c, m0 + i / depth, i % depth))
        fail_msg("%s: output %lld, element %lld is %g, must be %g", kernels->isa,
                 (long long)(m0 + i / depth), (long long)(i % depth), dst[i],
                 want_at(&c, m0 + i / depth, i % depth));
    buffer_free(dst);
  }
  buffer_free(held);
}

static void check_problems(const carnot_cpu_kernels* kernels) {
  if (!kernels->im2col_f32) return;  // a level without tile instructions
  static const problem kProblems[] = {
      {10, 19, 3, 3, 3, 2, 2, 1, 1, 64},  // runs of 9 numbers
      {11, 40, 3, 7, 7, 1, 1, 1, 1, 33},  // of 21
      {9, 9, 16, 3, 3, 1, 1, 1, 1, 20},   // of 48
      {7, 11, 1, 3, 3, 1, 1, 1, 1, 500},  // one channel
      {1, 49, 4, 1, 2, 1, 1, 1, 1, 32},   // one row
      {8, 10, 5, 3, 3, 1, 1, 2, 2, 17},   // every tap a run
      {6, 1, 2, 3, 3, 1, 4, 1, 1, 2},     // one column
  };
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i)
    check_problem(kernels, &kProblems[i]);
}

static void test_im2col(void** state) { (void)state, for_each_isa(check_problems); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_im2col)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
