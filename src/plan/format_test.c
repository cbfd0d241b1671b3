// Formats of values: equality, hashes, names, strides, sizes and checks, for every scheme.
#include "plan/format.h"

// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
//
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const carnot_format kFormats[] = {
    {.dtype = CARNOT_DTYPE_F32},
    {.dtype = CARNOT_DTYPE_F16},
    {.dtype = CARNOT_DTYPE_F32, .layout = CARNOT_LAYOUT_CHANNELS_LAST},
    {.dtype = CARNOT_DTYPE_F32, .memory = CARNOT_MEMORY_DEVICE},
    {.dtype = CARNOT_DTYPE_F32, .memory = (carnot_memory_space)(CARNOT_MEMORY_DEVICE + 1)},
    {.dtype = CARNOT_DTYPE_I8, .quant = {.scheme = CARNOT_QUANT_PER_TENSOR, .scale = 0.5f}},
    {.dtype = CARNOT_DTYPE_I8, .quant = {.scheme = CARNOT_QUANT_PER_TENSOR, .scale = 0.25f}},
    {.dtype = CARNOT_DTYPE_I8,
     .quant = {.scheme = CARNOT_QUANT_PER_TENSOR, .scale = 0.5f, .zero_point = 3}},
    {.dtype = CARNOT_DTYPE_I8, .quant = {.scheme = CARNOT_QUANT_PER_AXIS, .axis = 1}},
    {.dtype = CARNOT_DTYPE_I8, .quant = {.scheme = CARNOT_QUANT_PER_AXIS, .axis = 0}},
    {.dtype = CARNOT_DTYPE_I8, .quant = {.scheme = CARNOT_QUANT_PER_AXIS, .axis = 1, .scales = 2}},
    {.dtype = CARNOT_DTYPE_I8,
     .quant = {.scheme = CARNOT_QUANT_PER_AXIS, .axis = 1, .zero_points = 2}},
    {.dtype = CARNOT_DTYPE_I4, .quant = {.scheme = CARNOT_QUANT_BLOCKED, .axis = 1, .block = 32}},
    {.dtype = CARNOT_DTYPE_I4, .quant = {.scheme = CARNOT_QUANT_BLOCKED, .axis = 1, .block = 64}}};
enum { kFormatCount = sizeof(kFormats) / sizeof(kFormats[0]) };

static void test_equality_and_hash(void** state) {
  (void)state;
  for (size_t i = 0; i < kFormatCount; i++)
    for (size_t j = 0; j < kFormatCount; j++) {
      bool same = i == j;
      assert_int_equal(carnot_format_equal(&kFormats[i], &kFormats[j]), same);
      assert_int_equal(carnot_format_hash(&kFormats[i], 7) == carnot_format_hash(&kFormats[j], 7),
                       same);
    }
  assert_true(carnot_format_hash(&kFormats[0], 1) != carnot_format_hash(&kFormats[0], 2));
}

// Fields that the scheme does not use are compared and hashed as if they were 0.
static void test_unused_fields(void** state) {
  (void)state;
  const carnot_quantization noise = {
      .axis = 3, .block = 5, .scale = 2, .zero_point = 1, .scales = 4, .zero_points = 6};
  for (int scheme = 0; scheme < CARNOT_QUANT_SCHEME_COUNT; scheme++) {
    carnot_format a = {.dtype = CARNOT_DTYPE_I8}, b = {.dtype = CARNOT_DTYPE_I8, .quant = noise};
    a.quant.scheme = b.quant.scheme = (carnot_quant_scheme)scheme;
    if (scheme == CARNOT_QUANT_PER_TENSOR) {
      a.quant.scale = noise.scale;
      a.quant.zero_point = noise.zero_point;
    } else if (scheme != CARNOT_QUANT_NONE) {
      a.quant.axis = noise.axis;
      a.quant.scales = noise.scales;
      a.quant.zero_points = noise.zero_points;
    }
    if (scheme == CARNOT_QUANT_BLOCKED) a.quant.block = noise.block;
    assert_true(carnot_format_equal(&a, &b));
    assert_true(carnot_format_hash(&a, 0) == carnot_format_hash(&b, 0));
  }
}

static void test_zero_scales(void** state) {
  (void)state;
  carnot_format a = {.quant = {.scheme = CARNOT_QUANT_PER_TENSOR, .scale = 0.0f}}, b = a;
  b.quant.scale = -0.0f;
  assert_true(carnot_format_equal(&a, &b));
  assert_true(carnot_format_hash(&a, 0) == carnot_format_hash(&b, 0));
}

