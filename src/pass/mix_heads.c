// Products over the heads of attention scores, which exporters write as a MatMul between
// transposes,
//   y = Transpose(MatMul(Transpose(x, [0,2,3,1]), w) + bias, [0,3,1,2]),
// become mix_heads, which reads and writes scores as they lie. Softmax over keys may be between two
// of them: the transposes around it have been merged away. For an accelerator.
#include "pass/emit.h"

enum { kRank = 4 };

static const int64_t kLast[kRank] = {0, 2, 3, 1}, kFirst[kRank] = {0, 3, 1, 2};

// The constant that |node| adds along the last axis; *out_x is the other operand.
static carnot_value* bias_of(const carnot_node* node, carnot_value** out_x) {
  if (!carnot_node_is_fn(node, CARNOT_FN_ADD)) return NULL;
  const int at = node->inputs[1]->constant ? 1 : 0;
  carnot_value* bias = node->inputs[at];
  *out_x = node->inputs[1 - at];
  return bias->constant && bias->type.rank == 1 &&
                 carnot_sym_same(bias->type.dims[0], node->outputs[0]->type.dims[kRank - 1])
             ? bias
             : NULL;
}

typedef struct mixed {
  carnot_node* matmul;
  carnot_value *x, *weights, *bias;
} mixed;

// |value| is a MatMul by constant weights [H,G], and a bias.
static bool read_matmul(const carnot_value* value, mixed* out) {
  carnot_value* x = NULL;
  carnot_node* node = carnot_only_producer(value);
  *out = (mixed){.bias = node ? bias_of(node, &x) : NULL};
  if (out->bias) node = carnot_only_producer(x);
  if (!node || node->op != CARNOT_OP_MATMUL || !node->inputs[1]->constant ||
      node->inputs[1]->type.rank != 2 || !carnot_is_ranked(node->inputs[0]) ||
      node->inputs[0]->type.rank != kRank ||
      carnot_attr_int(carnot_node_row(node), &node->attrs, "transA") ||
      carnot_attr_int(carnot_node_row(node), &node->attrs, "transB"))
    return false;
  out->matmul = node, out->x = node->inputs[0], out->weights = node->inputs[1];
  return true;
}

static carnot_value* emit_mix(carnot_emitter* e, const mixed* m, carnot_value* x) {
  carnot_value* inputs[3] = {x, m->weights, m->bias};
  e->name = m->matmul->name;
  return carnot_emit(e, CARNOT_OP_MIX_HEADS, NULL, inputs, m->bias ? 3 : 2);
}

// Softmax along axis 2 of heads last: along the last one of heads first.
static bool is_softmax_of_keys(const carnot_node* node) {
  if (!node || node->op != CARNOT_OP_SOFTMAX) return false;
  const int64_t axis = carnot_attr_int(carnot_node_row(node), &node->attrs, "axis");
  return axis == 2 || axis == -2;
}

// |turn| takes heads to the front again: the whole chain behind the transpose that took them last.
static carnot_status* rewrite(carnot_node* turn) {
  mixed last, first = {.matmul = NULL};
  if (!read_matmul(turn->inputs[0], &last)) return NULL;
  carnot_node* before = carnot_only_producer(last.x);
  carnot_node* softmax = is_softmax_of_keys(before) ? before : NULL;
  if (softmax) {
    if (read_matmul(softmax->inputs[0], &first))
      before = carnot_only_producer(first.x);
    else
      before = carnot_only_producer(softmax->inputs[0]);
  }
  if (!carnot_has_perm(before, kLast, kRank)) return NULL;
  carnot_emitter e = {.at = turn};
  carnot_value* x = before->inputs[0];
  if (first.matmul) x = emit_mix(&e, &first, x);
  if (softmax) {
    carnot_attrs attrs = {0};
    e.name = softmax->name;
    carnot_attrs_set_int(&attrs, &turn->block->graph->arena, "axis", -1);
    x = carnot_emit(&e, CARNOT_OP_SOFTMAX, &attrs, &x, 1);
  }
  x = emit_mix(&e, &last, x);
  CARNOT_TRY(e.status);
  carnot_absorb_pattern(x->producer, turn);
  x->name = turn->outputs[0]->name;
  carnot_value_replace(turn->outputs[0], x);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    if (carnot_has_perm(node, kFirst, kRank)) CARNOT_TRY(rewrite(node));
  }
  return NULL;
}

carnot_status* carnot_pass_mix_heads(carnot_graph* graph, const carnot_pass_options* options) {
  if (!options->device) return NULL;
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
