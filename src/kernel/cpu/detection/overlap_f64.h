// Boxes of detections in blocks, coordinate by coordinate, and the search for one that shares much
// with a given box.
#ifndef CARNOT_KERNEL_CPU_DETECTION_OVERLAP_F64_H_
#define CARNOT_KERNEL_CPU_DETECTION_OVERLAP_F64_H_

#include <stdbool.h>
#include <stdint.h>

enum { CARNOT_BOX_BLOCK = 16 };

// y0 <= y1 and x0 <= x1; a lane without a box: y0 = x0 = infinity, y1 = x1 = -infinity, area 0.
typedef struct carnot_box_block {
  _Alignas(64) double y0[CARNOT_BOX_BLOCK];
  double x0[CARNOT_BOX_BLOCK], y1[CARNOT_BOX_BLOCK], x1[CARNOT_BOX_BLOCK], area[CARNOT_BOX_BLOCK];
  int64_t next;  // of a list of blocks: an index of the array, -1 behind the last
} carnot_box_block;

// The first block of the list from blocks[at] on, -1 when there is none, that may hold a box whose
// intersection with |box| (y0, x0, y1, x1) is more than |limit| >= 0 of their union: none is left
// out that is so in double precision, and a few may be found that are below it by 2^-40.
typedef int64_t carnot_find_overlap_f64_fn(const carnot_box_block* blocks, int64_t at,
                                           const double* box, double limit);

#endif
