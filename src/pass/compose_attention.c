// Recognises attention over a cache as PyTorch's exporters write it, on the CPU, and writes
// operator Attention: keys and values that a concat appends to a past, or that are repeated for the
// query heads that share them, are then read where they lie.
//   matmul(softmax(matmul(q, k'^T) * scale + mask), v'), where k' and v' are k and v with each head
//   expanded to a group
// Only where a row without any key gives what Attention gives, zeros: behind a guard (NaN -> 0), or
// with masks of finite numbers, which leave no row without a key.
#include <math.h>

#include "pass/emit.h"

typedef struct match {
  carnot_value *q, *k, *v, *mask;
  double scale;
  bool repeats;  // heads of k and v are expanded
} match;

static bool is_tensor(const carnot_value* value, int rank) {
  return value && value->type.kind == CARNOT_VALUE_TENSOR && value->type.rank == rank &&
         value->type.dtype == CARNOT_DTYPE_F32;
}

// Multiplied or divided by one number: the other operand. *scale takes it in.
static carnot_value* scaled(const carnot_node* node, double* scale) {
  double factor;
  if (carnot_node_is_fn(node, CARNOT_FN_MUL)) {
    for (int i = 0; i < 2; i++)
      if (carnot_value_scalar(node->inputs[i], &factor)) {
        *scale *= factor;
        return node->inputs[1 - i];
      }
  } else if (carnot_node_is_fn(node, CARNOT_FN_DIV) &&
             carnot_value_scalar(node->inputs[1], &factor) && factor != 0) {
    *scale /= factor;
    return node->inputs[0];
  }
  return NULL;
}

// A view whose last two dimensions are those of its operand.
static bool regroups(const carnot_node* node) {
  if (!carnot_op_has_trait(node->op, CARNOT_TRAIT_VIEW)) return false;
  const carnot_type *a = &node->inputs[0]->type, *b = &node->outputs[0]->type;
  return a->rank >= 2 && b->rank >= 2 &&
         carnot_sym_same(a->dims[a->rank - 1], b->dims[b->rank - 1]) &&
         carnot_sym_same(a->dims[a->rank - 2], b->dims[b->rank - 2]);
}

// [B,heads,1,T,d] to [B,heads,group,T,d]: the operand.
static carnot_value* expanded(const carnot_node* node) {
  if (node->op != CARNOT_OP_EXPAND) return NULL;
  const carnot_type *a = &node->inputs[0]->type, *b = &node->outputs[0]->type;
  bool fits = a->rank == 5 && b->rank == 5 && carnot_sym_is(a->dims[2], 1);
  for (int d = 0; fits && d < 5; d++) fits = d == 2 || carnot_sym_same(a->dims[d], b->dims[d]);
  return fits ? node->inputs[0] : NULL;
}

// From keys or values [B,H,T,d] (|turned|: [B,H,d,T]) back to those of the heads that queries
// share.
static carnot_value* shared_heads(carnot_value* value, bool turned, const carnot_type* like,
                                  double* scale, bool* repeats) {
  carnot_value* found = NULL;
  bool has_expanded = false;
  for (carnot_node* node; (node = value->producer) && node->input_count;) {
    double ignored = 1;
    carnot_value* from = scaled(node, scale ? scale : &ignored);
    if (from && !scale) break;
    if (!from && carnot_swaps_last(node)) from = node->inputs[0], turned = !turned;
    if (!from && !turned && !has_expanded && (from = expanded(node)) != NULL) has_expanded = true;
    if (!from && regroups(node)) from = node->inputs[0];
    if (!from) break;
    value = from;
    if (!turned && is_tensor(value, 4) && carnot_sym_same(value->type.dims[0], like->dims[0]))
      found = value, *repeats = has_expanded;
  }
  return !turned && is_tensor(value, 4) ? found ? found : value : NULL;
}

// Whether |value| is a result of a concat that appends to a past.
static bool is_cached(const carnot_value* value) {
  const carnot_node* node = value->producer;
  if (!node || node->op != CARNOT_OP_CONCAT || node->input_count != 2) return false;
  int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  return axis == 2 || axis == -2;
}

// Finite numbers chosen by conditions.
static bool is_finite(const carnot_value* mask) {
  const carnot_node* node = mask->producer;
  double a, b;
  return node && node->op == CARNOT_OP_TERNARY && carnot_node_is_fn(node, CARNOT_FN_SELECT) &&
         carnot_value_scalar(node->inputs[1], &a) && carnot_value_scalar(node->inputs[2], &b) &&
         isfinite(a) && isfinite(b);
}

static bool is_mask(const carnot_value* mask, const carnot_type* scores) {
  if (!mask || mask->type.kind != CARNOT_VALUE_TENSOR || mask->type.dtype != CARNOT_DTYPE_F32 ||
      mask->type.rank < 2 || mask->type.rank > 4)
    return false;
  for (int d = 1; d <= mask->type.rank; d++) {
    carnot_sym dim = mask->type.dims[mask->type.rank - d];
    if (!carnot_sym_same(dim, scores->dims[4 - d]) && (d == 1 || !carnot_sym_is(dim, 1)))
      return false;
  }
  return true;
}

