// Chooses ranges of tensors from their histograms.
#include "calibration/threshold.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { kBins = CARNOT_HISTOGRAM_BINS, kLevels = 128, kStep = 16, kTrials = 100 };

// ---- entropy ----

// The divergence between the first |used| bins, where the last counts what lies beyond, and the
// same bins at 128 levels: the bins of a level that are not empty share its count.
static double divergence(const double* bins, int used, double beyond, double total) {
  double sum = 0, quantized_total = 0;
  for (int i = 0; i < used; i++) quantized_total += bins[i];
  if (quantized_total <= 0) return INFINITY;
  for (int level = 0; level < kLevels; level++) {
    int from = (int)((int64_t)level * used / kLevels);
    int to = (int)((int64_t)(level + 1) * used / kLevels), full = 0;
    double mass = 0;
    for (int i = from; i < to; i++) {
      mass += bins[i];
      full += bins[i] > 0;
    }
    for (int i = from; i < to; i++) {
      double p = (bins[i] + (i == used - 1 ? beyond : 0)) / total;
      if (p <= 0) continue;
      // A last bin that is empty but for what lies beyond has no level: its information is lost.
      double q = bins[i] > 0 ? mass / full / quantized_total : 1e-12;
      sum += p * log(p / q);
    }
  }
  return sum;
}

static double entropy_threshold(const carnot_histogram* histogram, bool damp_zero, double* bins) {
  carnot_histogram_magnitudes(histogram, bins);
  if (damp_zero) bins[0] = bins[1];
  int used = 0;
  double total = 0;
  for (int i = 0; i < kBins; i++) {
    total += bins[i];
    if (bins[i] > 0) used = i + 1;
  }
  double width = carnot_histogram_width(histogram);
  if (used <= kLevels || total <= 0) return histogram->largest;
  double below = 0, best = INFINITY;
  int best_used = used, at = 0;
  for (int candidate = kLevels; candidate < used + kStep; candidate += kStep) {
    int bound = candidate < used ? candidate : used;
    for (; at < bound; at++) below += bins[at];
    double lost = divergence(bins, bound, total - below, total);
    if (lost < best) {
      best = lost;
      best_used = bound;
    }
  }
  return best_used == used ? histogram->largest : fmin(best_used * width, histogram->largest);
}

// ---- percentile ----

static double percentile_threshold(const carnot_histogram* histogram, double quantile,
                                   double cutoff, double* bins) {
  carnot_histogram_magnitudes(histogram, bins);
  double width = carnot_histogram_width(histogram), total = 0, below = 0;
  int last = (int)(cutoff * histogram->largest / width);
  if (last >= kBins) last = kBins - 1;
  for (int i = 0; i <= last; i++) total += bins[i];
  for (int i = 0; i <= last; i++) {
    below += bins[i];
    if (below >= quantile * total) return fmin((i + 1) * width, cutoff * histogram->largest);
  }
  return cutoff * histogram->largest;
}

// ---- mean squared error ----

// Levels of 8 bits: [low, high] around 0 in steps of |scale|.
typedef struct grid {
  double scale;
  int low, high;
} grid;

static grid grid_of(double min, double max) {
  if (min == -max) return (grid){max / 127, -128, 127};
  double scale = (max - min) / 255;
  int zero = (int)nearbyint(-min / scale);
  return (grid){scale, -zero, 255 - zero};
}

static double bin_error(const grid* g, double centre, double width) {
  double low = g->low * g->scale, high = g->high * g->scale;
  if (centre < low) return (centre - low) * (centre - low);
  if (centre > high) return (centre - high) * (centre - high);
  if (g->scale <= 2 * width) return g->scale * g->scale / 12;
  double rounded = nearbyint(centre / g->scale) * g->scale;
  return (centre - rounded) * (centre - rounded) + width * width / 12;
}

static double error_of(const carnot_histogram* histogram, const uint64_t* counts, double min,
                       double max) {
  grid g = grid_of(min, max);
  double width = carnot_histogram_width(histogram), sum = 0;
  for (int i = 0; i < kBins; i++) {
    double centre = (i + 0.5) * width;
    double negative = (double)counts[i], other = (double)counts[kBins + i];
    if (negative > 0) sum += negative * bin_error(&g, -centre, width);
    // Zero is exact in every grid, and behind ReLU most of its bin.
    if (other > 0) sum += other * (i ? bin_error(&g, centre, width) : 0);
  }
  return sum / (double)histogram->count;
}

