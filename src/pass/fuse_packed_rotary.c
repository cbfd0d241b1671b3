// Rotary embedding of heads that lie packed in the rows of one projection, of pairs side by side
// with constant cosines and sines c and s:
//   packed [B,S,P,H,d] -> transpose [P,B,H,S,d] -> part i [B,H,S,d] = x;
//   x * c + reshape(stack(-x[1::2], x[::2])) * s, or of the rows from n on, joined to the first n
// The parts are cut from one RotaryEmbedding of the packed rows instead, where heads that do not
// turn have angle 0: one kernel, from whose result attention reads them. For an accelerator.
#include "pass/emit.h"

enum { kRank = 4, kMostParts = 4 };
static const int64_t kTurn[] = {2, 0, 3, 1, 4};

typedef struct rotation {
  carnot_value *cosines, *sines;  // constants [..,S-still,d], pairs of equal numbers
  carnot_value* result;
  int64_t still;  // rows that do not turn
} rotation;

static carnot_value* unstacked(const carnot_value* value) {
  const carnot_node* node = carnot_only_producer(value);
  return node && node->op == CARNOT_OP_UNSQUEEZE && value->type.rank == kRank + 1 &&
                 carnot_sym_is(value->type.dims[kRank], 1)
             ? node->inputs[0]
             : NULL;
}
static bool is_every_second(const carnot_value* value, const carnot_value* x, int64_t start) {
  carnot_slice s;
  return carnot_read_slice(value, &s) && s.from == x && s.axis == kRank - 1 && s.step == 2 &&
         s.start == start && carnot_sym_is(x->type.dims[kRank - 1], s.end);
}
// |value| is reshape(stack(-x[1::2], x[::2])).
static bool is_turned(const carnot_value* value, const carnot_value* x) {
  const carnot_node* reshape = carnot_only_producer(value);
  if (!reshape || reshape->op != CARNOT_OP_RESHAPE || !carnot_same_dims(&value->type, &x->type))
    return false;
  const carnot_node* stack = carnot_only_producer(reshape->inputs[0]);
  if (!stack || stack->op != CARNOT_OP_CONCAT || stack->input_count != 2) return false;
  const int64_t axis = carnot_attr_int(carnot_node_row(stack), &stack->attrs, "axis");
  if (axis != -1 && axis != kRank) return false;
  const carnot_node* negated = carnot_only_producer(unstacked(stack->inputs[0]));
  return carnot_node_is_fn(negated, CARNOT_FN_NEG) && is_every_second(negated->inputs[0], x, 1) &&
         is_every_second(unstacked(stack->inputs[1]), x, 0);
}

// A constant [..,rows,d] of pairs of equal numbers.
static bool is_of_pairs(const carnot_value* value, const carnot_value* x) {
  const carnot_type* t = &value->type;
  if (!value->constant || t->rank < 2 || t->dtype != x->type.dtype) return false;
  for (int d = 0; d < t->rank; d++)
    if (!(d < t->rank - 2 ? carnot_sym_is(t->dims[d], 1)
                          : carnot_sym_same(t->dims[d], x->type.dims[d + kRank - t->rank])))
      return false;
  const carnot_tensor* c = &value->constant->tensor;
  for (size_t i = 0; i < (size_t)carnot_tensor_count(c); i += 2)
    if (carnot_load_f64(c->dtype, c->data, i) != carnot_load_f64(c->dtype, c->data, i + 1))
      return false;
  return true;
}

// The operand of a product with a constant of pairs.
static carnot_value* product_with(const carnot_value* value, carnot_value** constant) {
  const carnot_node* node = carnot_only_producer(value);
  if (!carnot_node_is_fn(node, CARNOT_FN_MUL) || node->op != CARNOT_OP_BINARY) return NULL;
  const int at = node->inputs[1]->constant ? 1 : 0;
  carnot_value* x = node->inputs[1 - at];
  if (!carnot_is_ranked(x) || x->type.rank != kRank || !is_of_pairs(node->inputs[at], x))
    return NULL;
  *constant = node->inputs[at];
  return x;
}
// What |sum| turns.
static carnot_value* turned_by(const carnot_node* sum, rotation* out) {
  if (!carnot_node_is_fn(sum, CARNOT_FN_ADD) || sum->op != CARNOT_OP_BINARY) return NULL;
  for (int i = 0; i < 2; i++) {
    carnot_value *x = product_with(sum->inputs[i], &out->cosines),
                 *t = product_with(sum->inputs[1 - i], &out->sines);
    if (x && t && is_turned(t, x)) return x;
  }
  return NULL;
}

// The part whose rows, all or those behind the first |still|, |node| turns.
static carnot_value* read_rotation(const carnot_node* node, rotation* out) {
  out->still = 0, out->result = node->outputs[0];
  if (node->op != CARNOT_OP_CONCAT) return turned_by(node, out);
  carnot_slice first, rest;
  const int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  if (node->input_count != 2 || (axis != 2 && axis != -2)) return NULL;
  const carnot_value* x = turned_by(carnot_only_producer(node->inputs[1]), out);
  if (!x || !carnot_read_slice(x, &rest) || !carnot_read_slice(node->inputs[0], &first) ||
      first.from != rest.from || first.axis != 2 || rest.axis != 2 || first.step != 1 ||
      rest.step != 1 || first.start != 0 || first.end != rest.start ||
      !carnot_sym_is(rest.from->type.dims[2], rest.end))
    return NULL;
  out->still = first.end;
  return rest.from;
}

