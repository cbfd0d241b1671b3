// Folds shape computations: a reshape whose target is known as expressions gets a constant target
// (0 for a copied dimension, at most one -1), so that the chain that computed the target is dead.
#include "pass/pass.h"

static bool constant_target(const carnot_node* node, int64_t* target, int* out_rank) {
  const carnot_type* from = &node->inputs[0]->type;
  const carnot_type* to = &node->outputs[0]->type;
  if (from->kind != CARNOT_VALUE_TENSOR || from->rank < 0 || to->rank < 0) return false;
  int open = 0;
  for (int d = 0; d < to->rank; d++) {
    if (carnot_sym_is_const(to->dims[d])) {
      target[d] = to->dims[d].bits;
      if (target[d] == 0) return false;  // 0 means copy
    } else if (d < from->rank && carnot_sym_same(from->dims[d], to->dims[d])) {
      target[d] = 0;
    } else {
      target[d] = -1;
      open++;
    }
  }
  *out_rank = to->rank;
  return open <= 1;
}

static carnot_status* simplify_reshape(carnot_node* node) {
  if (node->inputs[1]->constant) return NULL;
  int64_t target[CARNOT_MAX_RANK];
  int rank;
  if (!constant_target(node, target, &rank)) return NULL;
  carnot_type before = node->outputs[0]->type;
  carnot_value* old = node->inputs[1];
  carnot_attrs old_attrs = node->attrs;
  carnot_node_set_input(node, 1, carnot_graph_ints(node->block, target, rank));
  node->attrs = (carnot_attrs){0};
  CARNOT_TRY(carnot_node_infer(node));
  const carnot_type* after = &node->outputs[0]->type;
  bool same = after->rank == before.rank;
  for (int d = 0; same && d < before.rank; d++)
    same = carnot_sym_same(after->dims[d], before.dims[d]);
  if (same) return NULL;
  node->attrs = old_attrs;
  carnot_node_set_input(node, 1, old);
  return carnot_node_infer(node);
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node* node = block->first; node; node = node->next)
    if (node->op == CARNOT_OP_RESHAPE && node->input_count > 1 && node->inputs[1])
      CARNOT_TRY(simplify_reshape(node));
  return NULL;
}

carnot_status* carnot_pass_fold_shape_computations(carnot_graph* graph,
                                                   const carnot_pass_options* options) {
  (void)options;
  return carnot_each_block(graph->main, visit, NULL);
}
