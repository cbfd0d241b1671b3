// Factors that make the channels of a tensor alike before it is quantized.
#ifndef CARNOT_CALIBRATION_EQUALIZE_H_
#define CARNOT_CALIBRATION_EQUALIZE_H_

#include "calibration/channel_counts.h"

// The weights of a layer that reads the tensor: |outputs| filters in groups, each over |inputs|
// channels of the tensor; group g reads channels g * inputs to (g + 1) * inputs.
typedef struct carnot_equalize_reader {
  size_t outputs, inputs, groups, kernel;  // |kernel|: elements of a filter for one channel
  float* largest;  // [outputs * inputs] the largest absolute weight of a filter for a channel
} carnot_equalize_reader;

// Finds factors f so that with x[c] / f[c] and w[o][c] * f[c] quantized the layers' results have
// the least expected squared error: the steps of x by all weights, the steps of each filter by x.
// Tried are f = largest x[c] ^ a / (1 or largest w[c] ^ (1 - a)), a in [0, 1].
// |norms| [channel_count]: squared norm of the weights of each channel over all readers.
// *out_gain: the root of the error by that without factors; 1, all factors 1, where none is better.
// |out_factors| have the geometric mean 1. OUT_OF_MEMORY.
// Source: M. Nagel et al., "Data-Free Quantization Through Weight Equalization and Bias
// Correction", ICCV 2019, section 4.1; G. Xiao et al., "SmoothQuant", ICML 2023, section 4.
carnot_status* carnot_equalize(const carnot_channel_count* channels, size_t channel_count,
                               const double* norms, const carnot_equalize_reader* readers,
                               size_t reader_count, float* out_factors,
                               double* out_gain) CARNOT_MUST_USE;

#endif  // CARNOT_CALIBRATION_EQUALIZE_H_
