// Unit tests of counts by channel and of factors.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/equalize.h"

enum { CHANNELS = 3, INNER = 50, COUNT = 40 * CHANNELS * INNER };

// Channels of normal, of small and of only negative values; some zeros.
static float* numbers(void) {
  float* out = malloc(COUNT * sizeof(float));
  static const float kWidths[CHANNELS] = {1, 0.01f, -30};
  uint64_t state = 3;
  for (size_t i = 0; i < COUNT; i++) {
    double sum = 0;
    for (int k = 0; k < 4; k++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      sum += (double)(state >> 11) / 9007199254740992.0;
    }
    const size_t c = i / INNER % CHANNELS;
    out[i] = i % 11 ? kWidths[c] * (float)(c == 2 ? sum : sum - 2) : 0;
  }
  return out;
}

static void samples_and_order_do_not_matter(void** state) {
  (void)state;
  float* data = numbers();
  carnot_channel_count whole[CHANNELS] = {{0}}, parts[CHANNELS] = {{0}};
  carnot_channel_counts_add(whole, CHANNELS, INNER, CARNOT_DTYPE_F32, data, COUNT);
  const size_t each = CHANNELS * INNER;
  for (size_t at = COUNT; at; at -= each)
    carnot_channel_counts_add(parts, CHANNELS, INNER, CARNOT_DTYPE_F32, data + at - each, each);
  assert_memory_equal(whole, parts, sizeof(whole));
  free(data);
}

static void counts_measure_the_channels(void** state) {
  (void)state;
  float* data = numbers();
  carnot_channel_count counts[CHANNELS] = {{0}};
  carnot_channel_counts_add(counts, CHANNELS, INNER, CARNOT_DTYPE_F32, data, COUNT);
  for (size_t c = 0; c < CHANNELS; c++) {
    double min = 0, max = 0, power = 0;
    for (size_t i = 0; i < COUNT; i++) {
      if (i / INNER % CHANNELS != c) continue;
      min = fmin(min, (double)data[i]);
      max = fmax(max, (double)data[i]);
      power += (double)data[i] * (double)data[i];
    }
    uint64_t count;
    assert_true(counts[c].min == min && counts[c].max == max);
    assert_true(fabs(carnot_channel_power(&counts[c], &count) / power - 1) < 0.02);
    assert_int_equal(COUNT / CHANNELS, count);
    assert_true(carnot_channel_largest(&counts[c]) == fmax(-min, max));
  }
  free(data);
}

// Joined counts are those of the divided tensor, as far as bins can tell.
static void joined_counts_are_of_the_divided_tensor(void** state) {
  (void)state;
  static const float kFactors[CHANNELS] = {2, 0.015625f, 64};
  static const uint32_t kWeights[CHANNELS] = {65536, 65536, 65536};
  float* data = numbers();
  carnot_channel_count counts[CHANNELS] = {{0}};
  carnot_channel_counts_add(counts, CHANNELS, INNER, CARNOT_DTYPE_F32, data, COUNT);
  for (size_t i = 0; i < COUNT; i++) data[i] /= kFactors[i / INNER % CHANNELS];
  carnot_histogram joined, exact;
  assert_null(carnot_channel_counts_join(counts, CHANNELS, kFactors, kWeights, &joined));
  assert_null(carnot_histogram_init(&exact, /*levels=*/false));
  assert_null(carnot_histogram_add(&exact, CARNOT_DTYPE_F32, data, COUNT, NULL));
  assert_true(joined.min == exact.min && joined.max == exact.max);
  assert_int_equal(exact.exponent, joined.exponent);
  uint64_t below = 0, exactly = 0;
  const uint64_t parts = joined.count / exact.count;
  assert_int_equal(joined.count, parts * exact.count);
  for (int i = 0; i < 2 * CARNOT_HISTOGRAM_BINS; i++) {
    below += joined.counts[i];
    exactly += exact.counts[i];
    if (i % 256 == 255) assert_true(fabs((double)(below / parts) - (double)exactly) < 0.02 * COUNT);
  }
  assert_int_equal(COUNT, exactly);
  assert_int_equal(joined.count, below);
  carnot_histogram_deinit(&joined);
  carnot_histogram_deinit(&exact);
  free(data);
}

static void equal_channels_get_no_factors(void** state) {
  (void)state;
  carnot_channel_count counts[2] = {{0}};
  const float data[] = {1, -1, 0.5f, -0.25f, 1, -1, 0.5f, -0.25f};
  carnot_channel_counts_add(counts, 2, 4, CARNOT_DTYPE_F32, data, 8);
  float largest[] = {1, 1};
  const double norms[] = {1, 1};
  const carnot_equalize_reader reader = {
      .outputs = 1, .inputs = 2, .groups = 1, .kernel = 1, .largest = largest};
  float factors[2];
  double gain;
  assert_null(carnot_equalize(counts, 2, norms, &reader, 1, factors, &gain));
  assert_true(factors[0] == 1 && factors[1] == 1 && gain == 1);
}

// A depthwise layer has a scale for each channel: channels of x become equally wide.
static void channels_with_their_own_filter_become_equal(void** state) {
  (void)state;
  carnot_channel_count counts[2] = {{0}};
  const float data[] = {8, -8, 4, 1, 0.125f, -0.125f, 0.0625f, 0.03125f};
  carnot_channel_counts_add(counts, 2, 4, CARNOT_DTYPE_F32, data, 8);
  float largest[] = {1, 64};
  const double norms[] = {1, 64 * 64};
  const carnot_equalize_reader reader = {
      .outputs = 2, .inputs = 1, .groups = 2, .kernel = 1, .largest = largest};
  float factors[2];
  double gain;
  assert_null(carnot_equalize(counts, 2, norms, &reader, 1, factors, &gain));
  assert_true(fabs((double)(factors[0] / factors[1]) - 64) < 1e-3 && gain < 0.1);
  assert_true(fabs((double)(factors[0] * factors[1]) - 1) < 1e-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(samples_and_order_do_not_matter),
      cmocka_unit_test(counts_measure_the_channels),
      cmocka_unit_test(joined_counts_are_of_the_divided_tensor),
      cmocka_unit_test(equal_channels_get_no_factors),
      cmocka_unit_test(channels_with_their_own_filter_become_equal),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