double carnot_calibration_error(const carnot_histogram* histogram, double min, double max) {
  return error_of(histogram, histogram->counts, min, max);
}

double carnot_calibration_power(const carnot_histogram* histogram) {
  double width = carnot_histogram_width(histogram), sum = 0;
  for (int i = 0; i < kBins; i++) {
    double centre = (i + 0.5) * width;
    double count = (double)histogram->counts[i] + (i ? (double)histogram->counts[kBins + i] : 0);
    sum += count * centre * centre;
  }
  return sum / (double)histogram->count;
}

double carnot_calibration_clipped(const carnot_histogram* histogram, double min, double max) {
  double width = carnot_histogram_width(histogram);
  uint64_t outside = 0;
  for (int i = 0; i < kBins; i++) {
    if (-(i + 0.5) * width < min) outside += histogram->counts[i];
    if ((i + 0.5) * width > max) outside += histogram->counts[kBins + i];
  }
  return (double)outside / (double)histogram->count;
}

// The range whose steps of 8 bits hold every distinct value exactly, as of pixels that were shifted
// and scaled; false: there is none.
static bool exact_range(const carnot_histogram* histogram, double* out_min, double* out_max) {
  const float* levels = histogram->levels;
  int count = histogram->levels ? histogram->level_count : 0;
  if (count < 2) return false;
  double step = INFINITY, first = (double)levels[0], span = (double)levels[count - 1] - first;
  for (int i = 1; i < count; i++) step = fmin(step, (double)levels[i] - (double)levels[i - 1]);
  double steps = nearbyint(span / step);
  if (steps > 255) return false;
  step = span / steps;
  for (int i = 0; i < count; i++) {
    double at = (double)levels[i] / step;
    if (fabs(at - nearbyint(at)) > 1e-3) return false;
  }
  double zero = fmin(fmax(nearbyint(-first / step), 0), 255);
  if (nearbyint(first / step) + steps + zero > 255) return false;
  *out_min = -zero * step;
  *out_max = (255 - zero) * step;
  return true;
}

// Shrinks the whole range, then each end alone.
static void mse_range(const carnot_histogram* histogram, double* out_min, double* out_max) {
  if (exact_range(histogram, out_min, out_max)) return;
  const uint64_t* counts = histogram->weighted ? histogram->weighted : histogram->counts;
  double ends[2] = {histogram->min, histogram->max}, best = INFINITY, chosen[2] = {0};
  for (int round = 0; round < 3; round++) {
    double from[2] = {round ? chosen[0] : ends[0], round ? chosen[1] : ends[1]};
    for (int trial = kTrials; trial > 0; trial--) {
      double share = (double)trial / kTrials;
      double min = round == 2 ? from[0] : (round ? ends[0] : from[0]) * share;
      double max = round == 1 ? from[1] : (round ? ends[1] : from[1]) * share;
      if (max - min <= 0) continue;
      double error = error_of(histogram, counts, min, max);
      if (error < best) {
        best = error;
        chosen[0] = min;
        chosen[1] = max;
      }
    }
  }
  *out_min = chosen[0];
  *out_max = chosen[1];
}

carnot_status* carnot_calibration_range(const carnot_histogram* histogram,
                                        const carnot_calibration_options* options, double* out_min,
                                        double* out_max) {
  void* bins;
  CARNOT_TRY(carnot_calloc(kBins, sizeof(double), "a histogram", &bins));
  double threshold = histogram->largest;
  switch (options->method) {
    case CARNOT_CALIBRATION_ENTROPY:
    case CARNOT_CALIBRATION_ENTROPY_2:
      threshold =
          entropy_threshold(histogram, options->method == CARNOT_CALIBRATION_ENTROPY_2, bins);
      break;
    case CARNOT_CALIBRATION_MINMAX: break;
    case CARNOT_CALIBRATION_PERCENTILE:
      threshold = percentile_threshold(histogram, options->quantile, options->cutoff, bins);
      break;
    case CARNOT_CALIBRATION_MSE: break;
  }
  free(bins);
  *out_min = -threshold;
  *out_max = threshold;
  if (options->method == CARNOT_CALIBRATION_MSE) {
    mse_range(histogram, out_min, out_max);
    *out_min = (double)(float)*out_min;  // as a cache holds them
    *out_max = (double)(float)*out_max;
  }
  return NULL;
}
