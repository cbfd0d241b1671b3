// Transposes, strided copies and fill against plain loops.
#include "kernel/cpu/copy/transpose.h"

#include "kernel/cpu/common/kernel_test.h"

static void check_transpose(const carnot_cpu_kernels* kernels) {
  static const int64_t sizes[] = {1, 2, 3, 4, 8, 15, 16, 17, 33, 70};
  const int count = (int)(sizeof sizes / sizeof *sizes);
  for (int c = 0; c < 2 * count * count; ++c) {
    const int64_t m = sizes[c / 2 / count], n = sizes[c / 2 % count], gap = c % 2 ? 3 : 0;
    const int64_t src_ld = n + 2, dst_ld = m + gap;
    float *src = buffer(m * src_ld - 2, 81), *dst = buffer(n * dst_ld - gap, 0);
    kernels->transpose_f32(m, n, src, src_ld, dst, dst_ld);
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t i = 0; i < m; ++i) assert_true(dst[j * dst_ld + i] == src[i * src_ld + j]);
      for (int64_t i = m; i < dst_ld && j + 1 < n; ++i) assert_true(dst[j * dst_ld + i] == kCanary);
    }
    buffer_free(src), buffer_free(dst);
  }
}

// Bytes and pairs of them, with gaps that stay as they are.
static void check_transpose_small(const carnot_cpu_kernels* kernels) {
  enum { kMost = 140, kGap = 3, kCount = (kMost + kGap) * (kMost + kGap) };
  static const int64_t sizes[] = {1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 63, 65, kMost};
  static uint16_t src[kCount], dst[kCount];
  static uint8_t src8[kCount], dst8[kCount];
  const int count = (int)(sizeof sizes / sizeof *sizes);
  for (int i = 0; i < kCount; ++i)
    src[i] = (uint16_t)(i * 40503u), src8[i] = (uint8_t)(i * 167 + i / 256);
  for (int c = 0; c < count * count; ++c) {
    const int64_t m = sizes[c / count], n = sizes[c % count], src_ld = n + kGap, dst_ld = m + kGap;
    memset(dst, 0xee, sizeof dst), memset(dst8, 0xee, sizeof dst8);
    kernels->transpose_u16(m, n, src, src_ld, dst, dst_ld);
    kernels->transpose_u8(m, n, src8, src_ld, dst8, dst_ld);
    for (int64_t at = 0; at < kCount; ++at) {
      const int64_t j = at / dst_ld, i = at % dst_ld;
      const bool inside = i < m && j < n;
      assert_int_equal(dst[at], inside ? src[i * src_ld + j] : 0xeeee);
      assert_int_equal(dst8[at], inside ? src8[i * src_ld + j] : 0xee);
    }
  }
}

// Offset of the |index|-th element in row-major order under the given strides.
static int64_t offset_of(const carnot_copy_desc* p, const int64_t* strides, int64_t index) {
  int64_t at = 0;
  for (int a = p->rank - 1; a >= 0; --a) {
    at += index % p->sizes[a] * strides[a];
    index /= p->sizes[a];
  }
  return at;
}

static const carnot_copy_desc kCopies[] = {
    {0, 4, {2, 5, 7, 3}, {105, 21, 3, 1}, {105, 21, 3, 1}},        // dense: one run
    {0, 4, {2, 3, 40, 17}, {2040, 680, 17, 1}, {2040, 1, 51, 3}},  // NCHW to NHWC
    {0, 4, {2, 40, 17, 3}, {2040, 51, 3, 1}, {2040, 17, 1, 680}},  // and back
    {0, 3, {4, 33, 18}, {594, 18, 1}, {1, 4, 132}},                // reversed axes
    {0, 3, {4, 5, 6}, {60, 12, 2}, {30, 6, 1}},                    // every other element
    {0, 2, {5, 9}, {0, 1}, {9, 1}},                                // broadcast
    {0, 2, {5, 9}, {1, 0}, {12, 1}},                               // broadcast of columns
    {0, 1, {1}, {1}, {1}},
    {0, 0, {0}, {0}, {0}},
    {0, 2, {0, 3}, {3, 1}, {3, 1}},
};

static void check_copy(const carnot_cpu_kernels* kernels) {
  enum { kBytes = 64 * 1024 };
  static uint8_t src[kBytes], dst[kBytes], want[kBytes];
  for (int i = 0; i < kBytes; ++i) src[i] = (uint8_t)(i * 7 + i / 256);
  for (size_t c = 0; c < sizeof kCopies / sizeof *kCopies; ++c) {
    for (int bytes = 1; bytes <= 8; bytes *= 2) {
      carnot_copy_desc copy = kCopies[c];
      copy.element_bytes = bytes;
      int64_t count = 1;
      for (int a = 0; a < copy.rank; ++a) count *= copy.sizes[a];
      memset(dst, 0xee, sizeof dst), memset(want, 0xee, sizeof want);
      for (int64_t i = 0; i < count; ++i) {
        memcpy(want + offset_of(&copy, copy.dst_strides, i) * bytes,
               src + offset_of(&copy, copy.src_strides, i) * bytes, (size_t)bytes);
      }
      kernels->copy_strided(&copy, src, dst);
      assert_memory_equal(dst, want, sizeof dst);
    }
  }
  // A reversed axis starts at its last element.
  const carnot_copy_desc reversed = {2, 1, {10}, {-1}, {1}};
  kernels->copy_strided(&reversed, src + 18, dst);
  for (int i = 0; i < 10; ++i) assert_memory_equal(dst + 2 * i, src + 18 - 2 * i, 2);
}

static void check_fill(const carnot_cpu_kernels* kernels) {
  for (int bytes = 1; bytes <= 8; bytes *= 2) {
    uint8_t value[8] = {1, 2, 3, 4, 5, 6, 7, 8}, dst[100];
    memset(dst, 0, sizeof dst);
    kernels->fill(bytes, 9, value, dst);
    for (int i = 0; i < 9; ++i) assert_memory_equal(dst + i * bytes, value, (size_t)bytes);
    assert_int_equal(dst[9 * bytes], 0);
  }
}

static void test_transpose(void** state) { (void)state, for_each_isa(check_transpose); }
static void test_transpose_small(void** state) { (void)state, for_each_isa(check_transpose_small); }
static void test_copy(void** state) { (void)state, for_each_isa(check_copy); }
static void test_fill(void** state) { (void)state, for_each_isa(check_fill); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_transpose),
                                     cmocka_unit_test(test_transpose_small),
                                     cmocka_unit_test(test_copy), cmocka_unit_test(test_fill)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
