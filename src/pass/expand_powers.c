// Powers by the constants 2 and 3 -> products, on the CPU: x^2 = x x, x^3 = (x x) x. After the
// passes that recognise powers.
#include "pass/emit.h"

// 2 or 3; 0 of other nodes.
static int exponent_of(const carnot_node* node) {
  double number;
  if (!carnot_node_is_fn(node, CARNOT_FN_POW) || node->inputs[0]->type.dtype != CARNOT_DTYPE_F32 ||
      !carnot_value_scalar(node->inputs[1], &number) ||
      !carnot_same_dims(&node->inputs[0]->type, &node->outputs[0]->type))
    return 0;
  return number == 2 || number == 3 ? (int)number : 0;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    const int exponent = exponent_of(node);
    if (!exponent) continue;
    carnot_emitter e = {.at = node, .name = node->name};
    carnot_value *x = node->inputs[0], *y = carnot_emit_binary(&e, CARNOT_FN_MUL, x, x);
    if (exponent > 2) y = carnot_emit_binary(&e, CARNOT_FN_MUL, y, x);
    CARNOT_TRY(e.status);
    carnot_value_replace(node->outputs[0], y);
    carnot_node_absorb(y->producer, node);
    carnot_node_remove(node);
  }
  return NULL;
}

carnot_status* carnot_pass_expand_powers(carnot_graph* graph, const carnot_pass_options* options) {
  if (options->refit) return NULL;  // the exponent may change
  return carnot_each_block(graph->main, visit, NULL);
}
