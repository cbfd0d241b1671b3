// Attention of few queries in parts, and rotary embedding, against double precision.
#include "kernel/cpu/attention/attention_decode_f32.h"

#include "kernel/cpu/attention/rotary_f32.h"
#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t rows, keys, d, dv;
  float softcap;
  bool masked;
} problem;

static const problem kProblems[] = {{4, 1000, 64, 64, 0, false}, {1, 256, 64, 64, 0, true},
                                    {7, 300, 33, 20, 0, true},   {16, 513, 128, 128, 2.5f, false},
                                    {3, 1, 8, 100, 0, false},    {2, 257, 80, 65, 1, true}};

// Row r sees keys [r, keys - 2 r), so the last rows of short problems see none.
static int64_t low_of(int64_t r) { return r; }
static int64_t high_of(const problem* p, int64_t r) { return p->keys - 2 * r; }

static void check_row(const problem* p, int64_t r, const float* q, const float* k, const float* v,
                      const float* mask, const float* got) {
  double* w = calloc((size_t)p->keys, sizeof *w);
  double max = -INFINITY, sum = 0;
  for (int64_t j = low_of(r); j < high_of(p, r); ++j) {
    for (int64_t c = 0; c < p->d; ++c) w[j] += 0.25 * q[c] * k[j * (p->d + 1) + c];
    if (p->softcap > 0) w[j] = p->softcap * tanh(w[j] / p->softcap);
    if (p->masked) w[j] += mask[j];
    max = fmax(max, w[j]);
  }
  for (int64_t j = low_of(r); j < high_of(p, r); ++j) sum += w[j] = exp(w[j] - max);
  for (int64_t c = 0; c < p->dv; ++c) {
    double want = 0;
    for (int64_t j = low_of(r); j < high_of(p, r); ++j) want += w[j] / sum * v[j * (p->dv + 3) + c];
    check_near(got[c], want, 60 * FLT_EPSILON, "attention", r, c);
  }
  free(w);
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p) {
  const int64_t blocks = (p->keys + CARNOT_DECODE_KEYS - 1) / CARNOT_DECODE_KEYS,
                stride = p->dv + 2;
  float *q = buffer(p->rows * p->d, 71), *k = buffer(p->keys * (p->d + 1) - 1, 72),
        *v = buffer(p->keys * (p->dv + 3) - 3, 73), *mask = buffer(p->keys, 74),
        *parts = buffer(p->rows * blocks * stride, 0), *dst = buffer(p->dv, 0);
  for (int64_t j = 0; j < p->keys; j += 7) mask[j] = -INFINITY;
  carnot_attention_decode_f32 call = {.rows = p->rows,
                                      .d = p->d,
                                      .dv = p->dv,
                                      .k_ld = p->d + 1,
                                      .v_ld = p->dv + 3,
                                      .scale = 0.25f,
                                      .softcap = p->softcap};
  for (int64_t b = 0; b < blocks; ++b) {
    call.first = b * CARNOT_DECODE_KEYS;
    call.count =
        p->keys - call.first < CARNOT_DECODE_KEYS ? p->keys - call.first : CARNOT_DECODE_KEYS;
    call.k = k + call.first * call.k_ld, call.v = v + call.first * call.v_ld;
    for (int64_t r = 0; r < p->rows; ++r) {
      call.q[r] = q + r * p->d, call.mask[r] = p->masked ? mask : NULL;
      call.low[r] = low_of(r), call.high[r] = high_of(p, r);
      call.parts[r] = parts + (r * blocks + b) * stride;
    }
    kernels->attention_decode_f32(&call);
  }
  for (int64_t r = 0; r < p->rows; ++r) {
    kernels->attention_combine_f32(blocks, parts + r * blocks * stride, stride, p->dv, dst);
    if (low_of(r) < high_of(p, r))
      check_row(p, r, q + r * p->d, k, v, mask, dst);
    else
      for (int64_t c = 0; c < p->dv; ++c) assert_true(dst[c] == 0);
  }
  buffer_free(q), buffer_free(k), buffer_free(v), buffer_free(mask), buffer_free(parts);
  buffer_free(dst);
}

static void check_rotary(const carnot_cpu_kernels* kernels, int64_t d, int64_t half, bool pairs) {
  float *x = buffer(d, 81), *c = buffer(half, 82), *s = buffer(half, 83), *y = buffer(d, 0);
  kernels->rotary_f32(d, half, pairs, x, c, s, y);
  for (int64_t i = 0; i < half; ++i) {
    const int64_t a = pairs ? 2 * i : i, b = pairs ? 2 * i + 1 : half + i;
    check_near(y[a], (double)c[i] * x[a] - (double)s[i] * x[b], 2 * FLT_EPSILON, "rotary", a, 0);
    check_near(y[b], (double)s[i] * x[a] + (double)c[i] * x[b], 2 * FLT_EPSILON, "rotary", b, 0);
  }
  for (int64_t i = 2 * half; i < d; ++i) assert_true(y[i] == x[i]);
  kernels->rotary_f32(d, half, pairs, x, c, s, x);
  assert_memory_equal(x, y, (size_t)d * sizeof *x);
  buffer_free(x), buffer_free(c), buffer_free(s), buffer_free(y);
}

static void check_all(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i)
    check_problem(kernels, &kProblems[i]);
  for (int pairs = 0; pairs < 2; ++pairs)
    check_rotary(kernels, 64, 32, pairs), check_rotary(kernels, 21, 7, pairs);
}

static void test_decode(void** state) { (void)state, for_each_isa(check_all); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_decode)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
