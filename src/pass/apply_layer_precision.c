// Applies requested layer precisions: a layer that shall compute in FP16 or BF16 reads operands
// rounded to it and gives rounded results; the arithmetic between is FP32, as in half-precision
// instructions of the hardware.
//
// Runs after pattern fusion, so that norms and attention stay whole (they accumulate in FP32), and
// before regions are formed, which fuse the rounding.
#include "pass/pass.h"

static bool is_rounded(const carnot_value* value, carnot_fn round, carnot_dtype to) {
  const carnot_node* node = value->producer;
  if (!node) return false;
  return carnot_node_is_fn(node, round) ||
         (node->op == CARNOT_OP_CAST && node->inputs[0]->type.dtype == to);
}

static bool is_float32(const carnot_value* value) {
  return value && value->type.kind == CARNOT_VALUE_TENSOR && value->type.dtype == CARNOT_DTYPE_F32;
}

static carnot_fn rounding_to(carnot_dtype dtype) {
  return dtype == CARNOT_DTYPE_F16 ? CARNOT_FN_ROUND_F16 : CARNOT_FN_ROUND_BF16;
}

// |value| rounded, before |at| (NULL: at the end of the block).
static carnot_status* add_rounding(carnot_block* block, carnot_node* at, carnot_value* value,
                                   carnot_dtype to, carnot_node** out) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &block->graph->arena, "fn", rounding_to(to));
  if (at) return carnot_node_insert_before(at, CARNOT_OP_UNARY, NULL, &attrs, &value, 1, 1, out);
  return carnot_block_add_node(block, CARNOT_OP_UNARY, NULL, &attrs, &value, 1, NULL, 1, out);
}

// Control flow holds nodes that have precisions of their own.
static bool computes(const carnot_node* node) {
  const carnot_op_row* row = carnot_node_row(node);
  return !(row->traits & CARNOT_TRAIT_IGNORES_PRECISION) && !(row->flags & CARNOT_OP_CONTROL);
}

// A rounding of |value| that an earlier reader asked for; nodes are visited in order.
static carnot_node* rounded_before(const carnot_node* node, const carnot_value* value,
                                   carnot_fn round) {
  for (size_t i = 0; i < value->use_count; i++) {
    carnot_node* user = value->uses[i].node;
    if (user->block == node->block && carnot_node_is_fn(user, round)) return user;
  }
  return NULL;
}

static carnot_status* round_input(carnot_node* node, int input, carnot_dtype to) {
  carnot_value* value = node->inputs[input];
  if (!is_float32(value) || is_rounded(value, rounding_to(to), to)) return NULL;
  carnot_node* round = rounded_before(node, value, rounding_to(to));
  if (!round) CARNOT_TRY(add_rounding(node->block, node, value, to, &round));
  carnot_node_set_input(node, input, round->outputs[0]);
  return NULL;
}

static carnot_status* round_output(carnot_node* node, carnot_value* value, carnot_dtype to) {
  carnot_node* round;
  CARNOT_TRY(add_rounding(node->block, node->next, value, to, &round));
  carnot_value_replace(value, round->outputs[0]);
  carnot_node_set_input(round, 0, value);
  round->precision = node->precision;
  round->name = node->name;  // a layer as the user knows it ends with its rounding
  return NULL;
}

static carnot_status* apply(carnot_node* node) {
  carnot_dtype wanted = node->precision;
  for (int i = 0; i < node->input_count && carnot_dtype_is_half(wanted); i++)
    CARNOT_TRY(round_input(node, i, wanted));
  for (int i = 0; i < node->output_count; i++) {
    carnot_value* value = node->outputs[i];
    if (!is_float32(value)) continue;
    carnot_dtype to = value->forced_dtype ? value->forced_dtype : wanted;
    if (carnot_dtype_is_half(to)) CARNOT_TRY(round_output(node, value, to));
  }
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;  // rounding is inserted before it
    if (computes(node)) CARNOT_TRY(apply(node));
  }
  return NULL;
}

carnot_status* carnot_pass_apply_layer_precision(carnot_graph* graph,
                                                 const carnot_pass_options* options) {
  (void)options;
  return carnot_each_block(graph->main, visit, NULL);
}
