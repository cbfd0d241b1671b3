// The epilogue of integer kernels in plain C, element by element: the oracle of their tests.
#ifndef CARNOT_KERNEL_CPU_COMMON_INT8_TEST_H_
#define CARNOT_KERNEL_CPU_COMMON_INT8_TEST_H_

#include "kernel/cpu/common/epilogue_int8.h"
#include "kernel/cpu/common/kernel_test.h"

static inline int int8_element(const void* data, bool is_signed, int64_t i) {
  return is_signed ? ((const int8_t*)data)[i] : ((const uint8_t*)data)[i];
}

// |bytes| bytes that end at an inaccessible page; buffer_free takes |*out_buffer|.
static inline uint8_t* guarded_bytes(int64_t bytes, float** out_buffer) {
  const int64_t floats = (bytes + 3) / 4;
  *out_buffer = buffer(floats, 0);
  return (uint8_t*)(*out_buffer + floats) - bytes;
}

// |channels| random scales around |size|, and biases that take off what the zero point |zero|, with
// what the kernel adds to it, makes of |weights| [channels,depth].
static inline void fill_channels(int64_t channels, int64_t depth, const int8_t* weights,
                                 int32_t zero, float size, int32_t* bias, float* scale) {
  for (int64_t k = 0; k < channels; ++k) {
    bias[k] = 0;
    for (int64_t i = 0; i < depth; ++i) bias[k] -= zero * weights[k * depth + i];
    scale[k] = size * (1 + fabsf(scale[k]));
  }
}

enum { kUntouched = 0x55 };  // bytes of results before a run

static inline void check_untouched(const void* dst, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) assert_int_equal(((const uint8_t*)dst)[i], kUntouched);
}

// rint(v / divisor) + zero_point within [low, high]; rint(NaN) = 0.
static inline int int8_quantized(const carnot_int8_epilogue* e, float v) {
  const float q = isnan(v / e->divisor) ? 0 : rintf(v / e->divisor), y = q + (float)e->zero_point;
  return y <= (float)e->low ? e->low : y >= (float)e->high ? e->high : (int)y;
}

// Compares dst[at] with the epilogue of |sum|, the exact sum with its bias; column n, residual
// element |residual_at|. All but curves agree to the bit.
static inline void check_int8_element(const carnot_int8_epilogue* e, const void* dst, int64_t at,
                                      int64_t residual_at, int64_t n, int32_t sum) {
  if (e->output == CARNOT_INT8_OUTPUT_S32) {
    assert_int_equal(((const int32_t*)dst)[at], sum);
    return;
  }
  const bool is_curve = e->activation > CARNOT_KERNEL_ACTIVATION_CLIP;
  volatile float v = (float)sum * e->scale[n], r = 0;
  if (e->is_twice)
    v = fmaxf(fminf(rintf(v), (float)e->inner_high), (float)e->inner_low) * e->inner_scale;
  if (e->residual_type == CARNOT_INT8_RESIDUAL_F32) r = ((const float*)e->residual)[residual_at];
  if (e->residual_type >= CARNOT_INT8_RESIDUAL_U8) {
    const bool is_signed = e->residual_type == CARNOT_INT8_RESIDUAL_S8;
    r = (float)(int8_element(e->residual, is_signed, residual_at) - e->residual_zero);
    r = r * e->residual_scale;
  }
  if (e->offset) v = v + e->offset[n];
  if (e->residual_type) v = v + r;
  v = (float)activation_in_double(e->activation, e->a, e->b, (double)v);
  if (e->output == CARNOT_INT8_OUTPUT_F32) {
    const float got = ((const float*)dst)[at];
    check_near(got, (double)v, is_curve ? 1e-5 * (1 + fabs((double)v)) : 0, "f32", at, n);
    return;
  }
  const int got = int8_element(dst, e->output == CARNOT_INT8_OUTPUT_S8, at),
            want = int8_quantized(e, v);
  if (abs(got - want) > (is_curve ? 1 : 0))
    fail_msg("element %lld: got %d, want %d", (long long)at, got, want);
}

// The lanes of |range| hold the least and the greatest of 0 and dst[m,n], float32.
static inline void check_int8_range(const float* range, const float* dst, int64_t rows,
                                    int64_t columns, int64_t ld) {
  float want[2] = {0, 0}, got[2] = {0, 0};
  for (int64_t m = 0; m < rows; ++m)
    for (int64_t n = 0; n < columns; ++n) {
      want[0] = fminf(want[0], dst[m * ld + n]);
      want[1] = fmaxf(want[1], dst[m * ld + n]);
    }
  for (int lane = 0; lane < CARNOT_INT8_RANGE_LANES; ++lane) {
    got[0] = fminf(got[0], range[lane]);
    got[1] = fmaxf(got[1], range[CARNOT_INT8_RANGE_LANES + lane]);
  }
  assert_true(got[0] == want[0] && got[1] == want[1]);
}

#endif
