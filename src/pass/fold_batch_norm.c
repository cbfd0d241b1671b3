// Folds batch normalization with constant parameters into the weights of the convolution before it:
//   w' = w * s, b' = (b - mean) * s + shift, with s = scale / sqrt(var + epsilon) per output
//   channel
// The arithmetic is written as nodes over the constants, which constant folding computes; so refit
// knows how the weights were derived.
#include "pass/pass.h"

typedef struct maker {
  carnot_node* at;  // new nodes go before it
  carnot_status* status;
} maker;

static carnot_value* binary(maker* m, carnot_fn fn, carnot_value* a, carnot_value* b) {
  if (m->status) return NULL;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &m->at->block->graph->arena, "fn", fn);
  carnot_value* inputs[2] = {a, b};
  carnot_node* node;
  m->status = carnot_node_insert_before(m->at, CARNOT_OP_BINARY, NULL, &attrs, inputs, 2, 1, &node);
  return m->status ? NULL : node->outputs[0];
}

static carnot_value* root(maker* m, carnot_value* x) {
  if (m->status) return NULL;
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &m->at->block->graph->arena, "fn", CARNOT_FN_SQRT);
  carnot_node* node;
  m->status = carnot_node_insert_before(m->at, CARNOT_OP_UNARY, NULL, &attrs, &x, 1, 1, &node);
  return m->status ? NULL : node->outputs[0];
}

// [C] as [C,1,1,…] of |rank| dimensions, or with C at |axis|.
static carnot_value* spread(maker* m, carnot_value* x, int rank, int axis) {
  if (m->status) return NULL;
  int64_t target[CARNOT_MAX_RANK];
  for (int i = 0; i < rank; i++) target[i] = i == axis ? -1 : 1;
  carnot_value* inputs[2] = {x, carnot_graph_ints(m->at->block, target, rank)};
  carnot_node* node;
  m->status = carnot_node_insert_before(m->at, CARNOT_OP_RESHAPE, NULL, NULL, inputs, 2, 1, &node);
  return m->status ? NULL : node->outputs[0];
}

static bool is_constant_norm(const carnot_node* node) {
  if (!node || node->op != CARNOT_OP_BATCH_NORM ||
      carnot_attr_int(carnot_node_row(node), &node->attrs, "training_mode"))
    return false;
  for (int i = 1; i < 5; i++)
    if (!carnot_value_is_constant(node->inputs[i]) ||
        node->inputs[i]->type.dtype != node->inputs[0]->type.dtype)
      return false;
  return true;
}

static carnot_status* fold_norm(carnot_node* conv, carnot_node* norm) {
  maker m = {.at = conv};
  carnot_value* epsilon =
      carnot_graph_float(conv->block, norm->inputs[4]->type.dtype,
                         carnot_attr_float(carnot_node_row(norm), &norm->attrs, "epsilon"));
  carnot_value* scale = binary(&m, CARNOT_FN_DIV, norm->inputs[1],
                               root(&m, binary(&m, CARNOT_FN_ADD, norm->inputs[4], epsilon)));
  // Transposed convolutions have their output channels second.
  int axis = conv->op == CARNOT_OP_CONV_TRANSPOSE ? 1 : 0;
  carnot_value* weights = binary(&m, CARNOT_FN_MUL, conv->inputs[1],
                                 spread(&m, scale, conv->inputs[1]->type.rank, axis));
  bool has_bias = conv->input_count > 2 && conv->inputs[2];
  carnot_value* bias;
  if (has_bias) {
    bias = binary(&m, CARNOT_FN_MUL, binary(&m, CARNOT_FN_SUB, conv->inputs[2], norm->inputs[3]),
                  scale);
    bias = binary(&m, CARNOT_FN_ADD, bias, norm->inputs[2]);
  } else {
    bias = binary(&m, CARNOT_FN_SUB, norm->inputs[2],
                  binary(&m, CARNOT_FN_MUL, norm->inputs[3], scale));
  }
  CARNOT_TRY(m.status);
  carnot_value* inputs[3] = {conv->inputs[0], weights, bias};
  carnot_node* node;
  CARNOT_TRY(
      carnot_node_insert_before(conv, conv->op, conv->name, &conv->attrs, inputs, 3, 1, &node));
  node->type_name = conv->type_name;
  node->precision = conv->precision;
  carnot_node_absorb(node, conv);
  carnot_node_absorb(node, norm);
  carnot_value_replace(norm->outputs[0], node->outputs[0]);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op != CARNOT_OP_CONV && node->op != CARNOT_OP_CONV_TRANSPOSE) continue;
    if (!carnot_value_is_constant(node->inputs[1]) ||
        (node->input_count > 2 && node->inputs[2] && !node->inputs[2]->constant))
      continue;
    if (node->op == CARNOT_OP_CONV_TRANSPOSE &&
        carnot_attr_int(carnot_node_row(node), &node->attrs, "group") != 1)
      continue;
    carnot_node* norm = carnot_only_user(node->outputs[0]);
    if (!is_constant_norm(norm) || norm->inputs[0] != node->outputs[0]) continue;
    CARNOT_TRY(fold_norm(node, norm));
    carnot_node_remove(norm);
    next = node->next;
    carnot_node_remove(node);
  }
  return NULL;
}

carnot_status* carnot_pass_fold_batch_norm(carnot_graph* graph,
                                           const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_constant_folding(graph, options);
}
