// Collects regions of float activations by integer weights: [dequantize w, transpose, cast, MatMul
// or Gemm]. The weights stay integers where a kernel takes them so.
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

enum { kMostWeightNodes = 3 };

// The nodes that make the constant weights of |anchor| from integers, the last one first: a cast to
// half precision, a transpose, the dequantize node. Their count; 0: none.
static int weights_of(const carnot_node* anchor, carnot_node* nodes[kMostWeightNodes]) {
  static const carnot_op kBetween[] = {CARNOT_OP_CAST, CARNOT_OP_TRANSPOSE};
  if ((anchor->op != CARNOT_OP_MATMUL && anchor->op != CARNOT_OP_GEMM) || anchor->output_count != 1)
    return 0;
  const carnot_node* reader = anchor;
  int count = 0;
  for (int i = 0; i < kMostWeightNodes - 1; i++) {
    carnot_node* node = producer_of(reader, reader == anchor, kBetween[i]);
    if (node) reader = nodes[count++] = node;
  }
  carnot_node* from = producer_of(reader, reader == anchor, CARNOT_OP_DEQUANTIZE_LINEAR);
  if (!from || from->inputs[0]->type.rank != 2) return 0;
  nodes[count++] = from;
  return is_constant(from, 0) && is_constant(from, 1) && is_constant(from, 2) ? count : 0;
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
  carnot_node *shared[kMostWeightNodes], *own[kMostWeightNodes];
  const int count = weights_of(anchor, shared);
  if (!count || !options->accepts) return NULL;
  for (int i = 0; i < count; i++) {
    CARNOT_TRY(own_copy(shared[i], i ? own[i - 1] : anchor, !i, &own[i]));
    nodes[count - 1 - i] = own[i];
  }
  nodes[count] = anchor;
  if (carnot_pass_accepts(options, nodes, count + 1)) {
    *out_count = count;
    return NULL;
  }
  for (int i = count - 1; i >= 0; i--) undo_copy(shared[i], own[i], i ? own[i - 1] : anchor, !i);
  return NULL;
}

// A reader of |value|, which |dequantize| makes, possibly through |depth| nodes between.
static carnot_node* reader_through(const carnot_value* value, const carnot_node* dequantize,
                                   int depth) {
  for (size_t i = 0; i < value->use_count; i++) {
    carnot_node *reader = value->uses[i].node, *nodes[kMostWeightNodes];
    const int count = weights_of(reader, nodes);
    if (count && nodes[count - 1] == dequantize) return reader;
    if (!depth || (reader->op != CARNOT_OP_TRANSPOSE && reader->op != CARNOT_OP_CAST)) continue;
    carnot_node* behind = reader_through(reader->outputs[0], dequantize, depth - 1);
    if (behind) return behind;
  }
  return NULL;
}

carnot_node* carnot_weights_reader(const carnot_node* dequantize) {
  return dequantize->op == CARNOT_OP_DEQUANTIZE_LINEAR
             ? reader_through(dequantize->outputs[0], dequantize, kMostWeightNodes - 1)
             : NULL;
}
