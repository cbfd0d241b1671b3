// Unit tests of histograms, ranges and calibration caches.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
//
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calibration/threshold.h"

enum { COUNT = 20000 };

// A deterministic sequence of numbers that are about normally distributed.
static float normal(uint64_t* state) {
  double sum = 0;
  for (int i = 0; i < 12; i++) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    sum += (double)(*state >> 11) / 9007199254740992.0;
  }
  return (float)(sum - 6);
}

static float* numbers(double scale) {
  float* out = malloc(COUNT * sizeof(float));
  uint64_t state = 7;
  for (int i = 0; i < COUNT; i++) out[i] = (float)(scale * (double)normal(&state));
  return out;
}

static void expect_error(carnot_status* status, const char* text) {
  assert_non_null(status);
  if (!strstr(carnot_status_message(status), text))
    fail_msg("'%s' does not hold '%s'", carnot_status_message(status), text);
  carnot_status_free(status);
}

static void fill(carnot_histogram* h, const float* data, size_t count) {
  assert_null(carnot_histogram_init(h, /*levels=*/true));
  assert_null(carnot_histogram_add(h, CARNOT_DTYPE_F32, data, count, NULL));
}

// ---- histograms ----

static void batches_and_order_do_not_matter(void** state) {
  (void)state;
  float* data = numbers(3);
  data[COUNT - 1] = 900;  // the range grows at the end of one order and at the start of the other
  carnot_histogram whole, parts;
  fill(&whole, data, COUNT);
  assert_null(carnot_histogram_init(&parts, /*levels=*/false));
  for (int i = COUNT - 100; i >= 0; i -= 100)
    assert_null(carnot_histogram_add(&parts, CARNOT_DTYPE_F32, data + i, 100, NULL));
  assert_memory_equal(whole.counts, parts.counts, 2 * CARNOT_HISTOGRAM_BINS * sizeof(uint64_t));
  assert_int_equal(whole.exponent, parts.exponent);
  assert_int_equal(COUNT, parts.count);
  assert_true(whole.max == 900 && parts.max == 900 && whole.min == parts.min);
  carnot_histogram_deinit(&whole);
  carnot_histogram_deinit(&parts);
  free(data);
}

static void every_value_is_in_its_bin(void** state) {
  (void)state;
  static const float kValues[] = {0, -0.0f, 1, -1, 0.5f, 1.9999f, 1e-40f, -1.25f};
  carnot_histogram h;
  fill(&h, kValues, sizeof(kValues) / sizeof(kValues[0]));
  double width = carnot_histogram_width(&h);
  assert_true(width == 2.0 / CARNOT_HISTOGRAM_BINS);
  const uint64_t* positive = h.counts + CARNOT_HISTOGRAM_BINS;
  assert_int_equal(3, positive[0]);
  assert_int_equal(1, positive[(int)(1 / width)]);
  assert_int_equal(1, positive[(int)(0.5 / width)]);
  assert_int_equal(1, positive[CARNOT_HISTOGRAM_BINS - 1]);
  assert_int_equal(1, h.counts[(int)(1 / width)]);
  assert_int_equal(1, h.counts[(int)(1.25 / width)]);
  carnot_histogram_deinit(&h);
}

static void nan_and_infinity_are_refused(void** state) {
  (void)state;
  const float data[] = {1, NAN, INFINITY};
  carnot_histogram h;
  assert_null(carnot_histogram_init(&h, /*levels=*/false));
  expect_error(carnot_histogram_add(&h, CARNOT_DTYPE_F32, data, 3, NULL), "element 1 is NaN");
  expect_error(carnot_histogram_add(&h, CARNOT_DTYPE_F32, data + 2, 1, NULL),
               "element 0 is infinite");
  assert_int_equal(0, h.count);
  carnot_histogram_deinit(&h);
}

// ---- ranges from histograms ----

static void choose(const carnot_histogram* h, carnot_calibration_method method, double* min,
                   double* max) {
  carnot_calibration_options options = {.method = method, .quantile = 0.99, .cutoff = 1};
  assert_null(carnot_calibration_range(h, &options, min, max));
}

// The mean squared error of the numbers themselves, rounded to 8 bits.
static double true_error(const float* data, double min, double max) {
  double scale = min == -max ? max / 127 : (max - min) / 255, sum = 0;
  double zero = min == -max ? 0 : nearbyint(-min / scale);
  double low = min == -max ? -128 : 0, high = min == -max ? 127 : 255;
  for (int i = 0; i < COUNT; i++) {
    double q = fmin(fmax(nearbyint((double)data[i] / scale) + zero, low), high);
    double error = (q - zero) * scale - (double)data[i];
    sum += error * error;
  }
  return sum / COUNT;
}

