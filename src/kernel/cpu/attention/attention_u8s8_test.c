// Attention over bytes against exact sums and the rule of its header, to the bit; softmax and its
// quantization are the level's own kernels, which have tests of their own.
#include "kernel/cpu/attention/attention_u8s8.h"

#include "kernel/cpu/common/int8_test.h"

typedef struct problem {
  int64_t q_len, kv_len, d, dv;
  bool q_signed, k_signed, v_signed, p_signed;
  int32_t q_zero, k_zero, v_zero, p_zero;
  bool rounds_scores, divides, masked;
  carnot_int8_output output;
} problem;

enum {
  kGap = 5,           // elements between rows
  kManyKeys = 70001,  // all bytes 255, so that sums exceed int32
};

#define OUT(type) CARNOT_INT8_OUTPUT_##type
static const problem kProblems[] = {
    {128, 128, 32, 32, false, false, false, false, 118, 131, 255, 0, true, false, true, OUT(U8)},
    {70, 257, 33, 20, true, true, true, true, 0, 0, 0, -128, true, true, false, OUT(S8)},
    {5, 17, 7, 3, false, true, false, false, 0, -128, 3, 9, false, false, true, OUT(F32)},
    {1, 1, 1, 1, true, false, true, true, -128, 255, 127, 5, true, true, true, OUT(U8)},
    {2, kManyKeys, 4, 5, false, false, false, false, 3, 131, 0, 0, true, false, false, OUT(F32)},
    {9, 1200, 64, 48, false, false, false, false, 255, 0, 128, 0, true, false, false, OUT(U8)},
};

static int element(const carnot_byte_matrix* m, int64_t row, int64_t i) {
  return int8_element(m->data, m->is_signed, row * m->ld + i) - m->zero_point;
}

static void score(const carnot_attention_u8s8* a, int64_t i, float* row) {
  for (int64_t j = 0; j < a->kv_len; ++j) {
    int32_t sum = 0;
    for (int64_t c = 0; c < a->d; ++c) sum += element(&a->q, i, c) * element(&a->k, j, c);
    volatile float s = (float)sum * a->score_scale;
    if (a->rounds_scores) {
      s = rintf(s) + (float)a->s_zero;
      s = fminf(fmaxf(s, (float)a->s_low), (float)a->s_high) - (float)a->s_zero;
      s = s * a->s_scale;
    }
    s = a->divides ? s / a->factor : s * a->factor;
    if (a->mask) s = s + a->mask[i * a->mask_ld + j];
    row[j] = s;
  }
}

static void check_result(const carnot_attention_u8s8* a, int64_t at, int64_t sum) {
  const carnot_int8_epilogue e = {
      .divisor = 1, .zero_point = a->y_zero, .low = a->y_low, .high = a->y_high};
  volatile float v = (float)sum * a->out_scale;
  if (a->output == CARNOT_INT8_OUTPUT_F32) {
    assert_true(((const float*)a->dst)[at] == v);
  } else {
    const bool is_signed = a->output == CARNOT_INT8_OUTPUT_S8;
    assert_int_equal(int8_element(a->dst, is_signed, at), int8_quantized(&e, v));
  }
}

static void check_row(const carnot_cpu_kernels* kernels, const carnot_attention_u8s8* a,
                      int64_t i) {
  float* row = buffer(a->kv_len, 0);
  uint8_t* weights = malloc((size_t)a->kv_len);
  const uint8_t zero = (uint8_t)a->p_zero;
  const carnot_softmax_f32 softmax = {.n = a->kv_len,
                                      .inner = 1,
                                      .src = row,
                                      .src_outer = a->kv_len,
                                      .src_axis = 1,
                                      .dst = row,
                                      .dst_outer = a->kv_len,
                                      .dst_axis = 1};
  const carnot_quantize quantize = {
      .n = a->kv_len, .is_signed = a->p_signed, .scale = &a->p_scale, .zero_point = &zero};
  score(a, i, row);
  kernels->softmax_f32(&softmax, 0, 1);
  kernels->quantize_f32(&quantize, 1, row, a->kv_len, weights, a->kv_len);
  for (int64_t c = 0; c < a->dv; ++c) {
    int64_t sum = 0;
    for (int64_t j = 0; j < a->kv_len; ++j)
      sum += (int8_element(weights, a->p_signed, j) - a->p_zero) * element(&a->v, j, c);
    check_result(a, i * a->dst_ld + c, sum);
  }
  const int64_t bytes = a->output == CARNOT_INT8_OUTPUT_F32 ? 4 : 1;
  const uint8_t* dst = a->dst;
  for (int64_t at = (i * a->dst_ld + a->dv) * bytes; at < (i + 1) * a->dst_ld * bytes; ++at)
    assert_int_equal(dst[at], 0x55);
  buffer_free(row), free(weights);
}

