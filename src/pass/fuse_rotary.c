// Recognises the rotary embedding of heads as PyTorch's exporters write it, on the CPU:
//   x * c + concat(-x[half..], x[..half]) * s, x [B,heads,S,d], c and s [B,1,S,d] whose halves are
//   equal because they are functions of concat(f, f)
// becomes RotaryEmbedding of x with the first halves of c and s.
#include "pass/emit.h"

static carnot_value* unsqueezed(const carnot_value* value) {
  const carnot_node* node = value->producer;
  const carnot_type* t = &value->type;
  if (!node || !carnot_op_has_trait(node->op, CARNOT_TRAIT_VIEW) || t->rank != 4 ||
      !carnot_sym_is(t->dims[1], 1))
    return NULL;
  carnot_value* from = node->inputs[0];
  const carnot_type* f = &from->type;
  return f->rank == 3 && carnot_sym_same(f->dims[0], t->dims[0]) &&
                 carnot_sym_same(f->dims[1], t->dims[2]) && carnot_sym_same(f->dims[2], t->dims[3])
             ? from
             : NULL;
}

// Element-wise functions, by one number at most, of a concat of two equal parts.
static bool has_equal_halves(const carnot_value* value) {
  const carnot_node* node = value->producer;
  while (node && (node->op == CARNOT_OP_UNARY || node->op == CARNOT_OP_CAST ||
                  node->op == CARNOT_OP_BINARY)) {
    double number;
    int data = 0;
    if (node->op == CARNOT_OP_BINARY) {
      data = carnot_value_scalar(node->inputs[0], &number) ? 1 : 0;
      if (!data && !carnot_value_scalar(node->inputs[1], &number)) return false;
    }
    node = node->inputs[data]->producer;
  }
  if (!node || node->op != CARNOT_OP_CONCAT || node->input_count != 2) return false;
  int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  return node->inputs[0] == node->inputs[1] &&
         (axis == -1 || axis == node->outputs[0]->type.rank - 1);
}

// |value| is elements [first, last) of the last axis of |x|.
static bool is_part(const carnot_value* value, const carnot_value* x, int64_t first, int64_t last) {
  carnot_slice s;
  return carnot_read_slice(value, &s) && s.from == x && s.axis == 3 && s.step == 1 &&
         s.start == first && s.end == last;
}

// |value| is concat(-x[half..], x[..half]).
static bool is_turned(const carnot_value* value, const carnot_value* x) {
  const carnot_node* node = value->producer;
  if (!node || node->op != CARNOT_OP_CONCAT || node->input_count != 2) return false;
  int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis"),
          size = x->type.dims[3].bits;
  const carnot_node* negated = node->inputs[0]->producer;
  return (axis == 3 || axis == -1) && carnot_node_is_fn(negated, CARNOT_FN_NEG) &&
         is_part(negated->inputs[0], x, size / 2, size) && is_part(node->inputs[1], x, 0, size / 2);
}

typedef struct match {
  carnot_value *x, *c, *s;  // c and s [B,S,d]
} match;

static bool is_heads(const carnot_value* x) {
  return x->type.kind == CARNOT_VALUE_TENSOR && x->type.rank == 4 &&
         x->type.dtype == CARNOT_DTYPE_F32 && carnot_sym_is_const(x->type.dims[3]) &&
         x->type.dims[3].bits % 2 == 0;
}

// The sum of products |plain| and |turned| with c and s in either order.
static bool read_products(const carnot_node* plain, const carnot_node* turned, match* out) {
  if (!carnot_node_is_fn(plain, CARNOT_FN_MUL) || !carnot_node_is_fn(turned, CARNOT_FN_MUL))
    return false;
  for (int i = 0; i < 4; i++) {
    carnot_value *x = plain->inputs[i & 1], *t = turned->inputs[i >> 1];
    if (!is_heads(x) || !is_turned(t, x)) continue;
    *out = (match){x, unsqueezed(plain->inputs[1 - (i & 1)]),
                   unsqueezed(turned->inputs[1 - (i >> 1)])};
    return out->c && out->s && has_equal_halves(out->c) && has_equal_halves(out->s) &&
           carnot_same_dims(&out->c->type, &out->s->type) &&
           carnot_sym_same(out->c->type.dims[0], x->type.dims[0]) &&
           carnot_sym_same(out->c->type.dims[1], x->type.dims[2]) &&
           carnot_sym_same(out->c->type.dims[2], x->type.dims[3]);
  }
  return false;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    match m;
    next = node->next;
    if (!carnot_node_is_fn(node, CARNOT_FN_ADD) || node->op != CARNOT_OP_BINARY) continue;
    carnot_node *a = node->inputs[0]->producer, *b = node->inputs[1]->producer;
    if (!read_products(a, b, &m) && !read_products(b, a, &m)) continue;
    carnot_emitter e = {.at = node, .name = node->name};
    const int64_t half = m.x->type.dims[3].bits / 2;
    carnot_value* inputs[3] = {m.x, carnot_emit_slice(&e, m.c, 2, 0, half),
                               carnot_emit_slice(&e, m.s, 2, 0, half)};
    carnot_value* y = carnot_emit(&e, CARNOT_OP_ROTARY_EMBEDDING, NULL, inputs, 3);
    CARNOT_TRY(e.status);
    y->producer->precision = node->precision;
    carnot_absorb_pattern(y->producer, node);
    carnot_value_replace(node->outputs[0], y);
    carnot_node_remove(node);
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_rotary(carnot_graph* graph, const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  CARNOT_TRY(carnot_pass_cse(graph, options));  // the halves that all layers cut
  return carnot_pass_dce(graph, options);
}
