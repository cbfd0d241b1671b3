// INT8 GEMM and convolution against exact integers. The loops by AMX also run on tiles in plain C.
#define CARNOT_ISA amxemulated
#define CARNOT_AMX_EMULATED
#include "kernel/cpu/gemm/gemm_u8s8.c"
#include "kernel/cpu/gemm/activate_f32.c"
//
#include "kernel/cpu/common/int8_test.h"

typedef struct problem {
  int64_t h, w, c, k, r, stride, pad;
  bool is_signed;
  carnot_int8_residual residual;
  carnot_int8_output output;
  carnot_kernel_activation activation;
  float scale, divisor;
  int32_t zero_point, low, high;
} problem;

#define S32       CARNOT_INT8_OUTPUT_S32
#define F32       CARNOT_INT8_OUTPUT_F32
#define U8        CARNOT_INT8_OUTPUT_U8
#define S8        CARNOT_INT8_OUTPUT_S8
#define R(type)   CARNOT_INT8_RESIDUAL_##type
#define ACT(name) CARNOT_KERNEL_ACTIVATION_##name
static const problem kProblems[] = {
    {7, 7, 64, 32, 3, 1, 1, false, R(NONE), S32, ACT(NONE), 1, 1, 0, 0, 0},
    {9, 8, 35, 21, 3, 2, 1, true, R(NONE), S32, ACT(NONE), 1, 1, 0, 0, 0},
    {6, 5, 3, 50, 5, 1, 2, false, R(U8), U8, ACT(NONE), 1e-3F, 1, 5, 5, 255},
    {6, 5, 3, 50, 5, 1, 2, false, R(S8), U8, ACT(NONE), 1e-3F, 1, 255, 0, 255},
    {1, 45, 130, 67, 1, 1, 0, true, R(S8), S8, ACT(NONE), 1e-3F, 1, -128, -128, 127},
    {1, 45, 130, 67, 1, 1, 0, true, R(U8), S8, ACT(RELU), 1e-3F, 0.25F, 3, -128, 127},
    {5, 9, 17, 33, 3, 1, 1, true, R(NONE), S8, ACT(NONE), 1e-30F, 1, 127, -20, 100},
    {5, 9, 17, 33, 3, 1, 1, false, R(NONE), U8, ACT(NONE), 1e30F, 1, 0, 0, 255},
    {5, 9, 17, 33, 3, 1, 1, false, R(U8), U8, ACT(NONE), INFINITY, 1, 7, 0, 255},
    {1, 1, 100, 40, 1, 1, 0, false, R(F32), F32, ACT(SILU), 1e-3F, 1, 0, 0, 0},
    {1, 7, 100, 40, 1, 1, 0, false, R(F32), F32, ACT(CLIP), 1e-3F, 1, 0, 0, 0},
    {1, 7, 100, 40, 1, 1, 0, false, R(F32), U8, ACT(GELU_ERF), 1e-3F, 0.05F, 9, 0, 255},
    {1, 3, 4, 16, 1, 1, 0, true, R(NONE), F32, ACT(NONE), 1e-3F, 1, 0, 0, 0},
    {1, 3, 65536, 19, 1, 1, 0, false, R(NONE), U8, ACT(NONE), 1e-7F, 1, 128, 0, 255},
    {1, 70, 128, 48, 1, 1, 0, false, R(NONE), U8, ACT(NONE), 1e-3F, 1, 3, 0, 255},
    {1, 33, 64, 200, 1, 1, 0, true, R(NONE), S32, ACT(NONE), 1, 1, 0, 0, 0},
    {8, 9, 700, 33, 3, 1, 1, false, R(NONE), S32, ACT(NONE), 1, 1, 0, 0, 0},
    {1, 200, 64, 700, 1, 1, 0, false, R(U8), U8, ACT(NONE), 1e-3F, 1, 3, 0, 255},
    {1, 39, 71, 40, 1, 1, 0, false, R(U8), U8, ACT(NONE), 1e-3F, 1, 3, 0, 255},
    {1, 26, 70, 50, 1, 1, 0, true, R(S8), S8, ACT(NONE), 1e-3F, 1, 0, -128, 127},
    {13, 11, 260, 97, 3, 2, 1, false, R(U8), U8, ACT(NONE), 1e-3F, 1, 0, 0, 255},
    {20, 21, 7, 65, 2, 1, 0, true, R(NONE), S8, ACT(NONE), 1e-3F, 1, -3, -128, 127},
    {1, 50, 5001, 21, 1, 1, 0, true, R(S8), S8, ACT(NONE), 1e-4F, 1, 0, -128, 127},
    {1, 50, 4604, 35, 1, 1, 0, false, R(NONE), U8, ACT(NONE), 1e-7F, 1, 128, 0, 255},
};

