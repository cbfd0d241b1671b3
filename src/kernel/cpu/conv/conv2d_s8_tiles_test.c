// Integer convolution and GEMM by AMX tiles against exact sums.
#include "kernel/cpu/conv/conv2d_s8_tiles.h"

#include "kernel/cpu/common/int8_test.h"

typedef enum contents { RANDOM, HIGHEST, LOWEST } contents;  // of the activations

typedef struct problem {
  int64_t n, h, w, c, groups, k, r, s, stride, dilation, pad;
  bool is_signed;
  int32_t zero;  // of the activations
  contents contents;
  carnot_int8_residual residual;
  carnot_int8_output output;
  carnot_kernel_activation activation;
  float divisor;
  int32_t low, high;
} problem;

#define S32       CARNOT_INT8_OUTPUT_S32
#define F32       CARNOT_INT8_OUTPUT_F32
#define U8        CARNOT_INT8_OUTPUT_U8
#define S8        CARNOT_INT8_OUTPUT_S8
#define R(type)   CARNOT_INT8_RESIDUAL_##type
#define ACT(name) CARNOT_KERNEL_ACTIVATION_##name
static const problem kProblems[] = {
    {1, 7, 7, 64, 1, 16, 1, 1, 1, 1, 0, false, 0, RANDOM, R(NONE), S32, ACT(NONE), 1, 0, 0},
    {1, 9, 13, 128, 1, 65, 1, 1, 1, 1, 0, true, -128, RANDOM, R(NONE), U8, ACT(NONE), 1, 0, 255},
    {3, 5, 7, 16, 1, 40, 1, 1, 1, 1, 0, false, 255, RANDOM, R(U8), U8, ACT(NONE), 1, 3, 250},
    {1, 1, 100, 24, 1, 33, 1, 1, 1, 1, 0, true, 127, RANDOM, R(S8), S8, ACT(NONE), 1, -128, 127},
    {1, 1, 16, 17, 1, 20, 1, 1, 1, 1, 0, false, 9, RANDOM, R(NONE), S32, ACT(NONE), 1, 0, 0},
    {1, 1, 50, 5, 1, 20, 1, 1, 1, 1, 0, false, 9, RANDOM, R(NONE), S32, ACT(NONE), 1, 0, 0},
    {1, 6, 11, 40, 3, 16, 1, 1, 1, 1, 0, false, 9, RANDOM, R(U8), S8, ACT(NONE), 1, -128, 127},
    {2, 9, 6, 64, 1, 40, 3, 3, 1, 1, 1, false, 255, RANDOM, R(U8), U8, ACT(NONE), 1, 0, 255},
    {2, 10, 11, 33, 1, 17, 3, 2, 2, 1, 1, true, -128, RANDOM, R(NONE), S32, ACT(NONE), 1, 0, 0},
    {1, 12, 12, 16, 2, 48, 3, 3, 1, 2, 2, false, 3, RANDOM, R(F32), U8, ACT(RELU), 0.1F, 0, 255},
    {1, 13, 11, 40, 1, 33, 3, 3, 3, 2, 2, true, 5, RANDOM, R(F32), F32, ACT(CLIP), 1, 0, 0},
    {1, 5, 5, 900, 1, 20, 3, 3, 1, 1, 1, false, 0, HIGHEST, R(NONE), S32, ACT(NONE), 1, 0, 0},
    {1, 5, 5, 900, 1, 20, 3, 3, 1, 1, 1, true, 0, LOWEST, R(NONE), S32, ACT(NONE), 1, 0, 0},
    {2, 17, 9, 24, 1, 50, 1, 1, 2, 1, 0, false, 7, RANDOM, R(NONE), S8, ACT(SILU), 0.1F, -128, 127},
    {1, 30, 30, 3, 1, 8, 9, 9, 2, 1, 4, false, 128, RANDOM, R(NONE), U8, ACT(NONE), 1, 0, 255},
    {2, 3, 2, 4, 1, 20, 5, 7, 1, 1, 4, true, 1, RANDOM, R(NONE), U8, ACT(NONE), 1, 0, 255},
    {1, 90, 70, 64, 1, 32, 3, 3, 1, 1, 1, false, 4, RANDOM, R(S8), U8, ACT(NONE), 1, 0, 255},
    {2, 5, 700, 32, 1, 17, 3, 3, 2, 1, 1, false, 4, RANDOM, R(U8), U8, ACT(NONE), 1, 0, 255},
    {1, 3, 130, 200, 1, 20, 3, 3, 1, 2, 2, true, 4, RANDOM, R(NONE), S8, ACT(NONE), 1, -5, 100},
    {1, 9, 20, 1300, 1, 33, 3, 3, 1, 1, 1, false, 4, RANDOM, R(NONE), S32, ACT(NONE), 1, 0, 0},
    {2, 11, 32, 70, 1, 50, 3, 3, 1, 1, 1, false, 4, RANDOM, R(U8), U8, ACT(NONE), 1, 0, 255},
    {1, 18, 47, 70, 1, 33, 5, 3, 1, 1, 1, true, 4, RANDOM, R(NONE), S32, ACT(NONE), 1, 0, 0},
    {1, 3, 3, 2048, 1, 600, 1, 1, 1, 1, 0, false, 4, RANDOM, R(U8), U8, ACT(NONE), 1, 0, 255},
    {9, 4, 5, 1900, 1, 900, 1, 1, 2, 1, 0, false, 4, RANDOM, R(U8), U8, ACT(NONE), 1, 0, 255},
    {1, 1, 33, 65536, 1, 19, 1, 1, 1, 1, 0, false, 0, HIGHEST, R(NONE), S32, ACT(NONE), 1, 0, 0},
};

