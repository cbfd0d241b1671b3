// Unit tests of rounding whose errors cancel.
#include "ops/balanced_rounding.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
//
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

enum { COUNT = 36 * 9, KERNEL = 9 };

static double sum_of_errors(const float* w, double scale, const int8_t* q, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += (double)q[i] - (double)w[i] / scale;
  return sum;
}

static void sums_are_within_half_a_step(void** state) {
  (void)state;
  float w[COUNT];
  int8_t q[COUNT];
  const float scale = 0.0123f;
  unsigned seed = 5;
  double worst_before = 0;
  for (int round = 0; round < 200; round++) {
    for (int i = 0; i < COUNT; i++) {
      seed = seed * 1103515245 + 12345;
      w[i] = scale * (float)((double)(seed >> 8) / (1 << 24) * 240 - 120);
      q[i] = (int8_t)nearbyint((double)w[i] / (double)scale);
    }
    worst_before = fmax(worst_before, fabs(sum_of_errors(w, (double)scale, q, COUNT)));
    carnot_balance_rounding(w, scale, COUNT, KERNEL, q);
    if (!(fabs(sum_of_errors(w, (double)scale, q, COUNT)) <= 0.5 + 1e-6)) fail_msg("the whole");
    for (int i = 0; i < COUNT; i++)
      if (!(fabs((double)q[i] - (double)w[i] / (double)scale) <= 1.5)) fail_msg("element %d", i);
  }
  assert_true(worst_before > 2);  // nearest rounding does not do it
}

static void kernels_are_balanced_alone(void** state) {
  (void)state;
  float w[KERNEL];
  int8_t q[KERNEL];
  for (int i = 0; i < KERNEL; i++) {
    w[i] = (float)i + 0.4f;  // each 0.4 too small when rounded
    q[i] = (int8_t)i;
  }
  carnot_balance_rounding(w, 1, KERNEL, KERNEL, q);
  assert_true(fabs(sum_of_errors(w, 1, q, KERNEL)) <= 0.5 + 1e-6);
  int moved = 0;
  for (int i = 0; i < KERNEL; i++) moved += q[i] - i;
  assert_int_equal(4, moved);
}

static void the_ends_stay(void** state) {
  (void)state;
  const float w[4] = {127.4f, 127.4f, 127.4f, 127.4f};
  int8_t q[4] = {127, 127, 127, 127};
  carnot_balance_rounding(w, 1, 4, 4, q);
  for (int i = 0; i < 4; i++) assert_int_equal(127, q[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_within_half_a_step),
                                     cmocka_unit_test(kernels_are_balanced_alone),
                                     cmocka_unit_test(the_ends_stay)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
