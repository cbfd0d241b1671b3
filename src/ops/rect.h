// Rectangles of detections.
#ifndef CARNOT_OPS_RECT_H_
#define CARNOT_OPS_RECT_H_

#include <stdbool.h>
#include <stdint.h>

#include "ir/tensor.h"

typedef struct carnot_rect {
  double y0, x0, y1, x1;
} carnot_rect;

// A box of four numbers: any two opposite corners y, x, y, x, or x, y of the centre, width, height.
carnot_rect carnot_rect_of(const double* numbers, bool is_centre);
// Box |at| of [.., 4].
carnot_rect carnot_rect_read(const carnot_tensor* boxes, int64_t at, bool is_centre);
// Intersection over union; 0 where the rectangles do not touch.
double carnot_rect_overlap(const carnot_rect* a, const carnot_rect* b);

#endif  // CARNOT_OPS_RECT_H_