// With an inner quantization.
static const problem kTwice[] = {
    {1, 9, 11, 70, 1, 50, 1, 1, 1, 1, 0, false, 4, RANDOM, R(U8), U8, ACT(NONE), 2, 0, 255},
    {1, 9, 11, 40, 1, 33, 3, 3, 1, 1, 1, true, 4, RANDOM, R(S8), S8, ACT(SILU), 1, -128, 127},
    {1, 9, 11, 40, 1, 33, 3, 3, 1, 1, 1, true, 4, RANDOM, R(F32), F32, ACT(NONE), 1, 0, 0},
};

enum { kResidualZero = 5, kGap = 3 };

static int element_of(const problem* p, uint64_t* seed) {
  const int lowest = p->is_signed ? -128 : 0;
  if (p->contents == RANDOM) return (int)(random_f32(seed) * 127.9F + 127.9F) + lowest;
  return p->contents == HIGHEST ? lowest + 255 : lowest;
}

static int32_t exact_sum(const problem* p, const uint8_t* src, const int8_t* weights, int64_t p_out,
                         int64_t q_out, int64_t g, int64_t m, int64_t k) {
  const int64_t n = m / (p_out * q_out), c_all = p->c * p->groups;
  int32_t sum = 0;
  for (int64_t r = 0; r < p->r; ++r)
    for (int64_t s = 0; s < p->s; ++s) {
      const int64_t h = m / q_out % p_out * p->stride + r * p->dilation - p->pad;
      const int64_t w = m % q_out * p->stride + s * p->dilation - p->pad;
      if (h < 0 || h >= p->h || w < 0 || w >= p->w) continue;
      for (int64_t c = 0; c < p->c; ++c) {
        const int64_t at = ((n * p->h + h) * p->w + w) * c_all + g * p->c + c;
        sum += (int8_element(src, p->is_signed, at) - p->zero) *
               weights[(((g * p->k + k) * p->c + c) * p->r + r) * p->s + s];
      }
    }
  return sum;
}

// One group, in three calls.
static void run_group(const carnot_cpu_kernels* kernels, const problem* p,
                      carnot_conv2d_s8_tiles* call, const int8_t* weights, int64_t pixels) {
  const int64_t taps = p->r * p->s;
  float* packed = buffer(carnot_packed_k4n16d64_bytes(taps, p->c, p->k) / 4, 0);
  carnot_pack_k4n16d64_s8(taps, p->c, p->k, weights, p->c * taps, 1, taps, (int8_t*)packed);
  call->conv.weights = (const int8_t*)packed;
  assert_true(carnot_conv2d_s8_tiles_fits(call));
  const size_t scratch = (size_t)carnot_conv2d_s8_tiles_scratch(call);
  call->scratch = aligned_alloc(64, (scratch + 63) / 64 * 64);
  memset(call->scratch, 0x5a, scratch);
  const int64_t third = pixels / 3, columns = p->k > 16 ? 16 : p->k;
  kernels->conv2d_s8_tiles(call, 0, third, 0, p->k);
  kernels->conv2d_s8_tiles(call, third, pixels, 0, columns);
  if (p->k > columns) kernels->conv2d_s8_tiles(call, third, pixels, columns, p->k);
  buffer_free(packed), free(call->scratch);
}