static void minmax_is_the_largest_value(void** state) {
  (void)state;
  float* data = numbers(2);
  data[17] = -55.5f;
  carnot_histogram h;
  fill(&h, data, COUNT);
  double min, max;
  choose(&h, CARNOT_CALIBRATION_MINMAX, &min, &max);
  assert_true(min == -55.5 && max == 55.5);
  carnot_histogram_deinit(&h);
  free(data);
}

static int by_magnitude(const void* a, const void* b) {
  float x = fabsf(*(const float*)a), y = fabsf(*(const float*)b);
  return (x > y) - (x < y);
}

static void percentile_is_that_of_the_numbers(void** state) {
  (void)state;
  float* data = numbers(2);
  carnot_histogram h;
  fill(&h, data, COUNT);
  double min, max;
  choose(&h, CARNOT_CALIBRATION_PERCENTILE, &min, &max);
  qsort(data, COUNT, sizeof(float), by_magnitude);
  double wanted = fabs((double)data[(int)(0.99 * COUNT)]);
  assert_true(min == -max && fabs(max - wanted) <= 2 * carnot_histogram_width(&h));
  carnot_histogram_deinit(&h);
  free(data);
}

static void mse_beats_every_other_range(void** state) {
  (void)state;
  for (int kind = 0; kind < 3; kind++) {  // normal, after ReLU, with far outliers
    float* data = numbers(2);
    for (int i = 0; i < COUNT; i++) {
      if (kind == 1 && data[i] < 0) data[i] = 0;
      if (kind == 2 && i % 1000 == 0) data[i] *= 8;
    }
    carnot_histogram h;
    fill(&h, data, COUNT);
    double min, max, best = INFINITY;
    choose(&h, CARNOT_CALIBRATION_MSE, &min, &max);
    double error = true_error(data, min, max);
    for (double share = 0.02; share <= 1; share += 0.02)
      best = fmin(best, fmin(true_error(data, h.min * share, h.max * share),
                             true_error(data, -h.largest * share, h.largest * share)));
    if (!(error <= best * 1.02)) fail_msg("kind %d: error %g, a grid has %g", kind, error, best);
    double estimate = carnot_calibration_error(&h, min, max);
    if (!(fabs(estimate - error) <= 0.1 * error))
      fail_msg("kind %d: the error is %g, the estimate %g", kind, error, estimate);
    carnot_histogram_deinit(&h);
    free(data);
  }
}

// A channel that weighs more keeps its outliers; one that weighs nothing does not count.
static void heavy_channels_decide(void** state) {
  (void)state;
  float* data = numbers(1);
  for (int i = 1; i < COUNT; i += 8) data[i] *= 12;  // channel 1 of 8
  double ends[2];
  for (int heavy = 0; heavy < 2; heavy++) {
    uint32_t weights[8] = {1, heavy ? 60000 : 0, 1, 1, 1, 1, 1, 1};
    carnot_channel_weights channels = {weights, 8, 1};
    carnot_histogram h;
    assert_null(carnot_histogram_init(&h, /*levels=*/false));
    assert_null(carnot_histogram_add(&h, CARNOT_DTYPE_F32, data, COUNT, &channels));
    double min;
    choose(&h, CARNOT_CALIBRATION_MSE, &min, &ends[heavy]);
    carnot_histogram_deinit(&h);
  }
  if (!(ends[0] < 5 && ends[1] > 20)) fail_msg("the ranges end at %g and %g", ends[0], ends[1]);
  free(data);
}

// Pixels of 8 bits, shifted and scaled, are exact: the steps are those of the pixels.
static void pixels_are_exact(void** state) {
  (void)state;
  static const struct {
    float mean, scale;
    int low, high, zero;  // pixels that occur; the zero point, -1: no steps of 8 bits hold them
  } kCases[] = {
      {0, 1, 0, 255, 0},          {0, 1 / 255.0f, 3, 250, 0},       {127, 1 / 128.0f, 0, 255, 127},
      {128, 0.0173f, 9, 77, 128}, {127.5f, 1 / 127.5f, 0, 255, -1}, {-300, 1, 0, 255, -1}};
  for (size_t c = 0; c < sizeof(kCases) / sizeof(kCases[0]); c++) {
    float data[COUNT];
    for (int i = 0; i < COUNT; i++) {
      int pixel = kCases[c].low + (i * 7919) % (kCases[c].high - kCases[c].low + 1);
      data[i] = ((float)pixel - kCases[c].mean) * kCases[c].scale;
    }
    carnot_histogram h;
    fill(&h, data, COUNT);
    double min, max;
    choose(&h, CARNOT_CALIBRATION_MSE, &min, &max);
    double error = true_error(data, min, max), step = (double)kCases[c].scale;
    if (kCases[c].zero >= 0 && !(error < 1e-9 * step * step))
      fail_msg("case %zu: error %g of a step of %g, range [%g, %g]", c, error, step, min, max);
    if (kCases[c].zero < 0 && !(error > 1e-4 * step * step)) fail_msg("case %zu: no error", c);
    carnot_histogram_deinit(&h);
  }
}

