// Unit tests of rounding to 4 bits in blocks.
#include "ops/block_rounding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
//
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

static int element(const uint8_t* q, int64_t at) {
  const int bits = at % 2 ? q[at / 2] >> 4 : q[at / 2] & 15;
  return bits > 7 ? bits - 16 : bits;
}

// Rows of 37 in blocks of 16: the last block has 5, and rows begin inside of bytes.
static void blocks_are_along_either_axis(void** state) {
  (void)state;
  enum { K = 37, N = 3, BLOCK = 16, BLOCKS = 3 };
  float rows[N * K], columns[K * N], row_scales[N * BLOCKS], column_scales[BLOCKS * N];
  uint8_t row_bits[(N * K + 1) / 2], column_bits[(N * K + 1) / 2];
  for (int n = 0; n < N; n++)
    for (int k = 0; k < K; k++)
      columns[k * N + n] = rows[n * K + k] = (float)((n * 31 + k * 17) % 23 - 11) * 0.125f;
  carnot_round_blocks_i4(rows, (int64_t[]){N, K}, 1, BLOCK, row_scales, row_bits);
  carnot_round_blocks_i4(columns, (int64_t[]){K, N}, 0, BLOCK, column_scales, column_bits);
  for (int n = 0; n < N; n++)
    for (int k = 0; k < K; k++) {
      const float scale = row_scales[n * BLOCKS + k / BLOCK];
      assert_true(scale == column_scales[k / BLOCK * N + n]);
      assert_int_equal(element(row_bits, n * K + k), element(column_bits, k * N + n));
      assert_true(fabsf((float)element(row_bits, n * K + k) * scale - rows[n * K + k]) <=
                  1.01f * scale);
    }
}

static double error_with(const float* w, int count, double scale) {
  double sum = 0;
  for (int i = 0; i < count; i++) {
    const double q = fmax(-8, fmin(7, nearbyint(w[i] / scale)));
    sum += (w[i] - q * scale) * (w[i] - q * scale);
  }
  return sum;
}

static void the_error_is_less_than_with_the_plain_scale(void** state) {
  (void)state;
  enum { COUNT = 32 };
  float w[COUNT], scale;
  uint8_t bits[COUNT / 2];
  unsigned seed = 3;
  double chosen = 0, plain = 0;
  for (int round = 0; round < 100; round++) {
    float largest = 0;
    for (int i = 0; i < COUNT; i++) {
      seed = seed * 1103515245 + 12345;
      w[i] = (float)((double)(seed >> 8) / (1 << 24) - 0.5);
      w[i] *= w[i] * w[i];
      largest = fmaxf(largest, fabsf(w[i]));
    }
    carnot_round_blocks_i4(w, (int64_t[]){1, COUNT}, 1, COUNT, &scale, bits);
    chosen += error_with(w, COUNT, scale);
    plain += error_with(w, COUNT, largest / 7);
  }
  assert_true(chosen < 0.95 * plain);
}

static void a_block_of_zeros_stays_zero(void** state) {
  (void)state;
  float w[16] = {0}, scale;
  uint8_t bits[8];
  carnot_round_blocks_i4(w, (int64_t[]){16, 1}, 0, 16, &scale, bits);
  assert_true(scale > 0);
  for (int i = 0; i < 16; i++) assert_int_equal(element(bits, i), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_are_along_either_axis),
                                     cmocka_unit_test(the_error_is_less_than_with_the_plain_scale),
                                     cmocka_unit_test(a_block_of_zeros_stays_zero)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
