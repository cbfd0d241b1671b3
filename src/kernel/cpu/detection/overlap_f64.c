// The search for overlapping boxes. Plain loops of a constant length, which the compiler turns into
// vectors of the level.
#include "kernel/cpu/detection/overlap_f64.h"

#include "kernel/cpu/common/kernels_isa.h"

CARNOT_INLINE double lesser(double a, double b) { return a < b ? a : b; }
CARNOT_INLINE double greater(double a, double b) { return a > b ? a : b; }

static bool may_overlap(const carnot_box_block* b, const double* box, double area, double limit) {
  int64_t found = 0;
  for (int k = 0; k < CARNOT_BOX_BLOCK; ++k) {
    const double height = lesser(box[2], b->y1[k]) - greater(box[0], b->y0[k]);
    const double width = lesser(box[3], b->x1[k]) - greater(box[1], b->x0[k]);
    const double both = height * width, either = area + b->area[k] - both;
    found |= (height > 0) & (width > 0) & (both * (1 + 0x1p-40) >= limit * either);
  }
  return found;
}

int64_t CARNOT_KERNEL(find_overlap_f64)(const carnot_box_block* blocks, int64_t at,
                                        const double* box, double limit) {
  const double area = (box[2] - box[0]) * (box[3] - box[1]);
  while (at >= 0 && !may_overlap(&blocks[at], box, area, limit)) at = blocks[at].next;
  return at;
}
