// Where RoiAlign samples its regions, for the reference and for the rows of devices.
#ifndef CARNOT_OPS_ROI_H_
#define CARNOT_OPS_ROI_H_

#include <math.h>

#include "ops/util.h"

// The attributes of a node.
typedef struct carnot_roi_rule {
  double scale, shift;
  int64_t sampling;  // points along one side of a cell; <= 0: by its size
  bool mean;         // else the largest weighted neighbour of any point
} carnot_roi_rule;
carnot_roi_rule carnot_roi_rule_of(const carnot_attrs* attrs);

// One side of a region: where it begins, how long a cell is, and the points along that.
typedef struct carnot_roi_side {
  double start, cell;
  int64_t points;
} carnot_roi_side;
// |from|, |to|: of the region, as given.
carnot_roi_side carnot_roi_side_of(const carnot_roi_rule* rule, double from, double to,
                                   int64_t cells);
// The coordinate of point |k| of cell |i|.
static inline double carnot_roi_point(const carnot_roi_side* side, int64_t i, int64_t k) {
  return side->start + (double)i * side->cell +
         ((double)k + 0.5) * side->cell / (double)side->points;
}

// The two neighbours of a coordinate and how far it lies toward the second; false outside of the
// map.
bool carnot_roi_neighbours(double at, int64_t size, int64_t* low, int64_t* high, double* out_part);

// A coordinate as a position, kept within what an int64 can hold safely.
static inline int64_t carnot_roi_position(double value) {
  return (int64_t)fmin(fmax(value, -1e15), 1e15);
}
// One side of a region of MaxRoiPool in pixels, and where its cell |i| of |cells| begins and ends
// along a dimension of |size|: edges are rounded outward.
typedef struct carnot_max_roi_side {
  int64_t start, end;
} carnot_max_roi_side;
static inline carnot_max_roi_side carnot_max_roi_side_of(double from, double to, double scale) {
  return (carnot_max_roi_side){carnot_roi_position(round(from * scale)),
                               carnot_roi_position(round(to * scale))};
}
void carnot_max_roi_cell(const carnot_max_roi_side* side, int64_t i, int64_t cells, int64_t size,
                         int64_t* out_from, int64_t* out_to);

static inline carnot_status* carnot_roi_check_image(int64_t image, int64_t images) {
  CARNOT_CHECK(image >= 0 && image < images, INVALID_ARGUMENT, "a region names image %lld of %lld",
               (long long)image, (long long)images);
  return NULL;
}

// Crop and resize: the position of element |i| of |count| along a dimension of |size| pixels that
// the box covers from |first| to |last|, 1 being the last pixel.
double carnot_crop_position(double first, double last, int64_t i, int64_t count, int64_t size);

#endif  // CARNOT_OPS_ROI_H_
