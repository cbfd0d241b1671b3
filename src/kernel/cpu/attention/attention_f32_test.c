// Attention kernels against double precision.
#include "kernel/cpu/attention/attention_f32.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t q_len, kv_len, d, dv;
  bool causal;
  int mask;  // 0 none, 1 a row for all, 2 full
} problem;

static const problem kProblems[] = {
    {128, 128, 64, 64, false, 0}, {70, 70, 64, 64, true, 0},   {5, 300, 33, 20, false, 2},
    {130, 257, 16, 48, true, 2},  {1, 1000, 64, 64, false, 0}, {3, 400, 80, 72, true, 1},
    {64, 1, 8, 8, false, 0},      {200, 200, 64, 64, true, 1}, {1, 1, 1, 1, false, 0},
};

static void check_problem(const carnot_cpu_kernels* kernels, weights_type type, const problem* p) {
  carnot_attention_f32_fn* run =
      type == WEIGHTS_BF16 ? kernels->attention_bf16 : kernels->attention_f32;
  const int64_t q_ld = p->d + 3, k_ld = p->d + 1, v_ld = p->dv + 2, ld = p->dv + 5;
  float *q = buffer((p->q_len - 1) * q_ld + p->d, 71), *k = buffer(p->kv_len * k_ld, 72);
  float *v = buffer(p->kv_len * v_ld, 73), *dst = buffer(p->q_len * ld - 5, 0);
  // Operands are what the kernel computes with; what is left is the rounding of softmax's weights.
  const bool rounds = rounds_rows(kernels, type);
  if (rounds) {
    round_all(type, q, (p->q_len - 1) * q_ld + p->d), round_all(type, k, p->kv_len * k_ld);
    round_all(type, v, p->kv_len * v_ld);
  }
  const double bound = 60 * FLT_EPSILON + (rounds ? 0x1p-9 : 0);
  float* mask = buffer(p->q_len * p->kv_len, 74);
  for (int64_t i = 0; i < p->q_len * p->kv_len; i += 7) mask[i] = -INFINITY;
  mask[0] = 0;
  float* workspace = buffer(carnot_attention_f32_workspace(p->d, p->dv, p->q_len), 0);
  const carnot_attention_f32 attention = {.q_len = p->q_len,
                                          .kv_len = p->kv_len,
                                          .d = p->d,
                                          .dv = p->dv,
                                          .q = q,
                                          .q_ld = q_ld,
                                          .k = k,
                                          .k_ld = k_ld,
                                          .v = v,
                                          .v_ld = v_ld,
                                          .dst = dst,
                                          .dst_ld = ld,
                                          .scale = 2,
                                          .causal = p->causal,
                                          .past = p->kv_len - p->q_len,
                                          .mask = p->mask ? mask : NULL,
                                          .mask_ld = p->mask == 2 ? p->kv_len : 0,
                                          .workspace = workspace};
  run(&attention, 0, p->q_len);
  double* w = malloc((size_t)p->kv_len * sizeof *w);
  for (int64_t i = 0; i < p->q_len; ++i) {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < p->kv_len; ++j) {
      w[j] = p->mask == 2 ? mask[i * p->kv_len + j] : p->mask == 1 ? mask[j] : 0;
      for (int64_t c = 0; c < p->d; ++c) w[j] += 2.0 * q[i * q_ld + c] * k[j * k_ld + c];
      if (p->causal && j > i + p->kv_len - p->q_len) w[j] = -INFINITY;
      max = fmax(max, w[j]);
    }
    for (int64_t j = 0; j < p->kv_len; ++j) sum += w[j] = exp(w[j] - max);
    for (int64_t c = 0; c < p->dv; ++c) {
      double want = 0;
      for (int64_t j = 0; j < p->kv_len; ++j) want += w[j] / sum * v[j * v_ld + c];
      check_near(dst[i * ld + c], want, bound, "attention", i, c);
    }
    if (i + 1 < p->q_len) assert_true(dst[i * ld + p->dv] == kCanary);
  }
  // Cut at tiles, the bits are the same.
  float* parts = buffer(p->q_len * ld, 0);
  carnot_attention_f32 part = attention;
  part.dst = parts;
  for (int64_t i = 0; i < p->q_len; i += CARNOT_ATTENTION_ROWS) {
    const int64_t end = i + CARNOT_ATTENTION_ROWS;
    run(&part, i, end < p->q_len ? end : p->q_len);
  }
  assert_memory_equal(parts, dst, (size_t)(p->q_len * ld - 5) * sizeof *dst);
  buffer_free(q), buffer_free(k), buffer_free(v), buffer_free(dst), buffer_free(mask);
  buffer_free(workspace), buffer_free(parts), free(w);
}

static void check_attention(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    check_problem(kernels, WEIGHTS_F32, &kProblems[i]);
    check_problem(kernels, WEIGHTS_BF16, &kProblems[i]);
  }
}

static void test_attention(void** state) { (void)state, for_each_isa(check_attention); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
