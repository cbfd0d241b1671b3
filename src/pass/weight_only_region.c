// Collects regions of float activations by integer weights: [dequantize w, transpose, MatMul or
// Gemm]. The weights stay integers where a kernel takes them so.
#include "pass/quantized_region.h"

static bool is_constant(const carnot_node* node, int input) {
  return input >= node->input_count || !node->inputs[input] || node->inputs[input]->constant;
}

// What makes input |input| of |reader|, an operator of the same block.
static carnot_node* producer_of(const carnot_node* reader, int input, carnot_op op) {
  const carnot_value* value = input < reader->input_count ? reader->inputs[input] : NULL;
  carnot_node* from = value ? value->producer : NULL;
  return from && from->op == op && from->block == reader->block ? from : NULL;
}

// The dequantize node of the constant weights of |anchor|, and the transpose between; NULL: none.
static carnot_node* weights_of(const carnot_node* anchor, carnot_node** out_transpose) {
  *out_transpose = NULL;
  if ((anchor->op != CARNOT_OP_MATMUL && anchor->op != CARNOT_OP_GEMM) || anchor->output_count != 1)
    return NULL;
  *out_transpose = producer_of(anchor, 1, CARNOT_OP_TRANSPOSE);
  carnot_node* from = *out_transpose ? producer_of(*out_transpose, 0, CARNOT_OP_DEQUANTIZE_LINEAR)
                                     : producer_of(anchor, 1, CARNOT_OP_DEQUANTIZE_LINEAR);
  if (!from || from->inputs[0]->type.rank != 2) return NULL;
  return is_constant(from, 0) && is_constant(from, 1) && is_constant(from, 2) ? from : NULL;
}

// |node| itself where |reader| alone reads it, else a copy for |reader|.
static carnot_status* own_copy(carnot_node* node, carnot_node* reader, int input,
                               carnot_node** out_node) {
  *out_node = node;
  if (carnot_only_user(node->outputs[0]) == reader) return NULL;
  CARNOT_TRY(carnot_node_insert_before(reader, node->op, node->name, &node->attrs, node->inputs,
                                       node->input_count, 1, out_node));
  (*out_node)->order = node->order;
  (*out_node)->is_unnamed = node->is_unnamed;
  (*out_node)->type_name = node->type_name;
  carnot_node_set_input(reader, input, (*out_node)->outputs[0]);
  return NULL;
}

static void undo_copy(carnot_node* original, carnot_node* copy, carnot_node* reader, int input) {
  if (copy == original) return;
  carnot_node_set_input(reader, input, original->outputs[0]);
  carnot_node_remove(copy);
}

carnot_status* carnot_take_weights(const carnot_pass_options* options, carnot_node* anchor,
                                   carnot_node** nodes, int* out_count) {
  *out_count = 0;
  carnot_node *transpose, *dequantize = weights_of(anchor, &transpose);
  if (!dequantize || !options->accepts) return NULL;
  carnot_node *reader = anchor, *turn = NULL, *own;
  if (transpose) {
    CARNOT_TRY(own_copy(transpose, anchor, 1, &turn));
    reader = turn;
  }
  CARNOT_TRY(own_copy(dequantize, reader, transpose ? 0 : 1, &own));
  int count = 0;
  nodes[count++] = own;
  if (turn) nodes[count++] = turn;
  nodes[count] = anchor;
  if (carnot_pass_accepts(options, nodes, count + 1)) {
    *out_count = count;
    return NULL;
  }
  undo_copy(dequantize, own, reader, transpose ? 0 : 1);
  if (transpose) undo_copy(transpose, turn, anchor, 1);
  return NULL;
}

static bool reads_as_weights(const carnot_node* reader, const carnot_node* dequantize) {
  carnot_node* transpose;
  return weights_of(reader, &transpose) == dequantize;
}

carnot_node* carnot_weights_reader(const carnot_node* dequantize) {
  if (dequantize->op != CARNOT_OP_DEQUANTIZE_LINEAR) return NULL;
  const carnot_value* value = dequantize->outputs[0];
  for (size_t i = 0; i < value->use_count; i++) {
    carnot_node* reader = value->uses[i].node;
    if (reads_as_weights(reader, dequantize)) return reader;
    if (reader->op != CARNOT_OP_TRANSPOSE) continue;
    const carnot_value* turned = reader->outputs[0];
    for (size_t k = 0; k < turned->use_count; k++)
      if (reads_as_weights(turned->uses[k].node, dequantize)) return turned->uses[k].node;
  }
  return NULL;
}
