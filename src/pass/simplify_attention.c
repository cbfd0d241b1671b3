// Writes masks of attention as terms, which attention kernels take:
//   softmax(select(m, s, c))  ->  softmax(s + select(m, 0, c)),  s = scale * q k^T
// where c is so low that c + s is c for every score, and |m| is smaller than the scores.
// And moves a bias of heads to its projection, where other passes look for it:
//   reshape(x w) + b  ->  reshape(x w + reshape(b)), where the reshape splits the last dimension
// And joins the two terms of shifted windows, of which one is added to scores grouped by image:
//   softmax(reshape(reshape(s + b) + m))  ->  softmax(s + (b + reshape(m))),  b and m constant
#include "pass/emit.h"

// c + s rounds to c for |s| below 1e20 in FP32 and wider.
static const double kLowest = -1e30;

static bool is_product(const carnot_value* value) {
  const carnot_node* node = value->producer;
  if (carnot_node_is_fn(node, CARNOT_FN_MUL) || carnot_node_is_fn(node, CARNOT_FN_DIV))
    node = node->inputs[node->inputs[0]->constant ? 1 : 0]->producer;
  return node && node->op == CARNOT_OP_MATMUL && carnot_only_user(value);
}

// One number for each key, fewer than there are scores.
static bool is_small(const carnot_value* mask, const carnot_value* scores) {
  const int rank = mask->type.rank, full = scores->type.rank;
  bool fewer = rank < full;
  if (!carnot_is_ranked(mask) || rank < 1 || rank > full) return false;
  for (int d = 1; d <= rank; d++) {
    const carnot_sym size = mask->type.dims[rank - d];
    const bool same = carnot_sym_same(size, scores->type.dims[full - d]);
    if (!same && (d == 1 || !carnot_sym_is(size, 1))) return false;
    fewer |= !same;
  }
  return fewer;
}

static carnot_status* write_mask(carnot_node* node, const carnot_pass_options* options) {
  carnot_node* reader = carnot_only_user(node->outputs[0]);
  const carnot_value *mask = node->inputs[0], *scores = node->inputs[1];
  double low;
  if (!reader || reader->op != CARNOT_OP_SOFTMAX || !carnot_is_ranked(scores) ||
      !carnot_same_dims(&scores->type, &node->outputs[0]->type) || !is_product(scores) ||
      scores->type.dtype != CARNOT_DTYPE_F32 || !carnot_value_scalar(node->inputs[2], &low) ||
      low > kLowest || !is_small(mask, scores))
    return NULL;
  const carnot_constant* constant = node->inputs[2]->constant;
  if (options->refit && (constant->name || constant->made_by)) return NULL;
  carnot_emitter e = {.at = node};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &node->block->graph->arena, "fn", CARNOT_FN_SELECT);
  carnot_value* parts[3] = {node->inputs[0], carnot_graph_float(node->block, scores->type.dtype, 0),
                            node->inputs[2]};
  carnot_value* term = carnot_emit(&e, CARNOT_OP_TERNARY, &attrs, parts, 3);
  e.name = node->name;
  carnot_value* y = carnot_emit_binary(&e, CARNOT_FN_ADD, node->inputs[1], term);
  if (!y) return e.status;
  carnot_value_replace(node->outputs[0], y);
  carnot_node_remove(node);
  return NULL;
}

// ---- biases of heads ----

// |node| splits the last dimension of its input into several.
static bool splits_last(const carnot_node* node) {
  const carnot_type *x = &node->inputs[0]->type, *y = &node->outputs[0]->type;
  if (!carnot_is_ranked(node->inputs[0]) || x->rank < 2 || y->rank <= x->rank) return false;
  for (int d = 0; d + 1 < x->rank; d++)
    if (!carnot_sym_same(x->dims[d], y->dims[d])) return false;
  return carnot_sym_is_const(x->dims[x->rank - 1]);
}

// |bias| is a constant with one number for each element of the dimensions from |first| on.
static bool is_of_heads(const carnot_value* bias, const carnot_type* y, int first) {
  if (!bias->constant || bias->type.rank != y->rank - first) return false;
  for (int d = first; d < y->rank; d++)
    if (!carnot_sym_same(bias->type.dims[d - first], y->dims[d])) return false;
  return true;
}

