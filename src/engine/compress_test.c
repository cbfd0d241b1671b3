// Compression: data come back, cut and changed data are refused or make what they may.
#include "engine/compress.h"

// cmocka requires these first.
#include <setjmp.h>
#include <stdarg.h>
//
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static uint32_t g_table[CARNOT_COMPRESS_TABLE];

// Compresses the two parts of |data| one behind the other, and back; the compressed size.
static size_t round_trip(const uint8_t* data, size_t size, size_t first) {
  uint8_t* packed = malloc(carnot_compress_bound(first) + carnot_compress_bound(size - first));
  uint8_t* back = malloc(size + 1);
  size_t bytes = carnot_compress(data, first, g_table, packed);
  assert_true(bytes <= carnot_compress_bound(first));
  bytes += carnot_compress(data + first, size - first, g_table, packed + bytes);
  assert_null(carnot_decompress(packed, bytes, back, size));
  if (size) assert_memory_equal(data, back, size);
  free(packed), free(back);
  return bytes;
}

static uint32_t next(uint32_t* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void test_data_come_back(void** state) {
  (void)state;
  enum { kSize = 300000 };
  uint8_t* data = malloc(kSize);
  uint32_t seed = 7;
  for (int i = 0; i < kSize; i++) data[i] = (uint8_t)next(&seed);
  for (size_t size = 0; size < 600; size++) round_trip(data, size, size / 3);
  assert_true(round_trip(data, kSize, 1000) >= kSize);
  memset(data, 5, kSize);
  for (size_t size = 0; size < 600; size++) round_trip(data, size, 0);
  assert_true(round_trip(data, kSize, 0) < kSize / 200);
  // A distance of 65,535 may be copied, one of 65,536 not.
  for (int far = 65534; far < 65538; far++) {
    for (int i = 0; i < kSize; i++) data[i] = (uint8_t)next(&seed);
    memcpy(data + far, data, 4000);
    round_trip(data, (size_t)far + 4000, 0);
  }
  free(data);
}

static void check_refused(const uint8_t* packed, size_t bytes, uint8_t* back, size_t size) {
  carnot_status* status = carnot_decompress(packed, bytes, back, size);
  assert_int_equal(carnot_status_code(status), CARNOT_INVALID_MODEL);
  carnot_status_free(status);
}

static void test_damaged_data_are_refused(void** state) {
  (void)state;
  enum { kSize = 3000 };
  uint8_t data[kSize], packed[4096], back[kSize];
  uint32_t seed = 9;
  for (int i = 0; i < kSize; i++)
    data[i] = next(&seed) % 3 ? (uint8_t)(i % 50) : (uint8_t)next(&seed);
  const size_t bytes = carnot_compress(data, kSize, g_table, packed);
  assert_true(bytes < kSize);
  for (size_t cut = 0; cut < bytes; cut++) {
    uint8_t* part = malloc(cut + 1);
    memcpy(part, packed, cut);
    check_refused(part, cut, back, kSize);
    free(part);
  }
  for (int i = 0; i < 20000; i++) {
    uint8_t changed[sizeof packed];
    memcpy(changed, packed, bytes);
    changed[next(&seed) % bytes] ^= (uint8_t)(1 + next(&seed) % 255);
    carnot_status_free(carnot_decompress(changed, bytes, back, kSize));
  }
  check_refused(packed, bytes, back, kSize - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_data_come_back),
                                     cmocka_unit_test(test_damaged_data_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
