// Regions: the operators that one step computes.
#ifndef CARNOT_PLAN_REGION_H_
#define CARNOT_PLAN_REGION_H_

#include "ir/op.h"

#define CARNOT_PLAN_NONE UINT32_MAX  // an absent optional operand

// Local values are numbered: first the step's inputs, then the outputs of the nodes in order.
typedef struct carnot_plan_node {
  carnot_op op;
  const char* name;
  carnot_attrs attrs;  // BLOCK attributes hold block_index
  uint32_t input_count, output_count;
  const uint32_t* inputs;   // local values; NONE: absent
  const uint32_t* outputs;  // local values; NONE: nothing reads it
} carnot_plan_node;

typedef struct carnot_region {
  uint32_t node_count, value_count;
  carnot_plan_node* nodes;
  uint32_t output_count;
  const uint32_t* outputs;  // local values that are the step's outputs
} carnot_region;

#endif  // CARNOT_PLAN_REGION_H_