static carnot_status* move_bias(carnot_node* add, int at) {
  static const int64_t kFlat[] = {-1};
  carnot_node* reshape = add->inputs[at]->producer;
  if (!reshape || reshape->op != CARNOT_OP_RESHAPE || reshape->block != add->block ||
      carnot_only_user(reshape->outputs[0]) != add || !splits_last(reshape))
    return NULL;
  carnot_value *product = reshape->inputs[0], *bias = add->inputs[1 - at];
  if (!product->producer || product->producer->op != CARNOT_OP_MATMUL ||
      carnot_only_user(product) != reshape ||
      !is_of_heads(bias, &reshape->outputs[0]->type, product->type.rank - 1))
    return NULL;
  carnot_emitter e = {.at = add};
  carnot_value* flat = carnot_emit_reshape(&e, bias, kFlat, 1);
  e.name = add->name;
  carnot_value* sum = carnot_emit_binary(&e, CARNOT_FN_ADD, product, flat);
  carnot_value* inputs[2] = {sum, reshape->inputs[1]};
  e.name = reshape->name;
  carnot_value* y = carnot_emit(&e, CARNOT_OP_RESHAPE, &reshape->attrs, inputs, 2);
  if (!y) return e.status;
  carnot_value_replace(add->outputs[0], y);
  carnot_node_remove(add);
  return NULL;
}

// ---- shifted windows ----

// |node| puts a dimension of 1 in front: all windows are of one image.
static bool groups_one_image(const carnot_node* node) {
  const carnot_type *x = &node->inputs[0]->type, *y = &node->outputs[0]->type;
  if (!carnot_is_ranked(node->inputs[0]) || y->rank != x->rank + 1 || !carnot_sym_is(y->dims[0], 1))
    return false;
  for (int d = 0; d < x->rank; d++)
    if (!carnot_sym_same(x->dims[d], y->dims[d + 1])) return false;
  return true;
}

static bool is_one_image(const carnot_value* mask, int rank) {
  return mask->constant && mask->type.rank == rank && carnot_sym_is(mask->type.dims[0], 1);
}

static carnot_status* join_masks(carnot_node* add, int at) {
  carnot_node* reshape = add->inputs[at]->producer;
  if (!reshape || reshape->op != CARNOT_OP_RESHAPE || reshape->block != add->block ||
      carnot_only_user(reshape->outputs[0]) != add || !groups_one_image(reshape) ||
      !is_one_image(add->inputs[1 - at], reshape->outputs[0]->type.rank) ||
      !carnot_same_dims(&add->outputs[0]->type, &reshape->outputs[0]->type))
    return NULL;
  carnot_node* first = reshape->inputs[0]->producer;
  if (!first || !carnot_node_is_fn(first, CARNOT_FN_ADD) || first->block != add->block ||
      carnot_only_user(first->outputs[0]) != reshape)
    return NULL;
  carnot_node* last = carnot_only_user(add->outputs[0]);
  const int bias = first->inputs[0]->constant ? 0 : 1;
  if (!last || last->op != CARNOT_OP_RESHAPE || !first->inputs[bias]->constant ||
      !carnot_same_dims(&last->outputs[0]->type, &first->outputs[0]->type) ||
      !carnot_same_dims(&first->inputs[1 - bias]->type, &first->outputs[0]->type))
    return NULL;
  carnot_emitter e = {.at = add};
  carnot_value* mask = carnot_emit_squeeze(&e, add->inputs[1 - at], 0);
  carnot_value* terms = carnot_emit_binary(&e, CARNOT_FN_ADD, first->inputs[bias], mask);
  e.name = add->name;
  carnot_value* y = carnot_emit_binary(&e, CARNOT_FN_ADD, first->inputs[1 - bias], terms);
  if (!y) return e.status;
  carnot_value_replace(last->outputs[0], y);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (carnot_node_is_fn(node, CARNOT_FN_SELECT)) {
      CARNOT_TRY(write_mask(node, user));
    } else if (carnot_node_is_fn(node, CARNOT_FN_ADD)) {
      const int at = node->inputs[0]->constant ? 1 : 0;
      CARNOT_TRY(join_masks(node, at));
      CARNOT_TRY(move_bias(node, at));
    }
  }
  return NULL;
}

carnot_status* carnot_pass_simplify_attention(carnot_graph* graph,
                                              const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, (void*)(uintptr_t)options));
  return carnot_pass_dce(graph, options);
}
