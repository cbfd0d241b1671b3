// Rectangles of detections: reading, intersection over union.
#include "ops/rect.h"

#include "ops/util.h"

carnot_rect carnot_rect_of(const double* v, bool is_centre) {
  if (is_centre)
    return (carnot_rect){v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  bool flip_y = v[0] > v[2], flip_x = v[1] > v[3];
  return (carnot_rect){v[flip_y ? 2 : 0], v[flip_x ? 3 : 1], v[flip_y ? 0 : 2], v[flip_x ? 1 : 3]};
}

carnot_rect carnot_rect_read(const carnot_tensor* boxes, int64_t at, bool is_centre) {
  double v[4];
  carnot_load_block_f64(boxes->dtype, boxes->data, (size_t)at * 4, 1, 4, v);
  return carnot_rect_of(v, is_centre);
}

double carnot_rect_overlap(const carnot_rect* a, const carnot_rect* b) {
  double height = (a->y1 < b->y1 ? a->y1 : b->y1) - (a->y0 > b->y0 ? a->y0 : b->y0);
  double width = (a->x1 < b->x1 ? a->x1 : b->x1) - (a->x0 > b->x0 ? a->x0 : b->x0);
  if (height <= 0 || width <= 0) return 0;
  double common = height * width;
  double both = (a->y1 - a->y0) * (a->x1 - a->x0) + (b->y1 - b->y0) * (b->x1 - b->x0) - common;
  return both > 0 ? common / both : 0;
}
