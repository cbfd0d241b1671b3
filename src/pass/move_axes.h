// An operator in another order of axes: transposes moved from its results to its operands.
#ifndef CARNOT_PASS_MOVE_AXES_H_
#define CARNOT_PASS_MOVE_AXES_H_

#include "ir/graph.h"

// y = transpose(x, perm): dimension i of y is dimension perm[i] of x.
typedef struct carnot_order {
  int rank;
  int perm[CARNOT_MAX_RANK];
  int inverse[CARNOT_MAX_RANK];
} carnot_order;

// Channels from the second axis to the last ([0,2,3,1]), or back ([0,3,1,2]). |rank| >= 3.
carnot_order carnot_order_channels_last(int rank);
carnot_order carnot_order_channels_first(int rank);
// True for a transpose by |perm| [order->rank], which is order->perm or order->inverse.
bool carnot_is_transpose_by(const carnot_node* node, const carnot_order* order, const int* perm);
// True where a transpose by |order| keeps the row-major order of elements of |type|.
bool carnot_order_keeps_elements(const carnot_order* order, const carnot_type* type);

// Data of |node| that are reordered with it: input |i| of rank order->rank or, for an element-wise
// operator, less.
bool carnot_node_input_moves(const carnot_node* node, int i);
// True when carnot_node_move_axes can rewrite |node|.
bool carnot_node_can_move_axes(const carnot_node* node, const carnot_order* order);
// Elements of transposes behind the results of fewer axes that the rewriting would add.
int64_t carnot_node_moved_results(const carnot_node* node, const carnot_order* order);
// Rewrites |node|, whose data are transposes by |order| of x, to work on x: inserts transposes by
// order->inverse of its data and by order->perm of its results, and removes |node|. A transpose
// by order->inverse of a transpose by order->perm is left out, and transposes of nodes from id
// |first_new| on are used again.
carnot_status* carnot_node_move_axes(carnot_node* node, const carnot_order* order,
                                     uint32_t first_new) CARNOT_MUST_USE;

#endif  // CARNOT_PASS_MOVE_AXES_H_
