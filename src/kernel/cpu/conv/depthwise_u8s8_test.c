// Depthwise integer convolution against exact integers.
#include "kernel/cpu/conv/depthwise_u8s8.h"

#include "kernel/cpu/common/int8_test.h"

typedef struct problem {
  int64_t h, w, c, r, s, stride, dilation, pad;
  bool is_signed;
  carnot_int8_output output;
  bool adds;  // a residual
  carnot_kernel_activation activation;
} problem;

#define NONE CARNOT_KERNEL_ACTIVATION_NONE
#define CLIP CARNOT_KERNEL_ACTIVATION_CLIP
#define TANH CARNOT_KERNEL_ACTIVATION_TANH
static const problem kProblems[] = {
    {7, 7, 64, 3, 3, 1, 1, 1, false, CARNOT_INT8_OUTPUT_U8, true, NONE},
    {9, 8, 35, 3, 3, 2, 1, 1, true, CARNOT_INT8_OUTPUT_S8, true, NONE},
    {9, 11, 97, 5, 5, 1, 1, 2, false, CARNOT_INT8_OUTPUT_S8, true, NONE},
    {12, 9, 16, 3, 3, 1, 2, 2, true, CARNOT_INT8_OUTPUT_U8, true, NONE},
    {6, 13, 3, 1, 4, 1, 1, 0, false, CARNOT_INT8_OUTPUT_F32, true, NONE},
    {5, 5, 130, 2, 1, 2, 1, 1, true, CARNOT_INT8_OUTPUT_S32, true, NONE},
    {8, 9, 160, 3, 3, 1, 1, 1, false, CARNOT_INT8_OUTPUT_U8, false, NONE},
    {9, 8, 97, 3, 3, 2, 1, 1, true, CARNOT_INT8_OUTPUT_S8, false, NONE},
    {3, 1, 30, 3, 3, 1, 1, 1, true, CARNOT_INT8_OUTPUT_U8, false, NONE},
    {7, 6, 65, 3, 3, 2, 1, 0, false, CARNOT_INT8_OUTPUT_F32, false, NONE},
    {5, 12, 33, 3, 3, 1, 1, 2, false, CARNOT_INT8_OUTPUT_S32, false, NONE},
    {9, 10, 130, 3, 3, 1, 1, 1, true, CARNOT_INT8_OUTPUT_F32, false, CLIP},
    {8, 9, 72, 3, 3, 2, 1, 1, false, CARNOT_INT8_OUTPUT_F32, false, TANH},
    {9, 8, 144, 5, 5, 1, 1, 2, true, CARNOT_INT8_OUTPUT_U8, false, NONE},
    {11, 12, 70, 5, 5, 2, 1, 2, false, CARNOT_INT8_OUTPUT_S8, false, NONE},
    {4, 3, 20, 5, 5, 2, 1, 2, true, CARNOT_INT8_OUTPUT_U8, true, NONE},
    {6, 1, 64, 5, 5, 1, 1, 2, false, CARNOT_INT8_OUTPUT_F32, false, CLIP},
    {10, 11, 129, 5, 5, 2, 1, 0, true, CARNOT_INT8_OUTPUT_S32, false, NONE},
};
enum { kZero = 250 };  // of the source; -6 where it is signed

static int32_t exact_sum(const problem* p, const uint8_t* src, const int8_t* weights, int64_t q_out,
                         int64_t m, int64_t c) {
  int32_t sum = 0;
  const int zero = p->is_signed ? (int8_t)kZero : kZero;
  for (int64_t r = 0; r < p->r; ++r) {
    for (int64_t s = 0; s < p->s; ++s) {
      const int64_t h = m / q_out * p->stride + r * p->dilation - p->pad,
                    w = m % q_out * p->stride + s * p->dilation - p->pad;
      if (h < 0 || h >= p->h || w < 0 || w >= p->w) continue;
      sum += (int8_element(src, p->is_signed, (h * p->w + w) * p->c + c) - zero) *
             weights[c * p->r * p->s + r * p->s + s];
    }
  }
  return sum;
}

