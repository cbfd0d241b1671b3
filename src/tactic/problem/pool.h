// The pooling problem, for tactics of every backend: operator, window and attributes of a region
// that is one MaxPool, AveragePool or LpPool.
#ifndef CARNOT_TACTIC_PROBLEM_POOL_H_
#define CARNOT_TACTIC_PROBLEM_POOL_H_

#include "ops/sliding_window.h"
#include "tactic/tactic.h"

typedef struct carnot_pool_problem {
  carnot_op op;                  // MAX_POOL, AVERAGE_POOL or LP_POOL
  carnot_sliding_window window;  // kernel_shape, strides, dilations, pads and ceil_mode
  bool include_padding;          // average: padding inside the window counts
  bool column_major;             // max: order of the indices, storage_order 1
  int64_t power;                 // Lp: p; 0 for other operators
  bool values, indices;          // outputs that something reads; indices of the maxima
} carnot_pool_problem;

// Reads |node| for an input of |spatial_rank| spatial dimensions. INVALID_MODEL where its
// attributes are out of range.
carnot_status* carnot_pool_problem_of_node(const carnot_plan_node* node, int spatial_rank,
                                           carnot_pool_problem* out) CARNOT_MUST_USE;
// Reads a problem. NULL, or the reason; "" when the region is not pooling alone.
const char* carnot_pool_problem_read(const carnot_problem* problem, carnot_pool_problem* out,
                                     char* reason, size_t size);

#endif  // CARNOT_TACTIC_PROBLEM_POOL_H_
