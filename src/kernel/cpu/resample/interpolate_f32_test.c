// Interpolation of taps against plain loops.
#include "kernel/cpu/resample/interpolate_f32.h"

#include "kernel/cpu/common/kernel_test.h"

enum { kRows = 3, kColumns = 4, kPixels = 40 };

static void check_channels(const carnot_cpu_kernels* kernels, int channels) {
  float *src = buffer(kPixels * channels, 211), *weights = buffer(4 * kColumns, 212);
  float *dst = buffer(channels + 1, 0), *best = buffer(channels + 1, 0);
  carnot_tap rows[kRows], columns[kColumns];
  for (int i = 0; i < kRows; ++i)
    rows[i] = (carnot_tap){10 * i * channels, fabsf(weights[i]), fabsf(weights[i]) / 2};
  for (int i = 0; i < kColumns; ++i)
    columns[i] = (carnot_tap){(9 - 2 * i) * channels, fabsf(weights[kColumns + i]), 0};
  const carnot_interpolate_f32 interpolate = {.channels = channels,
                                              .src = src,
                                              .row_count = kRows,
                                              .column_count = kColumns,
                                              .rows = rows,
                                              .columns = columns,
                                              .least = -1};
  kernels->interpolate_f32(&interpolate, dst);
  kernels->interpolate_max_f32(&interpolate, best);
  for (int c = 0; c < channels; ++c) {
    double sum = 0, size = 0, most = -1;
    for (int i = 0; i < kRows * kColumns; ++i) {
      const carnot_tap *row = &rows[i / kColumns], *column = &columns[i % kColumns];
      const double x = src[row->offset + column->offset + c];
      const double term = (double)row->weight * column->weight * x;
      sum += term, size += fabs(term);
      most = fmax(fmax(most, term), (double)row->low * column->low * x);
    }
    check_near(dst[c], sum, 8 * FLT_EPSILON * size, "blend", channels, c);
    check_near(best[c], most, 2 * FLT_EPSILON * fabs(most), "blend_max", channels, c);
  }
  assert_true(dst[channels] == kCanary && best[channels] == kCanary);
  src[columns[1].offset] = NAN;
  kernels->interpolate_max_f32(&interpolate, best);
  assert_true(isnan(best[0]) && !isnan(best[channels - 1]));
  buffer_free(src), buffer_free(weights), buffer_free(dst), buffer_free(best);
}

static void check_interpolate(const carnot_cpu_kernels* kernels) {
  const int channels[] = {2, 7, 16, 33, 64, 100};
  for (int i = 0; i < 6; ++i) check_channels(kernels, channels[i]);
}

static void test_interpolate(void** state) { (void)state, for_each_isa(check_interpolate); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_interpolate)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