// Problems whose activations and weights all have the largest magnitude.
static bool is_extreme(const problem* p) { return p->c == 65536 || p->c == 4604; }

enum { kZero = 3, kResidualZero = 5 };  // zero points of source and residual

static int32_t exact_sum(const problem* p, const uint8_t* src, const int8_t* weights, int64_t q_out,
                         int64_t m, int64_t k) {
  int32_t sum = 0;
  for (int64_t r = 0; r < p->r; ++r) {
    for (int64_t s = 0; s < p->r; ++s) {
      const int64_t h = m / q_out * p->stride + r - p->pad, w = m % q_out * p->stride + s - p->pad;
      if (h < 0 || h >= p->h || w < 0 || w >= p->w) continue;
      for (int64_t c = 0; c < p->c; ++c) {
        const int x = int8_element(src, p->is_signed, (h * p->w + w) * p->c + c) - kZero;
        sum += x * weights[((k * p->c + c) * p->r + r) * p->r + s];
      }
    }
  }
  return sum;
}

// As the contract of carnot_int8_epilogue says.
static bool is_small(const problem* p) {
  return p->output >= U8 && p->activation == ACT(NONE) && p->divisor == 1 &&
         p->residual != R(F32) && p->scale <= 1e-3F;
}

static void run_problem(const carnot_cpu_kernels* kernels, const carnot_conv2d_u8s8* conv) {
  const int64_t pixels = conv->p * conv->q;
  const carnot_gemm_u8s8 gemm = {.m = pixels,
                                 .n = conv->k,
                                 .k = conv->c,
                                 .a = conv->src,
                                 .lda = conv->c,
                                 .a_signed = conv->src_signed,
                                 .b = conv->weights,
                                 .dst = conv->dst,
                                 .ld = conv->ld,
                                 .epilogue = conv->epilogue};
  if (conv->r == 1) {
    kernels->gemm_u8s8(&gemm, 0, pixels, 0, conv->k);
  } else {
    kernels->conv2d_u8s8(conv, 0, pixels / 2, 0, conv->k);
    kernels->conv2d_u8s8(conv, pixels / 2, pixels, 0, conv->k);
  }
}

