// Histograms of tensors whose bins do not depend on the order of the values.
//
// Bins have equal widths, a power of two, and cover [-2^e, 2^e]. Where a larger value arrives, e
// grows and pairs of bins become one: the counts are those that the final bins would have had from
// the start, whatever the order and batching.
#ifndef CARNOT_CALIBRATION_HISTOGRAM_H_
#define CARNOT_CALIBRATION_HISTOGRAM_H_

#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/status.h"

enum {
  CARNOT_HISTOGRAM_BINS = 4096,  // of each sign
  CARNOT_HISTOGRAM_LEVELS = 256  // distinct values that are remembered
};

typedef struct carnot_histogram {
  int exponent;      // e; meaningless while |largest| is 0
  double min, max;   // of all values, 0 included
  double largest;    // the largest absolute value
  uint64_t count;    // of values
  uint64_t* counts;  // [2 * BINS]: negative values by absolute value, then the others
  uint64_t*
      weighted;     // the same with each value counted as often as its channel weighs; NULL: none
  float* levels;    // [LEVELS] the distinct values in ascending order; NULL: not asked for
  int level_count;  // of |levels|; -1: there are more than LEVELS
} carnot_histogram;

// How much the error of each channel matters to who reads the tensor: element i of |data| is of
// channel i / inner % count.
typedef struct carnot_channel_weights {
  uint32_t* weights;  // [count], at most 2^16 each
  size_t count, inner;
} carnot_channel_weights;

// An empty histogram; the caller deinitializes it. |levels|: it remembers distinct values.
// OUT_OF_MEMORY.
carnot_status* carnot_histogram_init(carnot_histogram* histogram, bool levels) CARNOT_MUST_USE;
void carnot_histogram_deinit(carnot_histogram* histogram);
// Adds |count| dense elements of a floating type. INVALID_ARGUMENT names the index of a NaN or an
// infinity; nothing is added then.
// |channels| NULL: none; the same in every call.
carnot_status* carnot_histogram_add(carnot_histogram* histogram, carnot_dtype dtype,
                                    const void* data, size_t count,
                                    const carnot_channel_weights* channels) CARNOT_MUST_USE;
// The width of a bin.
double carnot_histogram_width(const carnot_histogram* histogram);
// |out| [BINS]: counts by absolute value.
void carnot_histogram_magnitudes(const carnot_histogram* histogram, double* out);

#endif  // CARNOT_CALIBRATION_HISTOGRAM_H_
