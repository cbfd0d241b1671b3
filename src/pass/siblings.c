// Projections of one value into heads (queries, keys, values) as one product: x W + b, reshaped to
// [.., heads, size], for several W of constant weights becomes x [W..] + [b..], reshaped to all
// heads, and a slice for each. Attention reads the slices where they stand.
#include "pass/pass.h"

enum { kMaxSiblings = 8 };

typedef struct projection {
  carnot_node *product, *add, *reshape;
  carnot_value* bias;
  int64_t heads, size;
} projection;

static bool is_const_dim(const carnot_value* value, int d, int64_t* out) {
  carnot_sym dim = value->type.dims[d];
  *out = carnot_sym_is_const(dim) ? dim.bits : -1;
  return *out > 0;
}

static bool is_plain(const carnot_node* product) {
  const carnot_op_row* row = carnot_node_row(product);
  return !carnot_attr_int(row, &product->attrs, "transA") &&
         !carnot_attr_int(row, &product->attrs, "transB") &&
         carnot_attr_float(row, &product->attrs, "alpha") == 1;
}

static bool read_projection(carnot_node* product, projection* out) {
  const carnot_value *x = product->inputs[0], *w = product->inputs[1];
  *out = (projection){.product = product};
  if (product->op != CARNOT_OP_MATMUL || !is_plain(product) || x->type.rank != 3 || !w->constant ||
      w->type.rank != 2)
    return false;
  out->add = carnot_only_user(product->outputs[0]);
  if (!carnot_node_is_fn(out->add, CARNOT_FN_ADD)) return false;
  out->bias = out->add->inputs[out->add->inputs[0] == product->outputs[0] ? 1 : 0];
  out->reshape = carnot_only_user(out->add->outputs[0]);
  if (!out->bias->constant || out->bias->type.rank != 1 || !out->reshape ||
      out->reshape->op != CARNOT_OP_RESHAPE || out->reshape->block != product->block ||
      out->reshape->outputs[0]->type.rank != 4)
    return false;
  const carnot_value* y = out->reshape->outputs[0];
  int64_t columns, biases;
  return is_const_dim(y, 2, &out->heads) && is_const_dim(y, 3, &out->size) &&
         is_const_dim(w, 1, &columns) && is_const_dim(out->bias, 0, &biases) && columns == biases &&
         columns == out->heads * out->size && carnot_sym_same(y->type.dims[0], x->type.dims[0]) &&
         carnot_sym_same(y->type.dims[1], x->type.dims[1]);
}

static carnot_status* concat(carnot_node* at, carnot_value** parts, int count, int64_t axis,
                             carnot_value** out) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, &at->block->graph->arena, "axis", axis);
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_CONCAT, NULL, &attrs, parts, count, 1, &node));
  *out = node->outputs[0];
  return NULL;
}

static carnot_status* slice(carnot_node* at, carnot_value* all, int64_t first, int64_t last,
                            carnot_value** out) {
  const int64_t axis = 2;
  carnot_value* inputs[] = {all, carnot_graph_ints(at->block, &first, 1),
                            carnot_graph_ints(at->block, &last, 1),
                            carnot_graph_ints(at->block, &axis, 1)};
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_SLICE, NULL, NULL, inputs, 4, 1, &node));
  *out = node->outputs[0];
  return NULL;
}

static carnot_status* join(const projection* all, int count) {
  carnot_node* at = all[0].product;
  carnot_value *weights[kMaxSiblings], *biases[kMaxSiblings];
  int64_t heads = 0;
  for (int i = 0; i < count; i++) {
    weights[i] = all[i].product->inputs[1];
    biases[i] = all[i].bias;
    heads += all[i].heads;
  }
  carnot_value* inputs[2] = {at->inputs[0], NULL};
  CARNOT_TRY(concat(at, weights, count, 1, &inputs[1]));
  carnot_node* node;
  CARNOT_TRY(
      carnot_node_insert_before(at, CARNOT_OP_MATMUL, at->name, &at->attrs, inputs, 2, 1, &node));
  node->precision = at->precision;
  for (int i = 1; i < count; i++) carnot_node_absorb(node, all[i].product);
  inputs[0] = node->outputs[0];
  CARNOT_TRY(concat(at, biases, count, 0, &inputs[1]));
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_BINARY, all[0].add->name, &all[0].add->attrs,
                                       inputs, 2, 1, &node));
  for (int i = 1; i < count; i++) carnot_node_absorb(node, all[i].add);
  const int64_t dims[4] = {0, 0, heads, all[0].size};
  inputs[0] = node->outputs[0];
  inputs[1] = carnot_graph_ints(at->block, dims, 4);
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_RESHAPE, NULL, NULL, inputs, 2, 1, &node));
  int64_t first = 0;
  for (int i = 0; i < count; i++) {
    carnot_value* part;
    CARNOT_TRY(slice(at, node->outputs[0], first, first + all[i].heads, &part));
    first += all[i].heads;
    carnot_value_replace(all[i].reshape->outputs[0], part);
  }
  for (int i = 0; i < count; i++) {
    carnot_node_remove(all[i].reshape);
    carnot_node_remove(all[i].add);
    carnot_node_remove(all[i].product);
  }
  return NULL;
}

static bool is_half(const carnot_value* value) {
  return value->type.kind == CARNOT_VALUE_TENSOR &&
         (value->type.dtype == CARNOT_DTYPE_F16 || value->type.dtype == CARNOT_DTYPE_BF16);
}

static carnot_status* join_readers(const carnot_value* x) {
  projection all[kMaxSiblings];
  int count = 0;
  for (size_t i = 0; i < x->use_count && count < kMaxSiblings; i++) {
    projection p;
    if (x->uses[i].input != 0 || x->uses[i].node->block != x->block ||
        !read_projection(x->uses[i].node, &p))
      continue;
    // In the order of the block, the first one holds the place.
    if (count && (p.size != all[0].size || p.product->precision != all[0].product->precision))
      continue;
    all[count++] = p;
  }
  for (int i = 1; i < count; i++)
    for (carnot_node* n = all[0].product->previous; n; n = n->previous)
      if (n == all[i].product) {
        projection swap = all[0];
        all[0] = all[i], all[i] = swap;
        break;
      }
  return count > 1 ? join(all, count) : NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (size_t i = 0; i < block->param_count; i++)
    if (is_half(block->params[i])) CARNOT_TRY(join_readers(block->params[i]));
  for (carnot_node* node = block->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i] && is_half(node->outputs[i])) CARNOT_TRY(join_readers(node->outputs[i]));
  return NULL;
}

carnot_status* carnot_pass_siblings(carnot_graph* graph, const carnot_pass_options* options) {
  return options->device ? carnot_each_block(graph->main, visit, NULL) : NULL;
}
