// Attention by AMX tiles against double precision, with operands and result in both types.
#include "kernel/cpu/attention/attention_bf16_tiles.h"

#include "kernel/cpu/common/kernel_test.h"

typedef struct problem {
  int64_t q_len, kv_len, d, dv;
  int mask;  // 0 none, 1 a row for all, 2 full, 3 full with a query that sees no key, 4 full with
             // a query to which all keys are the least float32
} problem;

static const problem kProblems[] = {
    {128, 128, 64, 64, 0}, {70, 70, 32, 32, 2},   {5, 300, 33, 20, 2},  {130, 257, 16, 48, 1},
    {1, 1000, 64, 64, 0},  {37, 400, 80, 72, 1},  {64, 1, 8, 8, 0},     {200, 197, 96, 128, 2},
    {1, 1, 1, 1, 0},       {33, 140, 128, 80, 3}, {33, 300, 64, 48, 4},
};

enum { kQ = 1, kK = 2, kV = 4, kDst = 8, kTypes = 16 };

typedef struct operands {
  int64_t q_ld, k_ld, v_ld, ld, q_count, k_count, v_count, count;
  float *q, *k, *v, *mask;
} operands;

static operands operands_make(const problem* p) {
  operands o = {.q_ld = p->d + 3, .k_ld = p->d + 1, .v_ld = p->dv + 2, .ld = p->dv + 5};
  o.q_count = (p->q_len - 1) * o.q_ld + p->d, o.k_count = (p->kv_len - 1) * o.k_ld + p->d;
  o.v_count = (p->kv_len - 1) * o.v_ld + p->dv, o.count = (p->q_len - 1) * o.ld + p->dv;
  o.q = buffer(o.q_count, 71), o.k = buffer(o.k_count, 72), o.v = buffer(o.v_count, 73);
  // Operands are what the kernel computes with; what is left is the rounding of softmax's weights.
  round_all(WEIGHTS_BF16, o.q, o.q_count), round_all(WEIGHTS_BF16, o.k, o.k_count);
  round_all(WEIGHTS_BF16, o.v, o.v_count);
  o.mask = buffer(p->q_len * p->kv_len, 74);
  for (int64_t i = 0; i < p->q_len * p->kv_len; i += 7) o.mask[i] = -INFINITY;
  o.mask[0] = 0;
  for (int64_t j = 0; j < p->kv_len && p->mask >= 3; ++j)
    o.mask[p->kv_len + j] = p->mask == 3 ? -INFINITY : -FLT_MAX;
  return o;
}

static void reference(const problem* p, const operands* o, int64_t i, double* w) {
  double max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < p->kv_len; ++j) {
    w[j] = p->mask >= 2 ? o->mask[i * p->kv_len + j] : p->mask == 1 ? o->mask[j] : 0;
    for (int64_t c = 0; c < p->d; ++c) w[j] += 2.0 * o->q[i * o->q_ld + c] * o->k[j * o->k_ld + c];
    max = fmax(max, w[j]);
  }
  for (int64_t j = 0; j < p->kv_len; ++j) sum += w[j] = max == -INFINITY ? 0 : exp(w[j] - max);
  for (int64_t j = 0; j < p->kv_len; ++j) w[j] = sum > 0 ? w[j] / sum : 0;
}

static void check_result(const problem* p, const operands* o, const float* dst, bool is_bf16) {
  double* w = malloc((size_t)p->kv_len * sizeof *w);
  for (int64_t i = 0; i < p->q_len; ++i) {
    reference(p, o, i, w);
    for (int64_t c = 0; c < p->dv; ++c) {
      double want = 0, size = 0;
      for (int64_t j = 0; j < p->kv_len; ++j)
        want += w[j] * o->v[j * o->v_ld + c], size += w[j] * fabs(o->v[j * o->v_ld + c]);
      const double bound = 0x1p-8 * size + is_bf16 * fabs(want) * 0x1p-8;
      check_near(dst[i * o->ld + c], want, bound, "attention", i, c);
    }
    for (int64_t c = p->dv; c < o->ld && i + 1 < p->q_len; ++c)
      assert_true(fabsf(dst[i * o->ld + c] - kCanary) < (is_bf16 ? 64 : 1e-3));
  }
  free(w);
}

static void run_cut(const carnot_cpu_kernels* kernels, const carnot_attention_bf16_tiles* call,
                    int64_t rows) {
  for (int64_t i = 0; i < call->q_len; i += rows)
    kernels->attention_bf16_tiles(call, i, i + rows < call->q_len ? i + rows : call->q_len);
}

static void check_types(const carnot_cpu_kernels* kernels, const problem* p, unsigned types) {
  operands o = operands_make(p);
  const bool is_bf16 = types & kDst;
  void *q = stored(kernels, types & kQ, o.q, o.q_count),
       *k = stored(kernels, types & kK, o.k, o.k_count),
       *v = stored(kernels, types & kV, o.v, o.v_count);
  float *wide = buffer(o.count, 0), *again = buffer(o.count, 0);
  void *dst = stored(kernels, is_bf16, wide, o.count),
       *parts = stored(kernels, is_bf16, wide, o.count);
  const size_t bytes = (size_t)carnot_attention_bf16_tiles_workspace(p->kv_len, p->d, p->dv);
  carnot_attention_bf16_tiles call = {.q_len = p->q_len,
                                      .kv_len = p->kv_len,
                                      .d = p->d,
                                      .dv = p->dv,
                                      .q = {q, o.q_ld, types & kQ},
                                      .k = {k, o.k_ld, types & kK},
                                      .v = {v, o.v_ld, types & kV},
                                      .dst = dst,
                                      .dst_ld = o.ld,
                                      .dst_is_bf16 = is_bf16,
                                      .scale = 2,
                                      .zero_empty = true,
                                      .mask = p->mask ? o.mask : NULL,
                                      .mask_ld = p->mask >= 2 ? p->kv_len : 0,
                                      .workspace = aligned_alloc(64, bytes)};
  memset(call.workspace, 0xff, bytes);  // NaN where nothing was packed
  run_cut(kernels, &call, p->q_len);
  call.dst = parts;
  run_cut(kernels, &call, CARNOT_ATTENTION_TILES_ROWS);  // the same bits however it is cut
  assert_memory_equal(parts, dst, (size_t)o.count * (is_bf16 ? 2 : 4));
  if (is_bf16)
    kernels->f32_of_bf16(o.count, dst, again);
  else
    memcpy(again, dst, (size_t)o.count * sizeof *again);
  check_result(p, &o, again, is_bf16);
  stored_free(types & kQ, q, o.q_count), stored_free(types & kK, k, o.k_count);
  stored_free(types & kV, v, o.v_count), stored_free(is_bf16, dst, o.count);
  stored_free(is_bf16, parts, o.count), buffer_free(wide), buffer_free(again);
  buffer_free(o.q), buffer_free(o.k), buffer_free(o.v), buffer_free(o.mask), free(call.workspace);
}

static void check_attention(const carnot_cpu_kernels* kernels) {
  if (!kernels->attention_bf16_tiles) return;
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i)
    for (unsigned types = 0; types < kTypes; ++types) check_types(kernels, &kProblems[i], types);
}

static void test_attention(void** state) { (void)state, for_each_isa(check_attention); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
