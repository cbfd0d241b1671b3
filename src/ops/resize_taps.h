// How a resized element reads the input along one axis: where it lies, and its taps.
#ifndef CARNOT_OPS_RESIZE_TAPS_H_
#define CARNOT_OPS_RESIZE_TAPS_H_

#include "ops/util.h"

typedef struct carnot_resize_axis {
  int64_t in, out;
  double scale, roi_start, roi_end;
} carnot_resize_axis;

typedef struct carnot_resize_filter {
  carnot_strview place, nearest;  // coordinate_transformation_mode, nearest_mode
  int64_t radius;                 // taps on each side; 0: nearest
  bool cubic, exclude_outside;
  double a, extrapolation;
} carnot_resize_filter;

// Where output |o| lies in the input; *out_outside: it takes the extrapolation value.
double carnot_resize_place(const carnot_resize_filter* f, const carnot_resize_axis* x, int64_t o,
                           bool* out_outside);
// The one element that mode nearest reads at |at|; may lie outside.
int64_t carnot_resize_nearest(const carnot_resize_filter* f, double at);
// Taps around |at|: 2*radius elements from *out_first on, |weights| for each. |shrink| < 1
// stretches the filter.
void carnot_resize_taps(const carnot_resize_filter* f, const carnot_resize_axis* x, double at,
                        double shrink, int64_t* out_first, double* weights);

#endif  // CARNOT_OPS_RESIZE_TAPS_H_
