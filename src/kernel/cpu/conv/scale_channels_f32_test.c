// Scaled channels against double precision.
#include "kernel/cpu/conv/scale_channels_f32.h"

#include "kernel/cpu/common/kernel_test.h"

static float widen(uint16_t half) {
  const uint32_t bits = (uint32_t)half << 16;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static void check_scale(const carnot_cpu_kernels* kernels, int64_t c, bool src_is_bf16,
                        bool dst_is_bf16) {
  const int64_t m = 5, src_ld = c + 3, dst_ld = c + 1;
  const int64_t from = (m - 1) * src_ld + c, to = (m - 1) * dst_ld + c;
  float *src = buffer(from, 41), *scale = buffer(c, 42), *dst = buffer(to, 0);
  uint16_t halves[2][1024];
  for (int64_t i = 0; src_is_bf16 && i < from; ++i) {
    uint32_t bits;
    memcpy(&bits, &src[i], sizeof bits);
    halves[0][i] = (uint16_t)(bits >> 16);
    src[i] = widen(halves[0][i]);
  }
  const carnot_scale_channels_f32 p = {.m = m,
                                       .c = c,
                                       .src = src_is_bf16 ? (const void*)halves[0] : src,
                                       .src_ld = src_ld,
                                       .scale = scale,
                                       .dst = dst_is_bf16 ? (void*)halves[1] : dst,
                                       .dst_ld = dst_ld,
                                       .src_is_bf16 = src_is_bf16,
                                       .dst_is_bf16 = dst_is_bf16};
  kernels->scale_channels_f32(&p);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < c; ++j) {
      const double want = (double)src[i * src_ld + j] * scale[j];
      const float got = dst_is_bf16 ? widen(halves[1][i * dst_ld + j]) : dst[i * dst_ld + j];
      check_near(got, want, (dst_is_bf16 ? 0x1p-8 : FLT_EPSILON) * fabs(want), "product", i, j);
    }
    for (int64_t j = c; j < dst_ld && !dst_is_bf16 && i + 1 < m; ++j)
      assert_true(dst[i * dst_ld + j] == kCanary);
  }
  buffer_free(src), buffer_free(scale), buffer_free(dst);
}

static void check_scales(const carnot_cpu_kernels* kernels) {
  for (int types = 0; types < 4; ++types) {
    check_scale(kernels, 3, types & 1, types & 2);
    check_scale(kernels, 32, types & 1, types & 2);
    check_scale(kernels, 67, types & 1, types & 2);
  }
}

static void test_scales(void** state) { (void)state, for_each_isa(check_scales); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_scales)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