static void entropy_cuts_outliers_and_keeps_the_bulk(void** state) {
  (void)state;
  float* data = numbers(1);
  data[5] = 100;
  carnot_histogram h;
  fill(&h, data, COUNT);
  for (int method = CARNOT_CALIBRATION_ENTROPY; method <= CARNOT_CALIBRATION_ENTROPY_2; method++) {
    double min, max;
    choose(&h, method, &min, &max);
    assert_true(min == -max);
    if (!(max > 2 && max < 20)) fail_msg("the threshold is %g", max);
  }
  carnot_histogram_deinit(&h);
  free(data);
}

static void a_constant_tensor_has_its_value_as_range(void** state) {
  (void)state;
  const float data[] = {2.5f, 2.5f, 2.5f};
  carnot_histogram h;
  fill(&h, data, 3);
  for (int method = 0; method <= CARNOT_CALIBRATION_MSE; method++) {
    double min, max;
    choose(&h, method, &min, &max);
    assert_true(max >= 2.4 && max <= 2.5 && min <= 0);
    double error = carnot_calibration_error(&h, min, max);
    if (!(error < 0.01)) fail_msg("method %d: error %g", method, error);
  }
  carnot_histogram_deinit(&h);
}

// ---- caches ----

static carnot_ranges* read_cache(const char* text) {
  carnot_ranges* ranges;
  assert_null(carnot_ranges_create(&ranges));
  assert_null(carnot_ranges_read(ranges, text, strlen(text)));
  return ranges;
}

static void tensorrt_caches_are_read_to_the_bit(void** state) {
  (void)state;
  carnot_ranges* ranges = read_cache(
      "TRT-8203-EntropyCalibration2\nInput_0: 3c010a14\r\nport:0: 3d4ccccd\n\nrelu: 40000000\n");
  assert_int_equal(3, carnot_ranges_count(ranges));
  double min, max;
  assert_true(carnot_ranges_get(ranges, "Input_0", &min, &max));
  uint32_t bits = 0x3c010a14;
  float scale;
  memcpy(&scale, &bits, sizeof(scale));
  assert_true((float)(max / 127) == scale && min == -max);
  assert_true(carnot_ranges_get(ranges, "port:0", &min, &max));
  assert_string_equal("port:0", carnot_ranges_name(ranges, 1));
  assert_null(carnot_ranges_name(ranges, 3));
  assert_false(carnot_ranges_get(ranges, "port", &min, &max));
  char* text;
  size_t size;
  assert_null(carnot_ranges_print(ranges, CARNOT_CALIBRATION_ENTROPY_2, &text, &size));
  assert_string_equal(
      "TRT-8601-EntropyCalibration2\nInput_0: 3c010a14\nport:0: 3d4ccccd\nrelu: 40000000\n", text);
  free(text);
  carnot_ranges_destroy(ranges);
}

static void own_caches_keep_both_ends(void** state) {
  (void)state;
  carnot_ranges* ranges;
  assert_null(carnot_ranges_create(&ranges));
  for (int i = 0; i < 1000; i++) {
    char name[32];
    snprintf(name, sizeof(name), "t: %d", i);
    assert_null(carnot_ranges_set(ranges, name, i % 3 ? -0.5f : 0, 1 + (double)(float)i));
    const float factors[] = {0.5f, 1 + (float)i, 0.3f};
    const carnot_channel_factors given = {factors, 3, 0, 0.25 + i};
    if (i % 2) assert_null(carnot_ranges_set_factors(ranges, name, &given));
  }
  char* text;
  size_t size;
  assert_null(carnot_ranges_print(ranges, CARNOT_CALIBRATION_MSE, &text, &size));
  carnot_ranges* again = read_cache(text);
  assert_int_equal(1000, carnot_ranges_count(again));
  for (size_t i = 0; i < 1000; i++) {
    double a, b, c, d;
    const char* name = carnot_ranges_name(ranges, i);
    assert_string_equal(name, carnot_ranges_name(again, i));
    assert_true(carnot_ranges_get(ranges, name, &a, &b) && carnot_ranges_get(again, name, &c, &d));
    assert_true(a == c && b == d);
    carnot_channel_factors found = {.count = 0};
    assert_int_equal(i % 2, carnot_ranges_get_factors(again, name, &found));
    if (!found.count) continue;
    assert_true(found.count == 3 && found.min == 0 && found.max == 0.25 + (double)i);
    assert_true(found.factors[0] == 0.5f && found.factors[1] == 1 + (float)i);
  }
  free(text);
  expect_error(carnot_ranges_print(ranges, CARNOT_CALIBRATION_MINMAX, &text, &size),
               "TensorRT's calibration cache holds symmetric ones");
  carnot_ranges_destroy(again);
  carnot_ranges_destroy(ranges);
}

