// Resize against double precision.
#include "kernel/cpu/resample/resize_f32.h"

#include "kernel/cpu/common/kernel_test.h"

static void check_taps(const carnot_cpu_kernels* kernels, bool is_bf16, int taps_h, int taps_w) {
  enum { kN = 2, kH = 5, kW = 4, kP = 7, kQ = 9, kC = 35, kSrcLd = 37, kLd = 38 };
  enum { kSrcCount = kN * kH * kW * kSrcLd, kCount = kN * kP * kQ * kLd };
  float *src = buffer(kSrcCount, 101), *dst = buffer(kCount, 0);
  if (is_bf16) round_all(WEIGHTS_BF16, src, kSrcCount);
  void *from = stored(kernels, is_bf16, src, kSrcCount),
       *to = stored(kernels, is_bf16, dst, kCount);
  float *h_weight = buffer(kP * taps_h, 102), *w_weight = buffer(kQ * taps_w, 103);
  int32_t h_index[kP * 4], w_index[kQ * 4];
  for (int i = 0; i < kP * taps_h; ++i) h_index[i] = i * 7 % kH;
  for (int i = 0; i < kQ * taps_w; ++i) w_index[i] = i * 5 % kW;
  const carnot_resize_f32 resize = {.c = kC,
                                    .p = kP,
                                    .q = kQ,
                                    .is_bf16 = is_bf16,
                                    .src = from,
                                    .src_n = kH * kW * kSrcLd,
                                    .src_h = kW * kSrcLd,
                                    .src_w = kSrcLd,
                                    .dst = to,
                                    .ld = kLd,
                                    .taps_h = taps_h,
                                    .taps_w = taps_w,
                                    .h_index = h_index,
                                    .w_index = w_index,
                                    .h_weight = h_weight,
                                    .w_weight = w_weight};
  kernels->resize_f32(&resize, 0, 3);
  kernels->resize_f32(&resize, 3, kN * kP);
  if (is_bf16)
    kernels->f32_of_bf16(kCount, to, dst);
  else
    memcpy(dst, to, kCount * sizeof *dst);
  for (int m = 0; m < kN * kP * kQ; ++m) {
    const int q = m % kQ, p = m / kQ % kP, n = m / (kQ * kP);
    for (int c = 0; c < kC; ++c) {
      double want = 0, size = 0;
      for (int r = p * taps_h; r < (p + 1) * taps_h; ++r) {
        for (int s = q * taps_w; s < (q + 1) * taps_w; ++s) {
          const double weight = (taps_h > 1 ? h_weight[r] : 1.0) * (taps_w > 1 ? w_weight[s] : 1.0);
          const double term = weight * src[((n * kH + h_index[r]) * kW + w_index[s]) * kSrcLd + c];
          want += term, size += fabs(term);
        }
      }
      const double bound = 3 * FLT_EPSILON * size + is_bf16 * fabs(want) * 0x1p-8;
      check_near(dst[m * kLd + c], want, bound, "resize", m, c);
    }
    assert_true(fabsf(dst[m * kLd + kC] - kCanary) < (is_bf16 ? 64 : 1e-3));
  }
  stored_free(is_bf16, from, kSrcCount), stored_free(is_bf16, to, kCount);
  buffer_free(src), buffer_free(dst), buffer_free(h_weight), buffer_free(w_weight);
}

static void check_resize(const carnot_cpu_kernels* kernels) {
  for (int is_bf16 = 0; is_bf16 < 2; ++is_bf16) {
    check_taps(kernels, is_bf16, 1, 1);
    check_taps(kernels, is_bf16, 2, 2);
    check_taps(kernels, is_bf16, 4, 4);
    check_taps(kernels, is_bf16, 1, 2);
  }
}

static void test_resize(void** state) { (void)state, for_each_isa(check_resize); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_resize)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
