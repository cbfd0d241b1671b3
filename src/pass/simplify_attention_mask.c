// Keeps attention masks at the size of their operands. Exporters build a mask by index arithmetic:
// they gather the flag of every key in order (gather_nd of all indices), combine it with conditions
// that are constant true, and by that broadcast it over the queries.
#include "pass/pass.h"

enum { kMaxDepth = 4 };

// A constant that no refit will change.
static const carnot_tensor* fixed(const carnot_value* value, const carnot_pass_options* options) {
  const carnot_constant* c = value ? value->constant : NULL;
  bool may_change = c && options->refit && (c->name || c->made_by);
  return c && !may_change && c->tensor.data ? &c->tensor : NULL;
}

static bool dims_of(const carnot_value* value, int64_t* out) {
  const carnot_type* t = &value->type;
  if (t->kind != CARNOT_VALUE_TENSOR || t->rank < 0) return false;
  for (int d = 0; d < t->rank; d++) {
    if (!carnot_sym_is_const(t->dims[d])) return false;
    out[d] = t->dims[d].bits;
  }
  return true;
}

// Every element once, in order.
static bool gathers_all(const carnot_node* node, const carnot_pass_options* options) {
  const carnot_value* x = node->inputs[0];
  const carnot_tensor* indices = fixed(node->inputs[1], options);
  int64_t dims[CARNOT_MAX_RANK];
  int rank = x->type.rank;
  if (!indices || carnot_attr_int(carnot_node_row(node), &node->attrs, "batch_dims") ||
      !dims_of(x, dims) || rank < 1 || indices->rank < 1 ||
      indices->dims[indices->rank - 1] != rank ||
      carnot_tensor_count(indices) != carnot_dims_count(dims, rank) * rank)
    return false;
  int64_t count = carnot_dims_count(dims, rank);
  for (int64_t i = 0; i < count; i++) {
    int64_t at = 0;
    for (int d = 0; d < rank; d++) {
      int64_t index = carnot_load_i64(indices->dtype, indices->data, (size_t)(i * rank + d));
      at = at * dims[d] + (index < 0 ? index + dims[d] : index);
    }
    if (at != i) return false;
  }
  return true;
}

static carnot_status* reshape_before(carnot_node* at, carnot_value* x, const carnot_value* like,
                                     carnot_value** out) {
  int64_t dims[CARNOT_MAX_RANK];
  if (!dims_of(like, dims)) return NULL;
  carnot_value* inputs[2] = {x, carnot_graph_ints(at->block, dims, like->type.rank)};
  carnot_node* node;
  CARNOT_TRY(carnot_node_insert_before(at, CARNOT_OP_RESHAPE, NULL, NULL, inputs, 2, 1, &node));
  *out = node->outputs[0];
  return NULL;
}

// gather_nd(cast(x)) = cast(reshape(x)): the cast is then next to the other operations on the
// elements.
static carnot_status* reshape_instead(carnot_node* node) {
  carnot_value *y = node->outputs[0], *made = NULL;
  carnot_node* cast = node->inputs[0]->producer;
  bool behind = cast && cast->op == CARNOT_OP_CAST && carnot_only_user(node->inputs[0]) == node;
  CARNOT_TRY(reshape_before(node, behind ? cast->inputs[0] : node->inputs[0], y, &made));
  if (made && behind) {
    carnot_node* again;
    CARNOT_TRY(carnot_node_insert_before(node, CARNOT_OP_CAST, cast->name, &cast->attrs, &made, 1,
                                         1, &again));
    made = again->outputs[0];
  }
  if (!made) return NULL;
  carnot_value_replace(y, made);
  carnot_node_absorb(made->producer, node);
  return NULL;
}

// |value| may be smaller: readers spread it over other operands, or what they
// make of it may be smaller too.
static bool may_shrink(const carnot_value* value, int depth) {
  if (value->block_output_count || depth == 0) return false;
  for (size_t i = 0; i < value->use_count; i++) {
    const carnot_node* reader = value->uses[i].node;
    bool by_element = carnot_node_fn(reader) != CARNOT_FN_COUNT || reader->op == CARNOT_OP_CAST;
    if (!by_element || reader->block != value->block) return false;
    const carnot_value* y = reader->outputs[0];
    bool spread = false;
    for (int k = 0; k < reader->input_count; k++)
      spread = spread ||
               (reader->inputs[k] != value && carnot_same_dims(&reader->inputs[k]->type, &y->type));
    if (!spread && !may_shrink(y, depth - 1)) return false;
  }
  return true;
}

// The types of what |value| is read by, after it became smaller.
static carnot_status* infer_readers(const carnot_value* value) {
  for (size_t i = 0; i < value->use_count; i++) {
    carnot_node* reader = value->uses[i].node;
    carnot_type was = reader->outputs[0]->type;
    CARNOT_TRY(carnot_node_infer(reader));
    if (!carnot_same_dims(&reader->outputs[0]->type, &was))
      CARNOT_TRY(infer_readers(reader->outputs[0]));
  }
  return NULL;
}

// and(x, true ..) = x, spread.
static carnot_value* joined_with_true(const carnot_node* node, const carnot_pass_options* options) {
  if (!carnot_node_is_fn(node, CARNOT_FN_AND)) return NULL;
  for (int i = 0; i < 2; i++) {
    const carnot_tensor* t = fixed(node->inputs[i], options);
    bool all = t && t->dtype == CARNOT_DTYPE_BOOL;
    for (int64_t k = 0; all && k < carnot_tensor_count(t); k++) all = ((const uint8_t*)t->data)[k];
    if (all) return node->inputs[1 - i];
  }
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  const carnot_pass_options* options = user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (node->op == CARNOT_OP_GATHER_ND && gathers_all(node, options))
      CARNOT_TRY(reshape_instead(node));
    carnot_value* x = joined_with_true(node, options);
    if (!x || x->block != block) continue;
    carnot_value* y = node->outputs[0];
    if (y->block_output_count ||
        (!carnot_same_dims(&x->type, &y->type) && !may_shrink(y, kMaxDepth)))
      continue;
    carnot_value_replace(y, x);
    CARNOT_TRY(infer_readers(x));
  }
  return NULL;
}

carnot_status* carnot_pass_simplify_attention_mask(carnot_graph* graph,
                                                   const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, (void*)options));
  return carnot_pass_dce(graph, options);
}
