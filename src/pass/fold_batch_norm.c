// Folds batch normalization with constant parameters into the weights of the convolution before it:
//   w' = w * s, b' = (b - mean) * s + shift, with s = scale / sqrt(var + epsilon) per output
//   channel
// and the same written out: a product with a constant by channel, a sum with one. What no
// convolution takes becomes a product and a sum by channel, which other passes fuse. The arithmetic
// is written as nodes over the constants, which constant folding computes; so refit knows how the
// weights were derived.
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

// Replaces |conv| and |reader| by one convolution of these operands.
static carnot_status* replace(carnot_node* conv, carnot_node* reader, carnot_value* weights,
                              carnot_value* bias) {
  carnot_value* inputs[3] = {conv->inputs[0], weights, bias};
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(conv, conv->op, conv->name, &conv->attrs, inputs,
                                       bias ? 3 : 2, 1, &node));
  node->type_name = conv->type_name;
  node->precision = conv->precision;
  carnot_node_absorb(node, conv);
  carnot_node_absorb(node, reader);
  carnot_value_keep_range(node->outputs[0], reader->outputs[0]);
  carnot_value_replace(reader->outputs[0], node->outputs[0]);
  return NULL;
}

// s = scale / sqrt(var + epsilon)
static carnot_value* scale_of(maker* m, const carnot_node* norm) {
  carnot_value* epsilon =
      carnot_graph_float(norm->block, norm->inputs[4]->type.dtype,
                         carnot_attr_float(carnot_node_row(norm), &norm->attrs, "epsilon"));
  return binary(m, CARNOT_FN_DIV, norm->inputs[1],
                root(m, binary(m, CARNOT_FN_ADD, norm->inputs[4], epsilon)));
}

// shift - mean * s
static carnot_value* shift_of(maker* m, const carnot_node* norm, carnot_value* scale) {
  return binary(m, CARNOT_FN_SUB, norm->inputs[2],
                binary(m, CARNOT_FN_MUL, norm->inputs[3], scale));
}

static carnot_status* fold_norm(carnot_node* conv, carnot_node* norm) {
  maker m = {.at = conv};
  carnot_value* scale = scale_of(&m, norm);
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
    bias = shift_of(&m, norm, scale);
  }
  CARNOT_TRY(m.status);
  return replace(conv, norm, weights, bias);
}

// ---- a product and a sum by channel ----

// The constant that |reader| multiplies or adds to |y|, by channel; NULL where it does otherwise.
static carnot_value* by_channel(const carnot_node* reader, const carnot_value* y, carnot_fn fn) {
  if (!carnot_node_is_fn(reader, fn)) return NULL;
  carnot_value* c = reader->inputs[reader->inputs[0] == y];
  if (!c->constant || c->type.dtype != y->type.dtype || reader->inputs[0] == reader->inputs[1] ||
      !carnot_same_dims(&reader->outputs[0]->type, &y->type))
    return NULL;
  const int missing = y->type.rank - c->type.rank;
  for (int d = 0; d < c->type.rank; d++)
    if (d + missing != 1 && !carnot_sym_is(c->type.dims[d], 1)) return NULL;
  // A value of one number is by channel where channels are not.
  return missing <= 1 && carnot_sym_same(c->type.dims[1 - missing], y->type.dims[1]) ? c : NULL;
}

static carnot_value* flat(maker* m, carnot_value* x) {
  if (m->status) return NULL;
  const int64_t all = -1;
  carnot_value* inputs[2] = {x, carnot_graph_ints(m->at->block, &all, 1)};
  carnot_node* node;
  m->status = carnot_node_insert_before(m->at, CARNOT_OP_RESHAPE, NULL, NULL, inputs, 2, 1, &node);
  return m->status ? NULL : node->outputs[0];
}

static carnot_status* fold_product(carnot_node* conv, carnot_node* reader, carnot_value* factor) {
  maker m = {.at = conv};
  carnot_value *bias = conv->input_count > 2 ? conv->inputs[2] : NULL, *scale = flat(&m, factor);
  const int axis = conv->op == CARNOT_OP_CONV_TRANSPOSE ? 1 : 0;
  carnot_value* weights = binary(&m, CARNOT_FN_MUL, conv->inputs[1],
                                 spread(&m, scale, conv->inputs[1]->type.rank, axis));
  if (bias) bias = binary(&m, CARNOT_FN_MUL, bias, scale);
  CARNOT_TRY(m.status);
  return replace(conv, reader, weights, bias);
}

