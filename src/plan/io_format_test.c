// Unit tests of the memory layouts of inputs and outputs.
#include "plan/io_format.h"

#include <setjmp.h>
#include <stdarg.h>
//
#include <cmocka.h>

static void ok(carnot_status* status) {
  if (status) fail_msg("%s", carnot_status_message(status));
}

static void refused(carnot_status* status, const char* text) {
  assert_int_equal(CARNOT_INVALID_ARGUMENT, carnot_status_code(status));
  if (!strstr(carnot_status_message(status), text)) fail_msg("%s", carnot_status_message(status));
  carnot_status_free(status);
}

static void names_are_found(void** state) {
  (void)state;
  for (int i = 0; i < CARNOT_TENSOR_FORMAT_COUNT; i++) {
    const char* name = carnot_tensor_format_name((carnot_tensor_format)i);
    assert_int_equal(i, carnot_tensor_format_find(name));
  }
  assert_int_equal(CARNOT_TENSOR_FORMAT_COUNT, carnot_tensor_format_find("hwc4"));
  assert_string_equal("unknown", carnot_tensor_format_name(CARNOT_TENSOR_FORMAT_COUNT));
}

// {2, 3, 2, 2} of numbers 0 to 23 in each kind of format, by hand.
static void elements_go_where_the_format_says(void** state) {
  (void)state;
  const carnot_dims dims = {.rank = 4, .d = {2, 3, 2, 2}};
  static const struct {
    carnot_tensor_format format;
    int count;
    uint8_t first[16];
  } kCases[] = {
      {CARNOT_TENSOR_LINEAR, 24, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}},
      {CARNOT_TENSOR_HWC, 24, {0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, 12, 16, 20, 13}},
      {CARNOT_TENSOR_HWC8, 64, {0, 4, 8, 0, 0, 0, 0, 0, 1, 5, 9, 0, 0, 0, 0, 0}},
      {CARNOT_TENSOR_CHW2, 32, {0, 4, 1, 5, 2, 6, 3, 7, 8, 0, 9, 0, 10, 0, 11, 0}},
      {CARNOT_TENSOR_CHW4, 32, {0, 4, 8, 0, 1, 5, 9, 0, 2, 6, 10, 0, 3, 7, 11, 0}},
  };
  for (size_t c = 0; c < sizeof(kCases) / sizeof(kCases[0]); c++) {
    uint8_t src[24], dst[64], back[24] = {0};
    carnot_tensor_layout layout;
    for (int i = 0; i < 24; i++) src[i] = (uint8_t)i;
    memset(dst, 0xFF, sizeof(dst));
    ok(carnot_tensor_layout_of(kCases[c].format, CARNOT_DTYPE_U8, &dims, &layout));
    assert_int_equal(kCases[c].count, layout.bytes);
    ok(carnot_tensor_to_format(kCases[c].format, CARNOT_DTYPE_U8, &dims, src, dst));
    assert_memory_equal(kCases[c].first, dst, 16);
    ok(carnot_tensor_from_format(kCases[c].format, CARNOT_DTYPE_U8, &dims, dst, back));
    assert_memory_equal(src, back, 24);
  }
}

static void layouts_are_checked(void** state) {
  (void)state;
  carnot_dims dims = {.rank = 2, .d = {2, 3}};
  carnot_tensor_layout out;
  refused(carnot_tensor_layout_of(CARNOT_TENSOR_HWC, CARNOT_DTYPE_F32, &dims, &out),
          "format hwc is for 3 to 7 dimensions, not for 2");
  refused(carnot_tensor_layout_of((carnot_tensor_format)77, CARNOT_DTYPE_F32, &dims, &out),
          "format 77, must be in [0, 13)");
  refused(carnot_tensor_layout_of(CARNOT_TENSOR_DLA_LINEAR, CARNOT_DTYPE_F32, &dims, &out),
          "is for DLA alone");
  dims = (carnot_dims){.rank = 3, .d = {4, 3, 3}};
  refused(carnot_tensor_layout_of(CARNOT_TENSOR_CHW4, CARNOT_DTYPE_I4, &dims, &out),
          "is for types of 8 bits and more, not for int4");
  dims.rank = 9;
  refused(carnot_tensor_layout_of(CARNOT_TENSOR_LINEAR, CARNOT_DTYPE_F32, &dims, &out),
          "a layout of 9 dimensions");
}

static void stored_dimensions_go_back(void** state) {
  (void)state;
  const int64_t dims[5] = {2, 9, -1, 4, 5};
  for (int i = 1; i < CARNOT_TENSOR_FORMAT_COUNT; i++) {
    carnot_tensor_format format = (carnot_tensor_format)i;
    if (carnot_io_format_of(format).kind == CARNOT_IO_DLA) continue;
    int64_t stored[CARNOT_MAX_RANK], shown[CARNOT_MAX_RANK];
    int rank = carnot_io_stored_dims(format, 5, dims, stored);
    assert_true(carnot_io_shown_dims(format, 5, dims, rank, stored, shown));
    assert_memory_equal(dims, shown, sizeof(dims));
    assert_false(carnot_io_shown_dims(format, 5, dims, rank + 1, stored, shown));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_are_found),
      cmocka_unit_test(elements_go_where_the_format_says),
      cmocka_unit_test(layouts_are_checked),
      cmocka_unit_test(stored_dimensions_go_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
