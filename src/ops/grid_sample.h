// Which elements GridSample reads along one dimension, for the reference and for the rows of
// devices.
#ifndef CARNOT_OPS_GRID_SAMPLE_H_
#define CARNOT_OPS_GRID_SAMPLE_H_

#include "ops/util.h"

typedef enum carnot_sample_padding {
  CARNOT_SAMPLE_ZEROS,
  CARNOT_SAMPLE_BORDER,
  CARNOT_SAMPLE_REFLECTION
} carnot_sample_padding;

enum { CARNOT_SAMPLE_TAPS = 4 };

// The attributes of a node.
typedef struct carnot_sample_rule {
  int64_t taps, before;  // taps along a dimension; of those before the place
  bool align_corners;
  bool wide;  // the grid is float64; set by the caller
  carnot_sample_padding pad;
} carnot_sample_rule;
carnot_sample_rule carnot_sample_rule_of(const carnot_attrs* attrs);

// The elements, -1 for none, and their weights at grid coordinate |n| of a dimension of |size|.
void carnot_sample_taps(const carnot_sample_rule* rule, double n, int64_t size,
                        int64_t elements[CARNOT_SAMPLE_TAPS], double weights[CARNOT_SAMPLE_TAPS]);

#endif  // CARNOT_OPS_GRID_SAMPLE_H_