static void test_names(void** state) {
  (void)state;
  char text[128], small[8];
  assert_string_equal(carnot_format_name(&kFormats[0], text, sizeof(text)),
                      "float32 row_major host");
  assert_string_equal(carnot_format_name(&kFormats[2], text, sizeof(text)),
                      "float32 channels_last host");
  assert_string_equal(carnot_format_name(&kFormats[4], text, sizeof(text)),
                      "float32 row_major device:1");
  assert_string_equal(carnot_format_name(&kFormats[7], text, sizeof(text)),
                      "int8 row_major host per_tensor(0.5,3)");
  assert_string_equal(carnot_format_name(&kFormats[8], text, sizeof(text)),
                      "int8 row_major host per_axis(1)");
  assert_string_equal(carnot_format_name(&kFormats[12], text, sizeof(text)),
                      "int4 row_major host blocked(1,32)");
  assert_string_equal(carnot_format_name(&kFormats[0], small, sizeof(small)), "float32");
  assert_string_equal(carnot_layout_name(CARNOT_LAYOUT_COUNT), "unknown");
  assert_string_equal(carnot_quant_scheme_name(CARNOT_QUANT_SCHEME_COUNT), "unknown");
}

static void test_strides(void** state) {
  (void)state;
  const int64_t dims[] = {2, 3, 5, 7};
  const int64_t row_major[] = {105, 35, 7, 1}, channels_last[] = {105, 1, 21, 3},
                flat_channels_last[] = {3, 1};
  int64_t found[4];
  carnot_format_strides(&kFormats[0], 4, dims, found);
  assert_memory_equal(found, row_major, sizeof(row_major));
  carnot_format_strides(&kFormats[2], 4, dims, found);
  assert_memory_equal(found, channels_last, sizeof(channels_last));
  carnot_format_strides(&kFormats[2], 2, dims, found);  // without spatial axes they are the same
  assert_memory_equal(found, flat_channels_last, sizeof(flat_channels_last));
}

static void test_bytes(void** state) {
  (void)state;
  const int64_t dims[] = {3, 5}, negative[] = {3, -1}, huge[] = {INT64_MAX, 4};
  size_t bytes;
  assert_null(carnot_format_bytes(&kFormats[0], 2, dims, &bytes));
  assert_int_equal(bytes, 60);
  assert_null(carnot_format_bytes(&kFormats[0], 0, NULL, &bytes));
  assert_int_equal(bytes, 4);
  assert_null(carnot_format_bytes(&kFormats[12], 2, dims, &bytes));
  assert_int_equal(bytes, 8);  // 15 elements of 4 bits
  carnot_status* status = carnot_format_bytes(&kFormats[0], 2, negative, &bytes);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
  carnot_status_free(status);
  status = carnot_format_bytes(&kFormats[0], 2, huge, &bytes);
  assert_int_equal(carnot_status_code(status), CARNOT_OUT_OF_RANGE);
  carnot_status_free(status);
}

static void assert_refused(carnot_format format, const char* part_of_message) {
  carnot_status* status = carnot_format_verify(&format);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
  assert_non_null(strstr(carnot_status_message(status), part_of_message));
  carnot_status_free(status);
}

static void test_verify(void** state) {
  (void)state;
  for (size_t i = 0; i < kFormatCount; i++) assert_null(carnot_format_verify(&kFormats[i]));
  assert_refused((carnot_format){.dtype = CARNOT_DTYPE_COUNT}, "type");
  assert_refused((carnot_format){.layout = CARNOT_LAYOUT_COUNT}, "layout");
  assert_refused((carnot_format){.memory = CARNOT_MEMORY_SPACE_COUNT}, "memory space");
  assert_refused((carnot_format){.quant = {.scheme = CARNOT_QUANT_SCHEME_COUNT}}, "scheme");
  assert_refused((carnot_format){.quant = {.scheme = CARNOT_QUANT_PER_AXIS, .axis = -1}}, "axis");
  assert_refused(
      (carnot_format){.quant = {.scheme = CARNOT_QUANT_PER_AXIS, .axis = CARNOT_MAX_RANK}}, "axis");
  assert_refused((carnot_format){.quant = {.scheme = CARNOT_QUANT_BLOCKED, .axis = 0}}, "blocks");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_equality_and_hash),
                                     cmocka_unit_test(test_unused_fields),
                                     cmocka_unit_test(test_zero_scales),
                                     cmocka_unit_test(test_names),
                                     cmocka_unit_test(test_strides),
                                     cmocka_unit_test(test_bytes),
                                     cmocka_unit_test(test_verify)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