static bool is_matmul(const carnot_node* node) {
  return node && node->op == CARNOT_OP_MATMUL && is_tensor(node->outputs[0], 4) &&
         !carnot_attr_int(carnot_node_row(node), &node->attrs, "transA") &&
         carnot_attr_float(carnot_node_row(node), &node->attrs, "alpha") == 1;
}

// The product that |value| is, perhaps times a number.
static const carnot_node* product_behind(const carnot_value* value, double* scale) {
  const carnot_node* node = value->producer;
  double factor = *scale;
  const carnot_value* from = node ? scaled(node, &factor) : NULL;
  if (from) node = from->producer;
  if (!is_tensor(value, 4) || !is_matmul(node)) return NULL;
  *scale = factor;
  return node;
}

static bool read_scores(carnot_node* softmax, bool guarded, match* out) {
  const carnot_value* scores = softmax->inputs[0];
  int64_t axis = carnot_attr_int(carnot_node_row(softmax), &softmax->attrs, "axis");
  if (!is_tensor(scores, 4) || (axis != -1 && axis != 3)) return false;
  const carnot_node* node = product_behind(scores, &out->scale);
  for (int i = 0; !node && carnot_node_is_fn(scores->producer, CARNOT_FN_ADD) && i < 2; i++) {
    carnot_value* const* inputs = scores->producer->inputs;
    node = product_behind(inputs[i], &out->scale);
    if (!node) continue;
    out->mask = inputs[1 - i];
    if (!is_mask(out->mask, &scores->type) || (!guarded && !is_finite(out->mask))) return false;
  }
  if (!node) return false;
  bool turned = !carnot_attr_int(carnot_node_row(node), &node->attrs, "transB");
  out->q = node->inputs[0];
  carnot_value* from = out->q->producer ? scaled(out->q->producer, &out->scale) : NULL;
  if (from && is_tensor(from, 4)) out->q = from;
  out->k = shared_heads(node->inputs[1], turned, &out->q->type, &out->scale, &out->repeats);
  return is_tensor(out->q, 4) && out->k;
}

// Queries share heads evenly, and the sizes are those of the operator.
static bool fits(const match* m, const carnot_value* y) {
  const carnot_type *q = &m->q->type, *k = &m->k->type, *v = &m->v->type;
  return carnot_sym_is_const(q->dims[1]) && carnot_sym_is_const(k->dims[1]) &&
         carnot_sym_same(k->dims[1], v->dims[1]) && k->dims[1].bits > 0 &&
         q->dims[1].bits % k->dims[1].bits == 0 && carnot_sym_same(q->dims[0], k->dims[0]) &&
         carnot_sym_same(q->dims[3], k->dims[3]) && carnot_sym_same(q->dims[0], v->dims[0]) &&
         carnot_sym_same(y->type.dims[1], q->dims[1]) &&
         carnot_sym_same(y->type.dims[3], v->dims[3]) && (is_cached(m->k) || is_cached(m->v));
}

static bool read(carnot_node* matmul, match* out) {
  *out = (match){.scale = 1};
  if (!is_matmul(matmul) || carnot_attr_int(carnot_node_row(matmul), &matmul->attrs, "transB"))
    return false;
  carnot_node* node = matmul->inputs[0]->producer;
  double zero;
  bool guarded = node && node->op == CARNOT_OP_TERNARY &&
                 carnot_node_is_fn(node, CARNOT_FN_SELECT) &&
                 carnot_value_scalar(node->inputs[1], &zero) && zero == 0 &&
                 carnot_node_is_fn(node->inputs[0]->producer, CARNOT_FN_IS_NAN) &&
                 node->inputs[0]->producer->inputs[0] == node->inputs[2];
  if (guarded) node = node->inputs[2]->producer;
  if (!node || node->op != CARNOT_OP_SOFTMAX || !read_scores(node, guarded, out)) return false;
  bool repeats = false;
  out->v = shared_heads(matmul->inputs[1], false, &out->q->type, NULL, &repeats);
  return out->v && repeats == out->repeats && fits(out, matmul->outputs[0]);
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    match m;
    next = node->next;
    if (node->op != CARNOT_OP_MATMUL || !read(node, &m)) continue;
    carnot_emitter e = {.at = node, .name = node->name};
    carnot_attrs attrs = {0};
    carnot_attrs_set_float(&attrs, &block->graph->arena, "scale", m.scale);
    carnot_value* inputs[4] = {m.q, m.k, m.v, m.mask};
    carnot_value* y = carnot_emit(&e, CARNOT_OP_ATTENTION, &attrs, inputs, 4);
    CARNOT_TRY(e.status);
    y->producer->precision = node->precision;
    carnot_absorb_pattern(y->producer, node);
    carnot_value_replace(node->outputs[0], y);
    carnot_node_remove(node);
  }
  return NULL;
}

carnot_status* carnot_pass_compose_attention(carnot_graph* graph,
                                             const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