static void check_problem(const carnot_cpu_kernels* kernels, const problem* p, bool is_twice) {
  const int64_t p_out = window_count(p->h, p->r, p->stride, p->dilation, p->pad);
  const int64_t q_out = window_count(p->w, p->s, p->stride, p->dilation, p->pad);
  const int64_t pixels = p->n * p_out * q_out, taps = p->r * p->s, c_all = p->c * p->groups,
                k_all = p->k * p->groups, ld = k_all + kGap;
  const int64_t src_count = p->n * p->h * p->w * c_all, bytes = p->output < U8 ? 4 : 1;
  float *src_buffer, *dst_buffer, *scale = buffer(k_all, 121), *residual = buffer(pixels * ld, 122),
                                  *offset = buffer(k_all, 124),
                                  range[2 * CARNOT_INT8_RANGE_LANES] = {0};
  uint8_t* src = guarded_bytes(src_count, &src_buffer);
  uint8_t* dst = guarded_bytes((pixels * ld - kGap) * bytes, &dst_buffer);
  int8_t* weights = malloc((size_t)(k_all * p->c * taps));
  int32_t* bias = malloc((size_t)k_all * 4);
  uint64_t seed = 123;
  for (int64_t i = 0; i < src_count; ++i) src[i] = (uint8_t)element_of(p, &seed);
  for (int64_t i = 0; i < k_all * p->c * taps; ++i)
    weights[i] = p->contents == RANDOM ? (int8_t)(random_f32(&seed) * 128) : -128;
  memset(dst, kUntouched, (size_t)((pixels * ld - kGap) * bytes));
  const float size = 100 / (127 * 60 * sqrtf((float)(p->c * taps)));
  fill_channels(k_all, p->c * taps, weights, p->zero, size, bias, scale);
  carnot_int8_epilogue epilogue = {
      .bias = bias,
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
      .zero_point = p->output == U8 ? 100 : -3,
      .low = p->low,
      .high = p->high,
      .is_twice = is_twice,
      .inner_scale = 0.5F,
      .inner_low = -37,
      .inner_high = 61,
      // By powers of two the factors are exact.
      .inner_factor = 0.25F,
      .residual_factor = 0.125F,
      .residual_base = -0.125F * kResidualZero,
      .is_small = p->output >= U8 && p->activation == ACT(NONE) && p->residual != R(F32)};
  if (is_twice) epilogue.residual_scale = 0.25F;
  const uint8_t border = (uint8_t)p->zero;
  for (int64_t g = 0; g < p->groups; ++g) {
    carnot_conv2d_s8_tiles call = {.conv = {.n = p->n,
                                            .h = p->h,
                                            .w = p->w,
                                            .c = p->c,
                                            .p = p_out,
                                            .q = q_out,
                                            .k = p->k,
                                            .r = p->r,
                                            .s = p->s,
                                            .stride_h = p->stride,
                                            .stride_w = p->stride,
                                            .dilation_h = p->dilation,
                                            .dilation_w = p->dilation,
                                            .pad_h = p->pad,
                                            .pad_w = p->pad,
                                            .src = src + g * p->c,
                                            .src_n = p->h * p->w * c_all,
                                            .src_h = p->w * c_all,
                                            .src_w = c_all,
                                            .src_signed = p->is_signed,
                                            .border = &border,
                                            .dst = dst + g * p->k * bytes,
                                            .ld = ld,
                                            .epilogue = epilogue}};
    call.conv.epilogue.bias += g * p->k, call.conv.epilogue.scale += g * p->k;
    if (p->output == F32) call.conv.epilogue.offset += g * p->k;
    call.conv.epilogue.residual =
        (const char*)residual + g * p->k * (p->residual == R(F32) ? 4 : 1);
    run_group(kernels, p, &call, weights + g * p->k * p->c * taps, pixels);
  }
  for (int64_t m = 0; m < pixels; ++m) {
    for (int64_t k = 0; k < k_all; ++k) {
      const int32_t sum = exact_sum(p, src, weights, p_out, q_out, k / p->k, m, k % p->k);
      check_int8_element(&epilogue, dst, m * ld + k, m * ld + k, k, sum);
    }
    if (m + 1 < pixels) check_untouched(dst, (m * ld + k_all) * bytes, (m + 1) * ld * bytes);
  }
  if (p->output == F32) check_int8_range(range, (const float*)dst, pixels, k_all, ld);
  free(weights), free(bias), buffer_free(offset);
  buffer_free(src_buffer), buffer_free(dst_buffer), buffer_free(scale), buffer_free(residual);
}

