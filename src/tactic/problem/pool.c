// Reads pooling problems from the attributes of their operator.
#include "tactic/problem/pool.h"

#include <stdio.h>

static bool is_read(const carnot_plan_node* node, uint32_t output) {
  return node->output_count > output && node->outputs[output] != CARNOT_PLAN_NONE;
}

carnot_status* carnot_pool_problem_of_node(const carnot_plan_node* node, int spatial_rank,
                                           carnot_pool_problem* out) {
  const carnot_op_row* row = carnot_op_get(node->op);
  *out = (carnot_pool_problem){
      .op = node->op, .values = is_read(node, 0), .indices = is_read(node, 1)};
  CARNOT_TRY(
      carnot_sliding_window_read(row, &node->attrs, spatial_rank, /*weights=*/NULL, &out->window));
  out->window.ceil_mode = carnot_attr_int(row, &node->attrs, "ceil_mode") != 0;
  switch (node->op) {
    case CARNOT_OP_AVERAGE_POOL:
      out->include_padding = carnot_attr_int(row, &node->attrs, "count_include_pad") != 0;
      break;
    case CARNOT_OP_MAX_POOL:
      out->column_major = carnot_attr_int(row, &node->attrs, "storage_order") != 0;
      break;
    default:
      out->power = carnot_attr_int(row, &node->attrs, "p");
      CARNOT_CHECK(out->power > 0 && out->power <= INT32_MAX, INVALID_MODEL,
                   "p is %lld; 1 to %d are required", (long long)out->power, INT32_MAX);
      break;
  }
  return NULL;
}

const char* carnot_pool_problem_read(const carnot_problem* problem, carnot_pool_problem* out,
                                     char* reason, size_t size) {
  const carnot_plan_node* node = &problem->region->nodes[0];
  bool pools = node->op == CARNOT_OP_MAX_POOL || node->op == CARNOT_OP_AVERAGE_POOL ||
               node->op == CARNOT_OP_LP_POOL;
  if (!pools || problem->region->node_count != 1) return "";
  int rank = problem->inputs[0].rank;
  if (problem->inputs[0].kind != CARNOT_VALUE_TENSOR || rank < 3) {
    snprintf(reason, size, "an input of rank %d, must be 3 and more", rank);
    return reason;
  }
  carnot_status* status = carnot_pool_problem_of_node(node, rank - 2, out);
  if (!status) return NULL;
  snprintf(reason, size, "%s", carnot_status_message(status));
  carnot_status_free(status);
  return reason;
}
