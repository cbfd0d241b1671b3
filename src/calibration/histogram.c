// Histograms of tensors by sign and absolute value.
#include "calibration/histogram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "carnot/data.h"

enum { kBins = CARNOT_HISTOGRAM_BINS };

carnot_status* carnot_histogram_init(carnot_histogram* histogram, bool levels) {
  *histogram = (carnot_histogram){0};
  void *counts, *distinct;
  CARNOT_TRY(carnot_calloc(2 * (size_t)kBins, sizeof(uint64_t), "a histogram", &counts));
  histogram->counts = counts;
  if (!levels) return NULL;
  CARNOT_TRY(carnot_calloc(CARNOT_HISTOGRAM_LEVELS, sizeof(float), "a histogram", &distinct));
  histogram->levels = distinct;
  return NULL;
}

void carnot_histogram_deinit(carnot_histogram* histogram) {
  free(histogram->counts);
  free(histogram->weighted);
  free(histogram->levels);
}

// Notes |value| among the distinct ones.
static void add_level(carnot_histogram* histogram, float value) {
  int low = 0, high = histogram->level_count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (histogram->levels[middle] < value)
      low = middle + 1;
    else
      high = middle;
  }
  if (low < histogram->level_count && histogram->levels[low] == value) return;
  if (histogram->level_count == CARNOT_HISTOGRAM_LEVELS) {
    histogram->level_count = -1;
    return;
  }
  memmove(&histogram->levels[low + 1], &histogram->levels[low],
          (size_t)(histogram->level_count - low) * sizeof(float));
  histogram->levels[low] = value;
  histogram->level_count++;
}

double carnot_histogram_width(const carnot_histogram* histogram) {
  return ldexp(1, histogram->exponent) / kBins;
}

static double element(carnot_dtype dtype, const void* data, size_t i) {
  return dtype == CARNOT_DTYPE_F32 ? (double)((const float*)data)[i]
                                   : carnot_element_f64(dtype, data, i);
}

static void merge_bins(uint64_t* counts, int shift) {
  for (int i = 1; i < kBins; i++) {
    uint64_t moved = counts[i];
    counts[i] = 0;
    counts[shift < 31 ? i >> shift : 0] += moved;
  }
}

// Bins of twice the width, as often as it takes to cover 2^exponent.
static void widen(carnot_histogram* histogram, int exponent) {
  int shift = exponent - histogram->exponent;
  histogram->exponent = exponent;
  for (int sign = 0; sign < 2; sign++) {
    merge_bins(histogram->counts + sign * kBins, shift);
    if (histogram->weighted) merge_bins(histogram->weighted + sign * kBins, shift);
  }
}

// The least and the largest value, 0 included.
static carnot_status* find_ends(carnot_dtype dtype, const void* data, size_t count, double* min,
                                double* max) {
  for (size_t i = 0; i < count; i++) {
    double x = element(dtype, data, i);
    CARNOT_CHECK(isfinite(x), INVALID_ARGUMENT, "element %zu is %s", i,
                 isnan(x) ? "NaN" : "infinite");
    if (x < *min) *min = x;
    if (x > *max) *max = x;
  }
  return NULL;
}

static void grow(carnot_histogram* histogram, double min, double max) {
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
}

carnot_status* carnot_histogram_add(carnot_histogram* histogram, carnot_dtype dtype,
                                    const void* data, size_t count,
                                    const carnot_channel_weights* channels) {
  double min = histogram->min, max = histogram->max;
  CARNOT_TRY(find_ends(dtype, data, count, &min, &max));
  if (channels && !histogram->weighted) {
    void* weighted;
    CARNOT_TRY(carnot_calloc(2 * (size_t)kBins, sizeof(uint64_t), "a histogram", &weighted));
    histogram->weighted = weighted;
  }
  grow(histogram, min, max);
  histogram->count += count;
  for (size_t i = 0; i < count && histogram->levels && histogram->level_count >= 0; i++)
    add_level(histogram, (float)element(dtype, data, i));
  double per_bin = histogram->largest > 0 ? 1 / carnot_histogram_width(histogram) : 0;
  for (size_t i = 0; i < count; i++) {
    double x = element(dtype, data, i);
    int bin = (x < 0 ? 0 : kBins) + (int)(fabs(x) * per_bin);
    histogram->counts[bin]++;
    if (channels)
      histogram->weighted[bin] += channels->weights[i / channels->inner % channels->count];
  }
  return NULL;
}

void carnot_histogram_magnitudes(const carnot_histogram* histogram, double* out) {
  for (int i = 0; i < kBins; i++)
    out[i] = (double)histogram->counts[i] + (double)histogram->counts[kBins + i];
}
