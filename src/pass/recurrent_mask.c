// Steps of a recurrent layer that a mask leaves out: h = select(mask, h', h).
#include "pass/recurrent_cell.h"

carnot_value* carnot_cell_mask_of(const carnot_loop* loop, const carnot_value* condition) {
  const carnot_node* node = carnot_cell_producer(condition);
  for (int depth = 0; node && node->op != CARNOT_OP_GATHER; depth++) {
    const carnot_value* from = node->inputs[0];
    if (depth == CARNOT_CELL_DEPTH || !carnot_is_ranked(from) || from->type.rank != 2 ||
        !carnot_is_ranked(condition) || condition->type.rank != 2 ||
        !carnot_sym_same(from->type.dims[0], condition->type.dims[0]) ||
        (node->op != CARNOT_OP_TILE && node->op != CARNOT_OP_EXPAND &&
         node->op != CARNOT_OP_IDENTITY))
      return NULL;
    node = carnot_cell_producer(from);
  }
  if (!node || carnot_attr_int(carnot_node_row(node), &node->attrs, "axis") != 0 ||
      !carnot_loop_keeps(loop, node->inputs[0]) || !carnot_is_ranked(node->inputs[0]) ||
      node->inputs[0]->type.rank != 3 || carnot_cell_dim(node->inputs[0], 2) != 1 ||
      node->inputs[0]->type.dtype != CARNOT_DTYPE_BOOL ||
      !carnot_loop_is_iteration(loop, node->inputs[1]))
    return NULL;
  return node->inputs[0];
}

const carnot_node* carnot_cell_select_of(const carnot_value* value, const carnot_value* state) {
  const carnot_node* node = carnot_cell_producer(value);
  return carnot_node_is_fn(node, CARNOT_FN_SELECT) && node->inputs[2] == state ? node : NULL;
}

static bool is_zeros(const carnot_loop* loop, const carnot_value* value) {
  const carnot_node* expand = carnot_cell_producer(value);
  if (expand && expand->op == CARNOT_OP_EXPAND) value = expand->inputs[0];
  if (!value->constant || !value->constant->tensor.data) return false;
  if (loop->refit && (value->constant->name || value->constant->made_by)) return false;
  const carnot_tensor* t = &value->constant->tensor;
  if (!carnot_dtype_is_float(t->dtype)) return false;
  for (int64_t i = 0; i < carnot_tensor_count(t); i++)
    if (carnot_load_f64(t->dtype, t->data, (size_t)i) != 0) return false;
  return true;
}

// Keras carries the last result beside the state: both are zeros at first and change alike.
int carnot_cell_find_repeated(const carnot_loop* loop) {
  const carnot_block* body = loop->body;
  for (int k = 0; k < loop->carried; k++) {
    const carnot_node* own = carnot_cell_select_of(body->outputs[1 + k], body->params[2 + k]);
    if (!own || body->params[2 + k]->use_count != 1 || !is_zeros(loop, loop->node->inputs[2 + k]))
      continue;
    for (int h = 0; h < loop->carried; h++) {
      const carnot_node* other = carnot_cell_select_of(body->outputs[1 + h], body->params[2 + h]);
      if (h != k && other && other->inputs[1] == own->inputs[1] &&
          is_zeros(loop, loop->node->inputs[2 + h]) && carnot_cell_mask_of(loop, own->inputs[0]) &&
          carnot_cell_mask_of(loop, own->inputs[0]) == carnot_cell_mask_of(loop, other->inputs[0]))
        return k;
    }
  }
  return -1;
}

bool carnot_loop_cell_zeroes(const carnot_cell* cell, const carnot_value* result) {
  const carnot_loop* loop = cell->loop;
  const carnot_node *select = carnot_cell_producer(result),
                    *own = carnot_cell_producer(loop->body->outputs[1 + cell->state_h]);
  if (!cell->mask || !carnot_node_is_fn(select, CARNOT_FN_SELECT) ||
      select->inputs[1] != own->inputs[1] ||
      carnot_cell_mask_of(loop, select->inputs[0]) != cell->mask ||
      !carnot_loop_keeps(loop, select->inputs[2]))
    return false;
  const carnot_value* rest = select->inputs[2];
  return is_zeros(loop, rest->constant ? rest : carnot_loop_outer(loop, rest));
}
