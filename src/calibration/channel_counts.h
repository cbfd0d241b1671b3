// Counts of a tensor's values by channel, coarser than carnot_histogram, and in no order either.
#ifndef CARNOT_CALIBRATION_CHANNEL_COUNTS_H_
#define CARNOT_CALIBRATION_CHANNEL_COUNTS_H_

#include "calibration/histogram.h"

enum { CARNOT_CHANNEL_BINS = 64 };  // of each sign

typedef struct carnot_channel_count {
  int exponent;     // bins of each sign cover 2^exponent; meaningless while all values are 0
  double min, max;  // of all values, 0 included
  uint64_t counts[2 * CARNOT_CHANNEL_BINS];  // negative values by absolute value, then the others
} carnot_channel_count;

// Adds |count| dense elements of a floating type, all finite; element i is of channel
// i / |inner| % |channel_count|.
void carnot_channel_counts_add(carnot_channel_count* channels, size_t channel_count, size_t inner,
                               carnot_dtype dtype, const void* data, size_t count);
// The largest absolute value.
double carnot_channel_largest(const carnot_channel_count* channel);
// The sum of the squares, each bin by its centre and the first one by 0; *out_count of values.
double carnot_channel_power(const carnot_channel_count* channel, uint64_t* out_count);
// The histogram of all channels, each divided by its factor; |weights| [channel_count] as in
// carnot_channel_weights. |out| is new; the caller deinitializes it. OUT_OF_MEMORY.
carnot_status* carnot_channel_counts_join(const carnot_channel_count* channels,
                                          size_t channel_count, const float* factors,
                                          const uint32_t* weights,
                                          carnot_histogram* out) CARNOT_MUST_USE;

#endif  // CARNOT_CALIBRATION_CHANNEL_COUNTS_H_
