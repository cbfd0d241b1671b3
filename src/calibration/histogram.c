// Histograms of tensors by sign and absolute value.
#include "calibration/histogram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "carnot/data.h"

enum { kBins = CARNOT_HISTOGRAM_BINS };

carnot_status* carnot_histogram_init(carnot_histogram* histogram) {
  *histogram = (carnot_histogram){0};
  void* counts;
  CARNOT_TRY(carnot_calloc(2 * (size_t)kBins, sizeof(uint64_t), "a histogram", &counts));
  histogram->counts = counts;
  return NULL;
}

void carnot_histogram_deinit(carnot_histogram* histogram) { free(histogram->counts); }

double carnot_histogram_width(const carnot_histogram* histogram) {
  return ldexp(1, histogram->exponent) / kBins;
}

static double element(carnot_dtype dtype, const void* data, size_t i) {
  return dtype == CARNOT_DTYPE_F32 ? (double)((const float*)data)[i]
                                   : carnot_element_f64(dtype, data, i);
}

// Bins of twice the width, as often as it takes to cover 2^exponent.
static void widen(carnot_histogram* histogram, int exponent) {
  int shift = exponent - histogram->exponent;
  histogram->exponent = exponent;
  for (int sign = 0; sign < 2; sign++) {
    uint64_t* counts = histogram->counts + sign * kBins;
    for (int i = 1; i < kBins; i++) {
      uint64_t moved = counts[i];
      counts[i] = 0;
      counts[shift < 31 ? i >> shift : 0] += moved;
    }
  }
}

carnot_status* carnot_histogram_add(carnot_histogram* histogram, carnot_dtype dtype,
                                    const void* data, size_t count) {
  double min = histogram->min, max = histogram->max;
  for (size_t i = 0; i < count; i++) {
    double x = element(dtype, data, i);
    CARNOT_CHECK(isfinite(x), INVALID_ARGUMENT, "element %zu is %s", i,
                 isnan(x) ? "NaN" : "infinite");
    if (x < min) min = x;
    if (x > max) max = x;
  }
  double largest = fmax(-min, max);
  if (largest > 0) {
    int exponent;  // largest < 2^exponent
    frexp(largest, &exponent);
    if (histogram->largest == 0) histogram->exponent = exponent;  // zeros alone are in bin 0
    if (exponent > histogram->exponent) widen(histogram, exponent);
  }
  histogram->min = min;
  histogram->max = max;
  histogram->largest = largest;
  histogram->count += count;
  double per_bin = largest > 0 ? 1 / carnot_histogram_width(histogram) : 0;
  for (size_t i = 0; i < count; i++) {
    double x = element(dtype, data, i);
    histogram->counts[(x < 0 ? 0 : kBins) + (int)(fabs(x) * per_bin)]++;
  }
  return NULL;
}

void carnot_histogram_magnitudes(const carnot_histogram* histogram, double* out) {
  for (int i = 0; i < kBins; i++)
    out[i] = (double)histogram->counts[i] + (double)histogram->counts[kBins + i];
}