static carnot_byte_matrix matrix(int64_t rows, int64_t n, bool is_signed, int32_t zero,
                                 uint64_t seed) {
  uint8_t* bytes = malloc((size_t)(rows * (n + kGap)));
  for (int64_t i = 0; i < rows * (n + kGap); ++i)
    bytes[i] = (uint8_t)(random_f32(&seed) * 128 + 128);
  if (rows == kManyKeys) memset(bytes, 255, (size_t)(rows * (n + kGap)));
  bytes[0] = 255, bytes[n - 1] = is_signed ? 128 : 0;
  return (carnot_byte_matrix){bytes, n + kGap, is_signed, zero};
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p) {
  float* mask = buffer(p->q_len * p->kv_len, 74);
  for (int64_t i = 1; i < p->q_len * p->kv_len; i += 7) mask[i] = -FLT_MAX;
  const bool is_signed = p->output == CARNOT_INT8_OUTPUT_S8;
  const int64_t ld = p->dv + kGap;
  carnot_attention_u8s8 a = {.q_len = p->q_len,
                             .kv_len = p->kv_len,
                             .d = p->d,
                             .dv = p->dv,
                             .q = matrix(p->q_len, p->d, p->q_signed, p->q_zero, 75),
                             .k = matrix(p->kv_len, p->d, p->k_signed, p->k_zero, 76),
                             .v = matrix(p->kv_len, p->dv, p->v_signed, p->v_zero, 77),
                             .score_scale = 2e-4F,
                             .rounds_scores = p->rounds_scores,
                             .s_zero = 125,
                             .s_high = 255,
                             .s_scale = 0.07F,
                             .divides = p->divides,
                             .factor = 0.35F,
                             .mask = p->masked ? mask : NULL,
                             .mask_ld = p->kv_len,
                             .p_signed = p->p_signed,
                             .p_zero = p->p_zero,
                             .p_scale = p->kv_len == kManyKeys ? 1e-8F : 1 / 250.0F,
                             .out_scale = 3e-3F,
                             .output = p->output,
                             .y_zero = is_signed ? -7 : 101,
                             .y_low = is_signed ? -128 : 0,
                             .y_high = is_signed ? 127 : 255,
                             .dst = malloc((size_t)(p->q_len * ld) * 4),
                             .dst_ld = ld,
                             .gemm = kernels->gemm_u8s8};
  const int64_t bytes = carnot_attention_u8s8_workspace(p->kv_len, p->d, p->dv);
  a.workspace = aligned_alloc(64, (size_t)bytes);
  memset(a.dst, 0x55, (size_t)(p->q_len * ld) * 4);
  kernels->attention_u8s8(&a, 0, p->q_len / 2);
  kernels->attention_u8s8(&a, p->q_len / 2, p->q_len);
  for (int64_t i = 0; i < p->q_len; ++i) check_row(kernels, &a, i);
  free((void*)(uintptr_t)a.q.data), free((void*)(uintptr_t)a.k.data);
  free((void*)(uintptr_t)a.v.data), free(a.dst), free(a.workspace), buffer_free(mask);
}

static void check_attention(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i)
    check_problem(kernels, &kProblems[i]);
}

static void test_attention(void** state) { (void)state, for_each_isa(check_attention); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_attention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
