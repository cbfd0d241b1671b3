// Attention between channels (cross-covariance attention) of a packed projection becomes one node:
//   x [B,N,3,H,D] -> transpose [3,B,H,D,N] -> q, k, v;
//   Transpose(softmax(t * norm(q) norm(k)^T) v, [0,3,1,2]) = cross_covariance(x, t)
// where t may multiply norm(q) too, and norm divides columns over N by their length. For an
// accelerator, where there are heads for many multiprocessors: each takes 20 us, however few they
// are.
#include "pass/emit.h"

enum { kRank = 4, kLeastHeads = 32 };  // of all batches

// |value| is element |index| of the first axis of a transposed [B,N,3,H,D]: that tensor.
static carnot_value* packed_of(const carnot_value* value, int64_t index) {
  static const int64_t kTurn[] = {2, 0, 3, 4, 1};
  int64_t at;
  const carnot_value* from = carnot_only_producer(value) ? carnot_element_of(value, &at) : NULL;
  if (!from || at != index || !carnot_has_perm(from->producer, kTurn, 5)) return NULL;
  carnot_value* packed = from->producer->inputs[0];
  return carnot_sym_is(packed->type.dims[2], 3) ? packed : NULL;
}

// Heads of all batches of [B,N,3,H,D].
static bool has_many_heads(const carnot_value* packed) {
  const carnot_sym batch = packed->type.dims[0], heads = packed->type.dims[3];
  return carnot_sym_is_const(batch) && carnot_sym_is_const(heads) &&
         batch.bits * heads.bits >= kLeastHeads;
}

// The operand that |value| divides by its length along the last axis.
static carnot_value* normalized(const carnot_value* value, double* epsilon) {
  const carnot_node* node = carnot_only_producer(value);
  if (!node || node->op != CARNOT_OP_LP_NORM) return NULL;
  const carnot_op_row* row = carnot_node_row(node);
  const int64_t axis = carnot_attr_int(row, &node->attrs, "axis");
  *epsilon = carnot_attr_float(row, &node->attrs, "epsilon");
  return (axis == -1 || axis == kRank - 1) && carnot_attr_int(row, &node->attrs, "p") == 2
             ? node->inputs[0]
             : NULL;
}

static bool is_matmul(const carnot_node* node) {
  return node && node->op == CARNOT_OP_MATMUL && carnot_is_ranked(node->outputs[0]) &&
         node->outputs[0]->type.rank == kRank &&
         !carnot_attr_int(carnot_node_row(node), &node->attrs, "transA") &&
         carnot_attr_float(carnot_node_row(node), &node->attrs, "alpha") == 1;
}

// The operand of a product with a constant of one number for each head, [H,1,1] or [1,H,1,1], which
// |*temperature| is set to; else |value|.
static carnot_value* without_temperature(carnot_value* value, carnot_value** temperature) {
  const carnot_node* scale = carnot_only_producer(value);
  if (!carnot_node_is_fn(scale, CARNOT_FN_MUL)) return value;
  const int at = scale->inputs[1]->constant ? 1 : 0;
  carnot_value* t = scale->inputs[at];
  if (!t->constant || t->type.rank < 3 || t->type.rank > kRank) return value;
  const carnot_sym* dims = t->type.dims + t->type.rank - 3;
  if (!carnot_sym_same(dims[0], value->type.dims[1]) || !carnot_sym_is(dims[1], 1) ||
      !carnot_sym_is(dims[2], 1) || (t->type.rank == kRank && !carnot_sym_is(t->type.dims[0], 1)))
    return value;
  *temperature = t;
  return scale->inputs[1 - at];
}

typedef struct cross {
  carnot_value *packed, *temperature;
  double epsilon;
} cross;

// From the product of weights and values back to the packed projection.
static bool read_cross(const carnot_node* values, cross* out) {
  static const int64_t kSwap[] = {0, 1, 3, 2};
  double other;
  if (!is_matmul(values) || carnot_attr_int(carnot_node_row(values), &values->attrs, "transB"))
    return false;
  const carnot_node* softmax = carnot_only_producer(values->inputs[0]);
  if (!softmax || softmax->op != CARNOT_OP_SOFTMAX) return false;
  const int64_t axis = carnot_attr_int(carnot_node_row(softmax), &softmax->attrs, "axis");
  if (axis != -1 && axis != kRank - 1) return false;
  out->temperature = NULL;
  const carnot_node* scores =
      carnot_only_producer(without_temperature(softmax->inputs[0], &out->temperature));
  if (!is_matmul(scores)) return false;
  carnot_value* k = scores->inputs[1];
  if (!carnot_attr_int(carnot_node_row(scores), &scores->attrs, "transB")) {
    const carnot_node* turn = carnot_only_producer(k);
    if (!carnot_has_perm(turn, kSwap, kRank)) return false;
    k = turn->inputs[0];
  }
  carnot_value* q = scores->inputs[0];
  if (!out->temperature) q = without_temperature(q, &out->temperature);
  q = out->temperature ? normalized(q, &out->epsilon) : NULL;
  k = normalized(k, &other);
  out->packed = q ? packed_of(q, 0) : NULL;
  return out->packed && has_many_heads(out->packed) && k && other == out->epsilon &&
         packed_of(k, 1) == out->packed && packed_of(values->inputs[1], 2) == out->packed;
}

static carnot_status* visit(carnot_block* block, void* user) {
  static const int64_t kFirst[] = {0, 3, 1, 2};
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    cross c;
    if (!carnot_has_perm(node, kFirst, kRank) ||
        !read_cross(carnot_only_producer(node->inputs[0]), &c))
      continue;
    carnot_emitter e = {.at = node, .name = node->name};
    const int64_t all = -1;
    carnot_value* inputs[2] = {c.packed, carnot_emit_reshape(&e, c.temperature, &all, 1)};
    carnot_attrs attrs = {0};
    carnot_attrs_set_float(&attrs, &block->graph->arena, "epsilon", c.epsilon);
    carnot_value* made = carnot_emit(&e, CARNOT_OP_CROSS_COVARIANCE, &attrs, inputs, 2);
    CARNOT_TRY(e.status);
    carnot_absorb_pattern(made->producer, node);
    made->name = node->outputs[0]->name;
    carnot_value_replace(node->outputs[0], made);
  }
  return NULL;
}

carnot_status* carnot_pass_fuse_cross_covariance(carnot_graph* graph,
                                                 const carnot_pass_options* options) {
  if (!options->device) return NULL;
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
