// Blocks of numbers are stored as single ones are.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

enum { kCount = 1 << 20, kOdd = 13 };

// Every exponent and sign with mantissas that round up, down and to even, so that blocks hold
// normal numbers alone, and with subnormals, zeros, infinities and NaNs among them.
static void blocks_equal_single_numbers(void** state) {
  (void)state;
  float* x = malloc(kCount * sizeof(float));
  uint16_t *blocks = malloc(kCount * 2), *strided = malloc(kCount * 2),
           *single = malloc(kCount * 2);
  assert_true(x && blocks && strided && single);
  uint32_t seed = 1;
  for (size_t i = 0; i < kCount; i++) {
    seed = seed * 1664525u + 1013904223u;
    uint32_t bits = seed;
    if (i % 256 < 128) bits = (seed & 0x807fffff) | (0x70 + (seed >> 8) % 0x1e) << 23;  // normal
    if (i % 5 == 0) bits = (bits & ~0x1fffu) | 0x1000;  // half between two float16
    if (i % 97 == 0) bits &= 0x80000000;
    if (i % 4096 == 7) bits = 0x7fc00001;
    if (i % 4096 == 9) bits = 0xff800000;
    memcpy(&x[i], &bits, 4);
  }
  const carnot_dtype types[] = {CARNOT_DTYPE_F16, CARNOT_DTYPE_BF16};
  for (int t = 0; t < 2; t++) {
    memset(strided, 0, kCount * 2);
    carnot_store_block_f32(types[t], blocks, kOdd, 1, kCount - kOdd, x + kOdd);
    carnot_store_block_f32(types[t], strided, 0, 2, kCount / 2, x);
    for (size_t i = 0; i < kCount; i++) carnot_store_f64(types[t], single, i, (double)x[i]);
    assert_memory_equal(blocks + kOdd, single + kOdd, (kCount - kOdd) * 2);
    for (size_t i = 0; i < kCount / 2; i++) assert_int_equal(strided[2 * i], single[i]);
  }
  free(x), free(blocks), free(strided), free(single);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_equal_single_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
