// Writes masks of attention as terms, which attention kernels take:
//   softmax(select(m, s, c))  ->  softmax(s + select(m, 0, c)),  s = scale * q k^T
// where c is so low that c + s is c for every score, and |m| is smaller than the scores.
// And moves a bias of heads to its projection, where other passes look for it:
//   reshape(x w) + b  ->  reshape(x w + reshape(b)), where the reshape splits the last dimension
// And joins the two terms of shifted windows, of which one is added to scores grouped by image:
//   softmax(reshape(reshape(s + b) + m))  ->  softmax(s + (b + reshape(m))),  b and m constant
// And multiplies queries by what scores of a head are multiplied by, as cosine attention is
// written:
//   (q k^T) * c  ->  (q * c) k^T,  c a constant of one number a head
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

// How many images' windows |node| groups, by a dimension in front; 0 for another reshape.
static int64_t grouped_images(const carnot_node* node) {
  const carnot_type *x = &node->inputs[0]->type, *y = &node->outputs[0]->type;
  if (!carnot_is_ranked(node->inputs[0]) || y->rank != x->rank + 1 || x->rank < 1) return 0;
  for (int d = 1; d < x->rank; d++)
    if (!carnot_sym_same(x->dims[d], y->dims[d + 1])) return 0;
  if (carnot_sym_is(y->dims[0], 1)) return carnot_sym_same(x->dims[0], y->dims[1]);
  const bool known = carnot_sym_is_const(x->dims[0]) && carnot_sym_is_const(y->dims[0]) &&
                     carnot_sym_is_const(y->dims[1]);
  return known && x->dims[0].bits == y->dims[0].bits * y->dims[1].bits ? y->dims[0].bits : 0;
}

// The mask [1, windows, ..] of one image as [images * windows, ..].
static carnot_value* for_images(carnot_emitter* e, carnot_value* mask, int64_t images) {
  if (images == 1) return carnot_emit_squeeze(e, mask, 0);
  int64_t dims[CARNOT_MAX_RANK + 1];
  const int rank = mask->type.rank;
  for (int d = 0; d < rank; d++) dims[d] = mask->type.dims[d].bits;
  dims[0] = images;
  carnot_value* parts[2] = {mask, carnot_emit_ints(e, dims, rank)};
  carnot_value* all = carnot_emit(e, CARNOT_OP_EXPAND, NULL, parts, 2);
  dims[1] *= images;
  return carnot_emit_reshape(e, all, dims + 1, rank - 1);
}

// Elements of both terms of all images, which become one constant.
enum { kMostOfMask = 1 << 22 };
static bool is_moderate(const carnot_value* scores) {
  int64_t count = 1;
  for (int d = 0; d < scores->type.rank; d++) {
    if (!carnot_sym_is_const(scores->type.dims[d])) return false;
    count *= carnot_max_i64(1, scores->type.dims[d].bits);
    if (count > kMostOfMask) return false;
  }
  return true;
}

static bool is_one_image(const carnot_value* mask, int rank) {
  return mask->constant && mask->type.rank == rank && carnot_sym_is(mask->type.dims[0], 1);
}

static carnot_status* join_masks(carnot_node* add, int at, const carnot_pass_options* options) {
  carnot_node* reshape = add->inputs[at]->producer;
  if (!reshape || reshape->op != CARNOT_OP_RESHAPE) return NULL;
  const int64_t images = grouped_images(reshape);
  if (reshape->block != add->block || carnot_only_user(reshape->outputs[0]) != add || !images ||
      (images > 1 && (!options->device || !is_moderate(reshape->inputs[0]))) ||
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
  carnot_value* mask = for_images(&e, add->inputs[1 - at], images);
  carnot_value* terms = carnot_emit_binary(&e, CARNOT_FN_ADD, first->inputs[bias], mask);
  e.name = add->name;
  carnot_value* y = carnot_emit_binary(&e, CARNOT_FN_ADD, first->inputs[1 - bias], terms);
  if (!y) return e.status;
  carnot_value_replace(last->outputs[0], y);
  return NULL;
}

// ---- scales of heads ----

// One number for each head, or more, but not for rows and columns of the scores.
static bool is_of_matrices(const carnot_value* scale, int rank) {
  const carnot_type* t = &scale->type;
  double number;
  return scale->constant && carnot_is_ranked(scale) && t->rank > 2 && t->rank <= rank &&
         carnot_sym_is(t->dims[t->rank - 1], 1) && carnot_sym_is(t->dims[t->rank - 2], 1) &&
         !carnot_value_scalar(scale, &number);
}

static carnot_status* move_scale(carnot_node* mul, int at) {
  carnot_node *product = mul->inputs[at]->producer, *reader = carnot_only_user(mul->outputs[0]);
  carnot_value* scale = mul->inputs[1 - at];
  if (!product || product->op != CARNOT_OP_MATMUL || product->block != mul->block ||
      carnot_only_user(product->outputs[0]) != mul || product->inputs[0]->constant ||
      product->inputs[1]->constant || !reader ||
      !(reader->op == CARNOT_OP_SOFTMAX || carnot_node_is_fn(reader, CARNOT_FN_ADD)))
    return NULL;
  const carnot_type *q = &product->inputs[0]->type, *y = &product->outputs[0]->type;
  if (!carnot_is_ranked(product->inputs[0]) || !is_of_matrices(scale, y->rank) ||
      q->rank != y->rank || !carnot_same_dims(y, &mul->outputs[0]->type))
    return NULL;
  for (int d = 0; d + 2 < y->rank; d++)
    if (!carnot_sym_same(q->dims[d], y->dims[d])) return NULL;
  carnot_emitter e = {.at = product};
  e.name = mul->name;
  carnot_value* scaled = carnot_emit_binary(&e, CARNOT_FN_MUL, product->inputs[0], scale);
  if (!scaled) return e.status;
  carnot_node_set_input(product, 0, scaled);
  carnot_value_replace(mul->outputs[0], product->outputs[0]);
  carnot_node_remove(mul);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (carnot_node_is_fn(node, CARNOT_FN_SELECT)) {
      CARNOT_TRY(write_mask(node, user));
    } else if (carnot_node_is_fn(node, CARNOT_FN_ADD)) {
      const int at = node->inputs[0]->constant ? 1 : 0;
      CARNOT_TRY(join_masks(node, at, user));
      CARNOT_TRY(move_bias(node, at));
    } else if (carnot_node_is_fn(node, CARNOT_FN_MUL)) {
      CARNOT_TRY(move_scale(node, node->inputs[0]->constant ? 1 : 0));
    }
  }
  return NULL;
}

carnot_status* carnot_pass_simplify_attention(carnot_graph* graph,
                                              const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, (void*)(uintptr_t)options));
  return carnot_pass_dce(graph, options);
}
