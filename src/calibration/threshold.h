// Ranges from histograms: the calibration methods of carnot/calibration.h.
#ifndef CARNOT_CALIBRATION_THRESHOLD_H_
#define CARNOT_CALIBRATION_THRESHOLD_H_

#include "calibration/histogram.h"
#include "carnot/calibration.h"

// The range that |options| choose for a histogram whose largest absolute value is not 0.
// Source: entropy: S. Migacz, "8-bit Inference with TensorRT", GTC 2017. The others are their
// definitions.
carnot_status* carnot_calibration_range(const carnot_histogram* histogram,
                                        const carnot_calibration_options* options, double* out_min,
                                        double* out_max) CARNOT_MUST_USE;

// The mean of squared errors of a tensor that is quantized to 8 bits with the range: each bin by
// its centre, or by the variance of rounding where a step is no wider than two bins.
double carnot_calibration_error(const carnot_histogram* histogram, double min, double max);
// The mean of the squares, each bin by its centre.
double carnot_calibration_power(const carnot_histogram* histogram);
// The share of values in bins outside the range.
double carnot_calibration_clipped(const carnot_histogram* histogram, double min, double max);

#endif  // CARNOT_CALIBRATION_THRESHOLD_H_