static carnot_status* fold_sum(carnot_node* conv, carnot_node* reader, carnot_value* term) {
  maker m = {.at = conv};
  carnot_value *bias = conv->input_count > 2 ? conv->inputs[2] : NULL, *more = flat(&m, term);
  bias = bias ? binary(&m, CARNOT_FN_ADD, bias, more) : more;
  CARNOT_TRY(m.status);
  return replace(conv, reader, conv->inputs[1], bias);
}

// Folds the one reader of |conv| into it; *out_folded is false where it cannot be.
static carnot_status* fold_reader(carnot_node* conv, carnot_node* reader, bool* out_folded) {
  const carnot_value* y = conv->outputs[0];
  carnot_value* operand;
  *out_folded = true;
  if (is_constant_norm(reader) && reader->inputs[0] == y) return fold_norm(conv, reader);
  if ((operand = by_channel(reader, y, CARNOT_FN_MUL)) != NULL)
    return fold_product(conv, reader, operand);
  if ((operand = by_channel(reader, y, CARNOT_FN_ADD)) != NULL)
    return fold_sum(conv, reader, operand);
  *out_folded = false;
  return NULL;
}

static bool can_fold(const carnot_node* node) {
  if (node->op != CARNOT_OP_CONV && node->op != CARNOT_OP_CONV_TRANSPOSE) return false;
  if (!carnot_value_is_constant(node->inputs[1]) ||
      (node->input_count > 2 && node->inputs[2] && !node->inputs[2]->constant))
    return false;
  return node->op == CARNOT_OP_CONV ||
         carnot_attr_int(carnot_node_row(node), &node->attrs, "group") == 1;
}

// Constants are folded between the rounds, so that a product and the sum behind it both fold.
static carnot_status* visit(carnot_block* block, void* user) {
  bool* changed = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (!can_fold(node)) continue;
    carnot_node* reader = carnot_only_user(node->outputs[0]);
    bool folded;
    CARNOT_TRY(fold_reader(node, reader, &folded));
    if (!folded) continue;
    *changed = true;
    carnot_node_remove(reader);
    next = node->next;
    carnot_node_remove(node);
  }
  return NULL;
}

// y = x * s + (shift - mean * s)
static carnot_status* write_as_affine(carnot_node* norm) {
  maker m = {.at = norm};
  const int rank = norm->inputs[0]->type.rank;
  carnot_value* scale = scale_of(&m, norm);
  carnot_value* shift = shift_of(&m, norm, scale);
  carnot_value* product =
      binary(&m, CARNOT_FN_MUL, norm->inputs[0], spread(&m, scale, rank, /*axis=*/1));
  carnot_value* y = binary(&m, CARNOT_FN_ADD, product, spread(&m, shift, rank, /*axis=*/1));
  CARNOT_TRY(m.status);
  product->producer->precision = y->producer->precision = norm->precision;
  y->producer->name = norm->name;
  y->producer->type_name = norm->type_name;
  carnot_node_absorb(y->producer, norm);
  carnot_value_keep_range(y, norm->outputs[0]);
  carnot_value_replace(norm->outputs[0], y);
  carnot_node_remove(norm);
  return NULL;
}

static carnot_status* visit_rest(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (!is_constant_norm(node)) continue;
    const carnot_type* x = &node->inputs[0]->type;
    if (x->dtype == CARNOT_DTYPE_F32 && x->rank >= 2 && carnot_sym_is_const(x->dims[1]))
      CARNOT_TRY(write_as_affine(node));
  }
  return NULL;
}

carnot_status* carnot_pass_fold_batch_norm(carnot_graph* graph,
                                           const carnot_pass_options* options) {
  enum { kMostRounds = 4 };
  bool changed = true;
  for (int round = 0; changed && round < kMostRounds; round++) {
    changed = false;
    CARNOT_TRY(carnot_each_block(graph->main, visit, &changed));
    CARNOT_TRY(carnot_pass_constant_folding(graph, options));
  }
  CARNOT_TRY(carnot_each_block(graph->main, visit_rest, NULL));
  return carnot_pass_constant_folding(graph, options);
}
