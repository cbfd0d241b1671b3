// Pooling over dense planes against double precision.
#include "kernel/cpu/pool/pool_nchw_f32.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int rank;
  int64_t planes, in[4], kernel[4], stride, dilation, pad;
} problem;

static const problem kProblems[] = {
    {3, 3, {4, 6, 37}, {2, 2, 2}, 2, 1, 0},
    {3, 2, {5, 7, 19}, {3, 3, 3}, 1, 1, 1},
    {3, 2, {6, 5, 23}, {3, 1, 5}, 3, 1, 2},
    {3, 1, {7, 9, 40}, {2, 3, 3}, 1, 2, 2},
    {4, 2, {3, 4, 5, 16}, {2, 2, 3, 2}, 2, 1, 1},
    {1, 3, {50}, {3}, 2, 1, 1},
    {3, 1, {3, 3, 3}, {3, 3, 4}, 2, 1, 3},
    {2, 3, {21, 56}, {3, 3}, 2, 1, 1},
    {2, 2, {14, 35}, {3, 3}, 1, 2, 0},
    {2, 2, {9, 33}, {3, 3}, 1, 1, 1},
    {1, 2, {131}, {5}, 1, 1, 2},
    {2, 1, {5, 3}, {2, 2}, 2, 1, 0},
};

// Element |index| of the result of plane |src|.
static double reference(const carnot_pool_nchw_f32* p, const float* src, int64_t index, bool max) {
  int64_t at[CARNOT_POOL_NCHW_RANK], taps = 1, inside = 0, window_elements = 0;
  double acc = max ? -INFINITY : 0;
  for (int d = p->rank - 1; d >= 0; index /= p->axes[d--].out) at[d] = index % p->axes[d].out;
  for (int d = 0; d < p->rank; ++d) taps *= p->axes[d].kernel;
  for (int64_t tap = 0; tap < taps; ++tap) {
    int64_t rest = tap, offset = 0, step = 1;
    bool in = true, padded = true;
    for (int d = p->rank - 1; d >= 0; --d) {
      const carnot_pool_axis* a = &p->axes[d];
      const int64_t x = at[d] * a->stride - a->pad + rest % a->kernel * a->dilation;
      rest /= a->kernel;
      in = in && x >= 0 && x < a->in;
      padded = padded && x < a->in + a->pad_end;
      offset += x * step;
      step *= a->in;
    }
    window_elements += padded;
    if (!in) continue;
    const double x = src[offset];
    ++inside;
    acc = !max ? acc + x : isnan(acc) || acc > x ? acc : x;
  }
  const int64_t count = p->include_padding ? window_elements : inside;
  return max ? acc : count ? acc / (double)count : 0;
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* problem) {
  carnot_pool_nchw_f32 pool = {.rank = problem->rank};
  int64_t in = 1, out = 1;
  for (int d = 0; d < pool.rank; ++d) {
    carnot_pool_axis* a = &pool.axes[d];
    *a = (carnot_pool_axis){.in = problem->in[d],
                            .kernel = problem->kernel[d],
                            .stride = problem->stride,
                            .dilation = problem->dilation,
                            .pad = problem->pad,
                            .pad_end = problem->pad};
    // Rounded up: the last window may reach beyond the padding.
    a->out =
        (a->in + 2 * a->pad - (a->kernel - 1) * a->dilation - 1 + a->stride - 1) / a->stride + 1;
    in *= a->in, out *= a->out;
  }
  const carnot_pool_axis* last = &pool.axes[pool.rank - 1];
  float *src = buffer(problem->planes * in, 41), *line = buffer(carnot_pool_nchw_lines(last), 0);
  float* dst = buffer(problem->planes * out, 0);
  src[1] = NAN, src[in / 2] = -INFINITY, src[in - 1] = INFINITY;
  pool.src = src, pool.dst = dst;
  const int64_t rows = problem->planes * out / last->out;
  for (int form = 0; form < 3; ++form) {
    const bool max = form == 0;
    pool.include_padding = form == 2;
    (max ? kernels->max_pool_nchw_f32 : kernels->average_pool_nchw_f32)(&pool, 0, rows / 2, line);
    (max ? kernels->max_pool_nchw_f32 : kernels->average_pool_nchw_f32)(&pool, rows / 2, rows,
                                                                        line);
    for (int64_t i = 0; i < problem->planes * out; ++i) {
      const double want = reference(&pool, src + i / out * in, i % out, max);
      check_near(dst[i], want, max ? 0 : 16 * FLT_EPSILON, "pool", i / out, i % out);
    }
  }
  buffer_free(src), buffer_free(line), buffer_free(dst);
}

static void check_pool(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    check_problem(kernels, &kProblems[i]);
  }
}

static void test_pool(void** state) { (void)state, for_each_isa(check_pool); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_pool)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