// A first layer over a padded image with three channels innermost: a row of the 7x7 filter is one
// tap of 21 bytes, and pixels overlap. The image is read where it lies.
static void check_windows(const carnot_cpu_kernels* kernels, int64_t q_out) {
  enum { kFilter = 7, kChannels = 3, kDepth = 24, kStride = 2, kRows = 5, kFilters = 40 };
  const int64_t columns = (q_out - 1) * kStride + kFilter, row = columns * kChannels,
                rows = (kRows - 1) * kStride + kFilter, pixels = kRows * q_out;
  float* memory = buffer((rows * row + 64 + 3) / 4, 0);  // ends 64 bytes behind the image
  uint8_t* src = (uint8_t*)memory + (rows * row + 64 + 3) / 4 * 4 - rows * row - 64;
  int8_t* weights = calloc(kFilters * kFilter, kDepth);
  float* packed = buffer(carnot_packed_k4n16d64_bytes(kFilter, kDepth, kFilters) / 4, 0);
  int32_t* dst = malloc((size_t)(pixels * kFilters) * 4);
  uint64_t seed = 5;
  for (int64_t i = 0; i < rows * row + 64; ++i) src[i] = (uint8_t)(random_f32(&seed) * 127 + 128);
  for (int64_t i = 0; i < kFilters * kFilter * kDepth; ++i)
    if (i % kDepth < kFilter * kChannels) weights[i] = (int8_t)(random_f32(&seed) * 128);
  carnot_pack_k4n16d64_s8(kFilter, kDepth, kFilters, weights, kFilter * kDepth, kDepth, 1,
                          (int8_t*)packed);
  carnot_conv2d_s8_tiles call = {.conv = {.n = 1,
                                          .h = rows,
                                          .w = columns,
                                          .c = kDepth,
                                          .p = kRows,
                                          .q = q_out,
                                          .k = kFilters,
                                          .r = kFilter,
                                          .s = 1,
                                          .stride_h = kStride,
                                          .stride_w = kStride,
                                          .dilation_h = 1,
                                          .dilation_w = 1,
                                          .src = src,
                                          .src_n = rows * row,
                                          .src_h = row,
                                          .src_w = kChannels,
                                          .weights = (const int8_t*)packed,
                                          .dst = dst,
                                          .ld = kFilters,
                                          .epilogue = {.output = S32}},
                                 .readable = true};
  call.scratch = aligned_alloc(64, ((size_t)carnot_conv2d_s8_tiles_scratch(&call) + 63) / 64 * 64);
  kernels->conv2d_s8_tiles(&call, 0, 2 * q_out, 0, kFilters);
  kernels->conv2d_s8_tiles(&call, 2 * q_out, pixels, 0, kFilters);
  for (int64_t m = 0; m < pixels; ++m)
    for (int64_t k = 0; k < kFilters; ++k) {
      int32_t sum = 0;
      for (int64_t r = 0; r < kFilter; ++r)
        for (int64_t i = 0; i < kFilter * kChannels; ++i)
          sum += src[(m / q_out * kStride + r) * row + m % q_out * kStride * kChannels + i] *
                 weights[(k * kFilter + r) * kDepth + i];
      assert_int_equal(dst[m * kFilters + k], sum);
    }
  free(weights), free(dst), free(call.scratch);
  buffer_free(memory), buffer_free(packed);
}

static void check_tiles(const carnot_cpu_kernels* kernels) {
  if (!kernels->conv2d_s8_tiles) return;
  for (size_t i = 0; i < sizeof kProblems / sizeof *kProblems; ++i)
    check_problem(kernels, &kProblems[i], /*is_twice=*/false);
  for (size_t i = 0; i < sizeof kTwice / sizeof *kTwice; ++i)
    check_problem(kernels, &kTwice[i], /*is_twice=*/true);
  check_windows(kernels, 32);
  check_windows(kernels, 21);  // no whole tiles: the pixels are copied
}

static void test_tiles(void** state) { (void)state, for_each_isa(check_tiles); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_tiles)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