static void broken_caches_name_the_line(void** state) {
  (void)state;
  static const char* const kCases[][2] = {
      {"", "no calibration cache"},
      {"hello\nx: 3c010a14\n", "its first line is 'hello'"},
      {"TRT-8601-MinMaxCalibration\nx 3c010a14\n", "line 2"},
      {"TRT-8601-MinMaxCalibration\nx: 3c010a1\n", "line 2"},
      {"TRT-8601-MinMaxCalibration\nx: 3c010a1g\n", "line 2"},
      {"TRT-8601-MinMaxCalibration\n: 3c010a14\n", "line 2"},
      {"TRT-8601-MinMaxCalibration\nx: 3c010a14\ny: 00000000\n", "line 3"},
      {"TRT-8601-MinMaxCalibration\nx: 7fc00000\n", "line 2"},
      {"TRT-8601-MinMaxCalibration\nx: 00000001\n", "must be a normal float32"},
      {"TRT-8601-MinMaxCalibration\nx: bf800000\n", "line 2"},
      {"Carnot-1-MseCalibration\nx: 3c010a14\n", "NAME: MIN MAX"},
      {"Carnot-1-MseCalibration\nx: 3f800000 40000000\n", "0 between them"},
      {"Carnot-1-MseCalibration\nx: 00000000 40000000 00000000 40000000\n", "FACTOR"},
      {"Carnot-1-MseCalibration\nx: 00000000 40000000 00000000 40000000 3f80000\n", "FACTOR"},
      {"Carnot-1-MseCalibration\nx: 00000000 40000000 3f800000 40000000 3f800000\n", "0 between"},
      {"Carnot-1-MseCalibration\nx: 00000000 40000000 00000000 40000000 bf800000\n",
       "factor 0 of x is -1"},
  };
  for (size_t i = 0; i < sizeof(kCases) / sizeof(kCases[0]); i++) {
    carnot_ranges* ranges;
    assert_null(carnot_ranges_create(&ranges));
    expect_error(carnot_ranges_read(ranges, kCases[i][0], strlen(kCases[i][0])), kCases[i][1]);
    carnot_ranges_destroy(ranges);
  }
}

static void bad_ranges_are_refused(void** state) {
  (void)state;
  carnot_ranges* ranges;
  assert_null(carnot_ranges_create(&ranges));
  expect_error(carnot_ranges_set(ranges, "x", NAN, 1), "must be finite");
  expect_error(carnot_ranges_set(ranges, "x", 1, 2), "0 between them");
  expect_error(carnot_ranges_set(ranges, "x", 0, 0), "must be a normal float32");
  expect_error(carnot_ranges_set(ranges, "x", 0, (double)FLT_MAX * 2), "must be a normal float32");
  expect_error(carnot_ranges_set(ranges, "", 0, 1), "must not be empty");
  const float one = 1;
  expect_error(carnot_ranges_set_factors(ranges, "x", &(carnot_channel_factors){&one, 1, 0, 1}),
               "x has no range");
  expect_error(carnot_ranges_set(ranges, "a\nb", 0, 1), "line break");
  assert_int_equal(0, carnot_ranges_count(ranges));
  assert_null(carnot_ranges_set(ranges, "x", -1, 1));
  assert_null(carnot_ranges_set(ranges, "x", -2, 2));
  assert_int_equal(1, carnot_ranges_count(ranges));
  carnot_ranges_destroy(ranges);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_and_order_do_not_matter),
      cmocka_unit_test(every_value_is_in_its_bin),
      cmocka_unit_test(nan_and_infinity_are_refused),
      cmocka_unit_test(minmax_is_the_largest_value),
      cmocka_unit_test(percentile_is_that_of_the_numbers),
      cmocka_unit_test(mse_beats_every_other_range),
      cmocka_unit_test(heavy_channels_decide),
      cmocka_unit_test(pixels_are_exact),
      cmocka_unit_test(entropy_cuts_outliers_and_keeps_the_bulk),
      cmocka_unit_test(a_constant_tensor_has_its_value_as_range),
      cmocka_unit_test(tensorrt_caches_are_read_to_the_bit),
      cmocka_unit_test(own_caches_keep_both_ends),
      cmocka_unit_test(broken_caches_name_the_line),
      cmocka_unit_test(bad_ranges_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
