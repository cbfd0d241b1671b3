// Counts values by channel; joins the counts of channels that are scaled.
#include "calibration/channel_counts.h"

#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "carnot/data.h"

enum { kBins = CARNOT_CHANNEL_BINS, kJoined = CARNOT_HISTOGRAM_BINS };

double carnot_channel_largest(const carnot_channel_count* channel) {
  return fmax(-channel->min, channel->max);
}

static void widen(carnot_channel_count* channel, int exponent) {
  const int shift = exponent - channel->exponent;
  channel->exponent = exponent;
  for (int sign = 0; sign < 2; sign++) {
    uint64_t* counts = channel->counts + sign * kBins;
    for (int i = 1; i < kBins; i++) {
      const uint64_t moved = counts[i];
      counts[i] = 0;
      counts[shift < 31 ? i >> shift : 0] += moved;
    }
  }
}

// Bins that hold |x|.
static void cover(carnot_channel_count* channel, double x) {
  const double before = carnot_channel_largest(channel);
  channel->min = fmin(channel->min, x);
  channel->max = fmax(channel->max, x);
  if (fabs(x) <= before) return;
  int exponent;  // |x| < 2^exponent
  frexp(x, &exponent);
  if (before == 0) channel->exponent = exponent;  // zeros alone are in bin 0
  if (exponent > channel->exponent) widen(channel, exponent);
}

static double element(carnot_dtype dtype, const void* data, size_t i) {
  return dtype == CARNOT_DTYPE_F32 ? (double)((const float*)data)[i]
                                   : carnot_element_f64(dtype, data, i);
}

void carnot_channel_counts_add(carnot_channel_count* channels, size_t channel_count, size_t inner,
                               carnot_dtype dtype, const void* data, size_t count) {
  for (size_t i = 0; i < count; i++) {
    carnot_channel_count* channel = &channels[i / inner % channel_count];
    const double x = element(dtype, data, i);
    if (x < channel->min || x > channel->max) cover(channel, x);
    const int bin = x == 0 ? 0 : (int)ldexp(fabs(x) * kBins, -channel->exponent);
    channel->counts[(x < 0 ? 0 : kBins) + bin]++;
  }
}

double carnot_channel_power(const carnot_channel_count* channel, uint64_t* out_count) {
  const double width = ldexp(1.0 / kBins, channel->exponent);
  double sum = 0;
  *out_count = 0;
  for (int i = 0; i < kBins; i++) {
    const uint64_t count = channel->counts[i] + channel->counts[kBins + i];
    const double centre = i ? (i + 0.5) * width : 0;
    sum += (double)count * centre * centre;
    *out_count += count;
  }
  return sum;
}

// Adds |count| values that are spread evenly over [from, to) in units of bins.
static void spread(uint64_t* counts, double from, double to, uint64_t count) {
  int first = (int)from, last = (int)ceil(to) - 1;
  if (first >= kJoined) first = kJoined - 1;
  if (last >= kJoined) last = kJoined - 1;
  if (last < first) last = first;
  const uint64_t bins = (uint64_t)(last - first + 1);
  for (int i = first; i <= last; i++) counts[i] += count / bins;
  counts[first] += count % bins;
}

// What an error of channel |c| counts, once its factor multiplies it.
static double weight_of(const float* factors, const uint32_t* weights, size_t c) {
  return weights[c] * (double)factors[c] * (double)factors[c];
}

carnot_status* carnot_channel_counts_join(const carnot_channel_count* channels,
                                          size_t channel_count, const float* factors,
                                          const uint32_t* weights, carnot_histogram* out) {
  enum { kParts = 64 };  // each value is so many, so that bins can be spread
  CARNOT_TRY(carnot_histogram_init(out, /*levels=*/false));
  void* weighted;
  carnot_status* status =
      carnot_calloc(2 * (size_t)kJoined, sizeof(uint64_t), "a histogram", &weighted);
  if (status) {
    carnot_histogram_deinit(out);
    return status;
  }
  out->weighted = weighted;
  double most = 0;
  for (size_t c = 0; c < channel_count; c++) {
    out->min = fmin(out->min, channels[c].min / (double)factors[c]);
    out->max = fmax(out->max, channels[c].max / (double)factors[c]);
    most = fmax(most, weight_of(factors, weights, c));
  }
  out->largest = fmax(-out->min, out->max);
  if (out->largest > 0) frexp(out->largest, &out->exponent);
  for (size_t c = 0; c < channel_count; c++) {
    const double width =
        ldexp(1.0 / kBins, channels[c].exponent) / (double)factors[c] / carnot_histogram_width(out);
    const double largest =
        carnot_channel_largest(&channels[c]) / (double)factors[c] / carnot_histogram_width(out);
    const uint64_t weight =
        most > 0 ? (uint64_t)nearbyint(weight_of(factors, weights, c) / most * 65536) : 0;
    for (int i = 0; i < 2 * kBins; i++) {
      const uint64_t count = channels[c].counts[i] * kParts;
      const int bin = i % kBins, at = i / kBins * kJoined;
      if (!count) continue;
      out->count += count;
      if (bin == 0) {  // behind ReLU mostly zeros
        out->counts[at] += count;
        out->weighted[at] += count * weight;
        continue;
      }
      const double to = fmin((bin + 1) * width, largest);
      spread(out->counts + at, bin * width, to, count);
      spread(out->weighted + at, bin * width, to, count * weight);
    }
  }
  return NULL;
}