// The results of |conv| are the same where its residual lies in their memory.
static void check_in_place(const carnot_cpu_kernels* kernels, carnot_conv2d_u8s8 conv,
                           int64_t element_bytes) {
  const int64_t row = conv.ld * element_bytes, pixels = conv.p * conv.q;
  const char* apart = conv.dst;
  char* together = malloc((size_t)(pixels * row));
  memcpy(together, conv.epilogue.residual, (size_t)(pixels * row));
  conv.dst = together;
  conv.epilogue.residual = together;
  conv.epilogue.range = NULL;
  run_problem(kernels, &conv);
  for (int64_t m = 0; m < pixels; ++m)
    assert_memory_equal(together + m * row, apart + m * row, (size_t)(conv.k * element_bytes));
  free(together);
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p) {
  const int64_t p_out = window_count(p->h, p->r, p->stride, 1, p->pad);
  const int64_t q_out = window_count(p->w, p->r, p->stride, 1, p->pad), pixels = p_out * q_out;
  const int64_t taps = p->r * p->r, ld = p->k + 3, shift = p->is_signed ? 128 : 0;
  uint8_t* src = malloc((size_t)(p->h * p->w * p->c));
  uint8_t* border = malloc((size_t)p->c);
  int8_t* weights = malloc((size_t)(p->k * p->c * taps));
  int8_t* packed = malloc((size_t)carnot_packed_k4n16_bytes(taps, p->c, p->k));
  int8_t* back = malloc((size_t)(p->k * p->c * taps));
  int32_t *bias = malloc((size_t)p->k * 4), *dst = malloc((size_t)(pixels * ld) * 4);
  float *scale = buffer(p->k, 121), *residual = buffer(pixels * ld, 122),
        *offset = buffer(p->k, 124), range[2 * CARNOT_INT8_RANGE_LANES] = {0};
  uint64_t seed = 123;
  for (int64_t i = 0; i < p->h * p->w * p->c; ++i)
    src[i] = is_extreme(p) ? 255 : (uint8_t)(random_f32(&seed) * 128 + 128);
  for (int64_t i = 0; i < p->k * p->c * taps; ++i)
    weights[i] = is_extreme(p) ? -128 : (int8_t)(random_f32(&seed) * 128);
  src[0] = 255, weights[0] = -128, src[1] = 255, weights[taps] = -128;
  memset(border, kZero, (size_t)p->c);
  memset(dst, kUntouched, (size_t)(pixels * ld) * 4);
  fill_channels(p->k, p->c * taps, weights, (int32_t)(kZero + shift), p->scale, bias, scale);
  carnot_pack_k4n16_s8(taps, p->c, p->k, weights, p->c * taps, 1, taps, packed);
  carnot_unpack_k4n16_s8(taps, p->c, p->k, packed, p->c * taps, 1, taps, back);
  assert_memory_equal(weights, back, (size_t)(p->k * p->c * taps));
  const carnot_int8_epilogue epilogue = {.bias = bias,
                                         .scale = scale,
                                         .activation = p->activation,
                                         .a = -1,
                                         .b = 1,
                                         .residual_type = p->residual,
                                         .residual = residual,
                                         .residual_ld = ld,
                                         .residual_scale = 0.37F,
                                         .residual_zero = kResidualZero,
                                         .offset = p->output == F32 ? offset : NULL,
                                         .range = p->output == F32 ? range : NULL,
                                         .output = p->output,
                                         .divisor = p->divisor,
                                         .zero_point = p->zero_point,
                                         .low = p->low,
                                         .high = p->high,
                                         .is_small = is_small(p)};
  const carnot_conv2d_u8s8 conv = {.n = 1,
                                   .h = p->h,
                                   .w = p->w,
                                   .c = p->c,
                                   .p = p_out,
                                   .q = q_out,
                                   .k = p->k,
                                   .r = p->r,
                                   .s = p->r,
                                   .stride_h = p->stride,
                                   .stride_w = p->stride,
                                   .dilation_h = 1,
                                   .dilation_w = 1,
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
                                   .epilogue = epilogue};
  run_problem(kernels, &conv);
  const int64_t bytes = p->output < CARNOT_INT8_OUTPUT_U8 ? 4 : 1;
  for (int64_t m = 0; m < pixels; ++m) {
    for (int64_t k = 0; k < p->k; ++k) {
      const int32_t sum = exact_sum(p, src, weights, q_out, m, k);
      check_int8_element(&epilogue, dst, m * ld + k, m * ld + k, k, sum);
    }
    check_untouched(dst, (m * ld + p->k) * bytes, (m + 1) * ld * bytes);
  }
  if (p->residual == R(F32) ? p->output == F32 : p->residual && p->output >= U8)
    check_in_place(kernels, conv, bytes);
  if (p->output == F32) check_int8_range(range, (const float*)dst, pixels, p->k, ld);
  free(src), free(border), free(weights), free(packed), free(back), free(bias), free(dst);
  buffer_free(scale), buffer_free(residual), buffer_free(offset);
}

static void check_int8(const carnot_cpu_kernels* kernels) {
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i) {
    check_problem(kernels, &kProblems[i]);
  }
}

static void test_int8(void** state) { (void)state, for_each_isa(check_int8); }

static void test_emulated_amx(void** state) {
  (void)state;
  carnot_cpu_kernels kernels = *carnot_cpu_kernels_for(CARNOT_ISA_SCALAR);
  kernels.gemm_u8s8 = CARNOT_KERNEL(gemm_u8s8);
  kernels.conv2d_u8s8 = CARNOT_KERNEL(conv2d_u8s8);
  check_int8(&kernels);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_int8),
                                     cmocka_unit_test(test_emulated_amx)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
