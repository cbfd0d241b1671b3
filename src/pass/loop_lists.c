// Lists and tensors that a loop fills with one element an iteration, and readers of lists.
//   list' = insert(list, item, i), or as TensorFlow's importer writes "set element i":
//   list' = insert(if i < length(list) then erase(list, i) else list, item, i)
//   tensor' = concat(tensor, item) along dimension 0, which copies all items so far
#include "pass/loop_lists.h"

static bool is_erase(const carnot_attr* branch) {
  const carnot_node* node = branch->block->first;
  return branch->block->param_count == 2 && branch->block->output_count == 1 && node &&
         !node->next && node->op == CARNOT_OP_SEQUENCE_ERASE && node->input_count == 2 &&
         node->inputs[0] == branch->block->params[0] &&
         node->inputs[1] == branch->block->params[1] &&
         branch->block->outputs[0] == node->outputs[0];
}

static bool is_identity(const carnot_attr* branch) {
  return branch->block->param_count == 1 && branch->block->output_count == 1 &&
         branch->block->outputs[0] == branch->block->params[0];
}

// |node| is: if index < length(list) then erase(list, index) else list.
static bool is_without(const carnot_node* node, const carnot_value* list,
                       const carnot_value* index) {
  if (!node || node->op != CARNOT_OP_IF || node->input_count != 4) return false;
  const carnot_attr *then_branch = carnot_attrs_find(&node->attrs, "then_branch"),
                    *else_branch = carnot_attrs_find(&node->attrs, "else_branch");
  const carnot_node *less = node->inputs[0]->producer, *length;
  if (!is_erase(then_branch) || !is_identity(else_branch) ||
      !carnot_node_is_fn(less, CARNOT_FN_LESS))
    return false;
  length = less->inputs[1]->producer;
  return node->inputs[1] == list && node->inputs[2] == index && node->inputs[3] == list &&
         less->inputs[0] == index && length && length->op == CARNOT_OP_SEQUENCE_LENGTH &&
         length->inputs[0] == list && carnot_only_user(length->outputs[0]) == less &&
         carnot_only_user(less->outputs[0]) == node;
}

// Dimensions that are those of a value around the loop, hence the same in every iteration.
static bool is_steady(const carnot_loop* loop, const carnot_value* item) {
  if (!carnot_is_ranked(item) || item->type.rank >= CARNOT_MAX_RANK) return false;
  for (int d = 0; d < item->type.rank; d++) {
    bool found = carnot_sym_is_const(item->type.dims[d]);
    for (int i = 0; i < loop->node->input_count && !found; i++) {
      const carnot_value* input = loop->node->inputs[i];
      for (int k = 0; input && carnot_is_ranked(input) && k < input->type.rank && !found; k++)
        found = carnot_sym_same(input->type.dims[k], item->type.dims[d]);
    }
    if (!found) return false;
  }
  return true;
}

static bool is_stack(const carnot_node* node) {
  const carnot_op_row* row = carnot_node_row(node);
  return node->op == CARNOT_OP_CONCAT_FROM_SEQUENCE &&
         carnot_attr_int(row, &node->attrs, "axis") == 0 &&
         carnot_attr_int(row, &node->attrs, "new_axis") == 1;
}

static bool has_known_readers(const carnot_value* list) {
  for (size_t i = 0; i < list->use_count; i++) {
    const carnot_node* node = list->uses[i].node;
    if (!is_stack(node) && node->op != CARNOT_OP_SEQUENCE_LENGTH &&
        node->op != CARNOT_OP_SEQUENCE_AT)
      return false;
  }
  return !list->block_output_count;
}

static bool is_joined(const carnot_value* first, const carnot_value* tensor,
                      const carnot_value* next) {
  const carnot_node* concat = next->producer;
  if (!concat || concat->op != CARNOT_OP_CONCAT || concat->input_count != 2 ||
      concat->inputs[0] != tensor || tensor->use_count != 1 || tensor->block_output_count ||
      next->use_count || next->block_output_count != 1 || !carnot_is_ranked(next) ||
      !carnot_is_ranked(first) || first->type.rank != next->type.rank ||
      !carnot_is_ranked(concat->inputs[1]) || !carnot_sym_is(concat->inputs[1]->type.dims[0], 1))
    return false;
  const int64_t axis = carnot_attr_int(carnot_node_row(concat), &concat->attrs, "axis");
  for (int d = 1; d < next->type.rank; d++)
    if (!carnot_sym_is_const(next->type.dims[d]) || next->type.dims[d].bits < 1 ||
        !carnot_sym_same(first->type.dims[d], next->type.dims[d]))
      return false;
  return axis == 0 || axis == -next->type.rank;
}

carnot_loop_list carnot_loop_list_of(const carnot_loop* loop, int k, carnot_value** out_item) {
  const carnot_value *list = loop->body->params[2 + k], *next = loop->body->outputs[1 + k],
                     *first = loop->node->inputs[2 + k];
  const carnot_node* insert = next->producer;
  double zero;
  if (is_joined(first, list, next)) {
    *out_item = insert->inputs[1];
    return CARNOT_LIST_JOINS;
  }
  if (list->type.kind != CARNOT_VALUE_SEQUENCE || !first->producer ||
      first->producer->op != CARNOT_OP_SEQUENCE_EMPTY || !insert ||
      insert->op != CARNOT_OP_SEQUENCE_INSERT || next->use_count || next->block_output_count != 1 ||
      list->block_output_count || !has_known_readers(loop->node->outputs[k]) ||
      !is_steady(loop, insert->inputs[1]))
    return CARNOT_LIST_OTHER;
  *out_item = insert->inputs[1];
  const carnot_value* index = insert->input_count > 2 ? insert->inputs[2] : NULL;
  if (insert->inputs[0] == list)
    return list->use_count == 1 && (!index || carnot_loop_is_iteration(loop, index))
               ? CARNOT_LIST_GROWS
               : CARNOT_LIST_OTHER;
  if (!index || !is_without(insert->inputs[0]->producer, list, index) || list->use_count != 3 ||
      carnot_only_user(insert->inputs[0]) != insert)
    return CARNOT_LIST_OTHER;
  if (carnot_loop_is_iteration(loop, index)) return CARNOT_LIST_GROWS;
  return carnot_value_scalar(index, &zero) && zero == 0 ? CARNOT_LIST_LAST : CARNOT_LIST_OTHER;
}

void carnot_loop_list_replace(carnot_emitter* e, carnot_value* list, carnot_value* stacked) {
  while (list->use_count && !e->status) {
    carnot_node* reader = list->uses[list->use_count - 1].node;
    carnot_value* y = stacked;
    e->at = reader;
    if (reader->op == CARNOT_OP_SEQUENCE_AT) {
      carnot_attrs attrs = {0};
      carnot_value* inputs[2] = {stacked, reader->inputs[1]};
      y = carnot_emit(e, CARNOT_OP_GATHER, &attrs, inputs, 2);
    } else if (reader->op == CARNOT_OP_SEQUENCE_LENGTH) {
      carnot_attrs attrs = {0};
      carnot_attrs_set_int(&attrs, &list->block->graph->arena, "end", 1);
      y = carnot_emit(e, CARNOT_OP_SHAPE, &attrs, &stacked, 1);
      y = y ? carnot_emit_reshape(e, y, NULL, 0) : NULL;
    }
    if (!y) return;
    carnot_value_replace(reader->outputs[0], y);
    carnot_node_remove(reader);
  }
}
