// DepthToSpace-13 and SpaceToDepth-13 as one copy over six axes, for the tactics of every backend.
#ifndef CARNOT_TACTIC_PROBLEM_DEPTH_SPACE_H_
#define CARNOT_TACTIC_PROBLEM_DEPTH_SPACE_H_

#include "tactic/tactic.h"

// Axes: image, channel of the wide tensor, row, row in the block, column, column in the block.
typedef struct carnot_depth_space_copy {
  int64_t dims[6], src[6], dst[6];  // strides in elements
} carnot_depth_space_copy;

static inline bool carnot_is_depth_space(const carnot_region* region) {
  carnot_op op = region->nodes[0].op;
  return region->node_count == 1 &&
         (op == CARNOT_OP_DEPTH_TO_SPACE || op == CARNOT_OP_SPACE_TO_DEPTH);
}

// |x| and |y| may have any layout.
static inline carnot_status* carnot_depth_space_copy_of(const carnot_plan_node* node,
                                                        const carnot_operand* x,
                                                        const carnot_operand* y,
                                                        carnot_depth_space_copy* out) {
  const carnot_op_row* row = carnot_op_get(node->op);
  bool to_space = node->op == CARNOT_OP_DEPTH_TO_SPACE;
  const carnot_operand *deep = to_space ? x : y, *wide = to_space ? y : x;
  CARNOT_CHECK(x->format.dtype == y->format.dtype && deep->rank == 4 && wide->rank == 4,
               INVALID_MODEL, "operands of %s and %s, ranks %d and %d",
               carnot_dtype_name(x->format.dtype), carnot_dtype_name(y->format.dtype), x->rank,
               y->rank);
  bool crd = carnot_attr_is(row, &node->attrs, "mode", "CRD");
  int64_t size = carnot_attr_int(row, &node->attrs, "blocksize"), depth = wide->dims[1];
  CARNOT_CHECK(size > 0 && size <= INT32_MAX && deep->dims[0] == wide->dims[0] &&
                   deep->dims[1] == depth * size * size && wide->dims[2] == deep->dims[2] * size &&
                   wide->dims[3] == deep->dims[3] * size,
               INVALID_ARGUMENT, "blocks of %lld do not fit", (long long)size);
  int64_t c = deep->strides[1], channel = crd ? size * size : 1,
          row_step = crd ? size : size * depth, column_step = crd ? 1 : depth;
  const int64_t dims[6] = {deep->dims[0], depth, deep->dims[2], size, deep->dims[3], size};
  const int64_t in_deep[6] = {deep->strides[0], channel * c,      deep->strides[2],
                              row_step * c,     deep->strides[3], column_step * c};
  const int64_t in_wide[6] = {wide->strides[0], wide->strides[1],        size * wide->strides[2],
                              wide->strides[2], size * wide->strides[3], wide->strides[3]};
  memcpy(out->dims, dims, sizeof(dims));
  memcpy(out->src, to_space ? in_deep : in_wide, sizeof(out->src));
  memcpy(out->dst, to_space ? in_wide : in_deep, sizeof(out->dst));
  return NULL;
}

#endif  // CARNOT_TACTIC_PROBLEM_DEPTH_SPACE_H_
