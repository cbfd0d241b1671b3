// Dead code elimination: removes nodes, and optional last outputs, that nothing reads.
#include "pass/pass.h"

static bool is_read(const carnot_node* node) {
  if (carnot_node_row(node)->flags & CARNOT_OP_SIDE_EFFECT) return true;
  for (int i = 0; i < node->output_count; i++)
    if (node->outputs[i] && carnot_value_used(node->outputs[i])) return true;
  return false;
}

static carnot_status* sweep(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->last, *previous; node; node = previous) {
    previous = node->previous;
    if (!is_read(node)) {
      carnot_node_remove(node);
      continue;
    }
    // An optional last output that nobody reads need not be computed.
    const carnot_op_row* row = carnot_node_row(node);
    while (node->output_count > row->min_outputs && node->op != CARNOT_OP_REGION &&
           !(row->flags & CARNOT_OP_CONTROL) && row->max_outputs >= 0 &&
           (!node->outputs[node->output_count - 1] ||
            !carnot_value_used(node->outputs[node->output_count - 1])))
      node->output_count--;
  }
  return NULL;
}

carnot_status* carnot_pass_dce(carnot_graph* graph, const carnot_pass_options* options) {
  (void)options;
  return carnot_each_block(graph->main, sweep, NULL);
}