// Cosines or sines of a row of all parts up to the last that turns, [1,S,parts*H*d/2]; what does
// not turn has angle 0.
static carnot_value* emit_angles(carnot_emitter* e, const carnot_type* packed,
                                 const rotation* rotations, int parts, bool sines) {
  const int64_t rows = packed->dims[1].bits, heads = packed->dims[3].bits,
                half = packed->dims[4].bits / 2, width = parts * heads * half;
  carnot_tensor t = {.dtype = packed->dtype, .rank = 3, .dims = {1, rows, width}};
  t.data = carnot_arena_alloc(&e->at->block->graph->arena, (size_t)(rows * width), 8);
  for (int64_t i = 0; t.data && i < rows * width; i++) {
    const int64_t row = i / width, k = i % half;
    const rotation* r = &rotations[i % width / (heads * half)];
    const bool turns = r->result && row >= r->still;
    const carnot_tensor* from = turns ? &(sines ? r->sines : r->cosines)->constant->tensor : NULL;
    const double angle =
        from ? carnot_load_f64(from->dtype, from->data, (size_t)(((row - r->still) * half + k) * 2))
             : !sines;
    carnot_store_f64(t.dtype, t.data, (size_t)i, angle);
  }
  return carnot_graph_constant(e->at->block, NULL, &t);
}

// Rotations of the parts of |turn|, and how many parts there are up to the last that turns.
static int find_rotations(const carnot_node* turn, rotation* rotations) {
  int parts = 0;
  for (const carnot_node* node = turn->next; node; node = node->next) {
    rotation r;
    int64_t at;
    const carnot_value* part = read_rotation(node, &r);
    if (!part || carnot_element_of(part, &at) != turn->outputs[0] || at < 0 || at >= kMostParts ||
        rotations[at].result)
      continue;
    rotations[at] = r;
    if (parts <= at) parts = (int)at + 1;
  }
  return parts;
}

static bool is_packed(const carnot_value* x) {
  for (int d = 1; d < 5; d++)
    if (!carnot_sym_is_const(x->type.dims[d])) return false;
  return x->type.dims[2].bits <= kMostParts && x->type.dims[4].bits % 2 == 0 &&
         carnot_dtype_is_float(x->type.dtype);
}

static carnot_status* rewrite(carnot_node* turn, const rotation* rotations, int parts) {
  carnot_value* packed = turn->inputs[0];
  const carnot_type* t = &packed->type;
  const int64_t rows[] = {0, 0, -1},
                dims[] = {0, 0, t->dims[2].bits, t->dims[3].bits, t->dims[4].bits};
  carnot_arena* arena = &turn->block->graph->arena;
  carnot_emitter e = {.at = turn, .name = turn->name};
  carnot_attrs attrs = {0};
  carnot_attrs_set_int(&attrs, arena, "interleaved", 1);
  carnot_attrs_set_int(&attrs, arena, "num_heads", 1);
  carnot_attrs_set_int(&attrs, arena, "rotary_embedding_dim",
                       parts * t->dims[3].bits * t->dims[4].bits);
  carnot_value* inputs[3] = {carnot_emit_reshape(&e, packed, rows, 3),
                             emit_angles(&e, t, rotations, parts, false),
                             emit_angles(&e, t, rotations, parts, true)};
  carnot_value* y = carnot_emit(&e, CARNOT_OP_ROTARY_EMBEDDING, &attrs, inputs, 3);
  y = carnot_emit_transpose(&e, carnot_emit_reshape(&e, y, dims, 5), kTurn, 5);
  carnot_value* made[kMostParts];
  const int all = (int)t->dims[2].bits;
  for (int i = 0; i < all; i++) {
    carnot_value* part[2] = {y, carnot_emit_int(&e, i)};
    made[i] = carnot_emit(&e, CARNOT_OP_GATHER, NULL, part, 2);
  }
  CARNOT_TRY(e.status);
  for (int i = 0; i < all; i++)
    if (i < parts && rotations[i].result) carnot_value_replace(rotations[i].result, made[i]);
  for (carnot_node* node = turn->next; node; node = node->next) {
    int64_t at;
    if (node->output_count == 1 && carnot_element_of(node->outputs[0], &at) == turn->outputs[0] &&
        at >= 0 && at < all && (at >= parts || !rotations[at].result))
      carnot_value_replace(node->outputs[0], made[at]);
  }
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node* node = block->first; node; node = node->next) {
    rotation rotations[kMostParts] = {{0}};
    if (!carnot_has_perm(node, kTurn, 5) || !is_packed(node->inputs[0])) continue;
    const int parts = find_rotations(node, rotations);
    if (parts) CARNOT_TRY(rewrite(node, rotations, parts));
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_packed_rotary(carnot_graph* graph,
                                              const carnot_pass_options* options) {
  if (!options->device || options->refit) return NULL;  // reads angles
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