static void check_results(const problem* p, const carnot_depthwise_u8s8* conv,
                          const int8_t* weights, int64_t element_bytes) {
  for (int64_t m = 0; m < conv->p * conv->q; ++m) {
    for (int64_t c = 0; c < p->c; ++c) {
      const int64_t at = m * conv->ld + c;
      check_int8_element(&conv->epilogue, conv->dst, at, at, c,
                         exact_sum(p, conv->src, weights, conv->q, m, c));
    }
    check_untouched(conv->dst, (m * conv->ld + p->c) * element_bytes,
                    (m + 1) * conv->ld * element_bytes);
  }
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p) {
  const int64_t rows = window_count(p->h, p->r, p->stride, p->dilation, p->pad),
                columns = window_count(p->w, p->s, p->stride, p->dilation, p->pad),
                taps = p->r * p->s, ld = p->c + 5;
  float *memory, *border_memory;
  uint8_t *src = guarded_bytes(p->h * p->w * p->c, &memory),
          *border = guarded_bytes(p->c, &border_memory);
  int8_t* weights = malloc((size_t)(p->c * taps));
  int8_t* packed = malloc((size_t)carnot_packed_t4n32_bytes(taps, p->c));
  int32_t *bias = malloc((size_t)p->c * 4), *dst = malloc((size_t)(rows * columns * ld) * 4);
  float *scale = buffer(p->c, 9), *residual = buffer(rows * columns * ld, 10),
        *offset = buffer(p->c, 12), range[2 * CARNOT_INT8_RANGE_LANES] = {0};
  const bool is_float = p->output == CARNOT_INT8_OUTPUT_F32;
  uint64_t seed = 11;
  for (int64_t i = 0; i < p->h * p->w * p->c; ++i)
    src[i] = (uint8_t)(int)(random_f32(&seed) * 128 + 128);
  for (int64_t i = 0; i < p->c * taps; ++i) weights[i] = (int8_t)(random_f32(&seed) * 128);
  weights[0] = -128, src[0] = 255;
  memset(border, kZero, (size_t)p->c);
  memset(dst, kUntouched, (size_t)(rows * columns * ld) * 4);
  const int32_t zero = p->is_signed ? (int8_t)kZero + 128 : kZero;
  fill_channels(p->c, taps, weights, zero, 1e-3F, bias, scale);
  carnot_pack_t4n32_s8(taps, p->c, weights, 1, taps, packed);
  const bool is_signed = p->output == CARNOT_INT8_OUTPUT_S8;
  const carnot_depthwise_u8s8 conv = {
      .n = 1,
      .h = p->h,
      .w = p->w,
      .c = p->c,
      .p = rows,
      .q = columns,
      .r = p->r,
      .s = p->s,
      .stride_h = p->stride,
      .stride_w = p->stride,
      .dilation_h = p->dilation,
      .dilation_w = p->dilation,
      .pad_h = p->pad,
      .pad_w = p->pad,
      .src = src,
      .src_n = p->h * p->w * p->c,
      .src_h = p->w * p->c,
      .src_w = p->c,
      .src_signed = p->is_signed,
      .weights = packed,
      .border = border,
      .dst = dst,
      .ld = ld,
      .epilogue = {.bias = bias,
                   .scale = scale,
                   .residual_type = p->adds ? CARNOT_INT8_RESIDUAL_U8 : CARNOT_INT8_RESIDUAL_NONE,
                   .residual = residual,
                   .residual_ld = ld,
                   .residual_scale = 0.3F,
                   .residual_zero = 100,
                   .offset = is_float ? offset : NULL,
                   .range = is_float ? range : NULL,
                   .activation = p->activation,
                   .a = -0.1F,
                   .b = 0.2F,
                   .output = p->output,
                   .divisor = 1,
                   .zero_point = 2,
                   .low = is_signed ? -128 : 0,
                   .high = is_signed ? 127 : 255,
                   .is_small = p->output >= CARNOT_INT8_OUTPUT_U8}};
  kernels->depthwise_u8s8(&conv, 0, rows / 2);
  kernels->depthwise_u8s8(&conv, rows / 2, rows);
  check_results(p, &conv, weights, p->output < CARNOT_INT8_OUTPUT_U8 ? 4 : 1);
  if (is_float) check_int8_range(range, (const float*)dst, rows * columns, p->c, ld);
  free(weights), free(packed), free(bias), free(dst), buffer_free(offset);
  buffer_free(memory), buffer_free(border_memory), buffer_free(scale), buffer_free(residual);
}

static void check_depthwise(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    check_problem(kernels, &kProblems[i]);
  }
}

static void test_depthwise(void** state) { (void)state, for_each_isa(check_depthwise); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_depthwise)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
