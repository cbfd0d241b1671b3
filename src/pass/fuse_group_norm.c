// Recognises group normalization as exporters write it, an instance normalization of reshaped
// groups:
//   reshape [n, groups, rest] -> instance_norm -> reshape back (-> * by channel) (-> + by channel)
#include "pass/emit.h"

typedef struct match {
  carnot_node *norm, *back, *scale, *shift;  // scale, shift: NULL where nothing follows
  carnot_value *x, *scale_by, *shift_by;     // the constants of |scale| and |shift|
  int64_t channels, groups;
} match;

static bool is_reshape(const carnot_node* node) {
  return node && carnot_op_has_trait(node->op, CARNOT_TRAIT_VIEW) &&
         carnot_is_ranked(node->inputs[0]);
}

// A constant with one number for each channel of |tensor|, axis 1.
static bool is_by_channel(const carnot_value* value, const carnot_type* tensor) {
  if (!value || !value->constant || value->type.rank > tensor->rank) return false;
  for (int d = 0; d < value->type.rank; d++) {
    const bool is_channel = d + tensor->rank - value->type.rank == 1;
    if (is_channel ? !carnot_sym_same(value->type.dims[d], tensor->dims[1])
                   : !carnot_sym_is(value->type.dims[d], 1))
      return false;
  }
  return value->type.rank >= tensor->rank - 1 && value->type.dtype == tensor->dtype;
}

// The node that alone reads |value| and applies |fn| with a constant by channel, which is *out.
static carnot_node* by_channel_behind(const carnot_value* value, carnot_fn fn, carnot_value** out) {
  carnot_node* node = carnot_only_user(value);
  if (!carnot_node_is_fn(node, fn) || node->block != value->block) return NULL;
  *out = node->inputs[node->inputs[0] == value];
  return is_by_channel(*out, &value->type) ? node : NULL;
}

static bool read(carnot_node* norm, match* out) {
  *out = (match){.norm = norm};
  const carnot_node* split = norm->inputs[0]->producer;
  const carnot_type* grouped = &norm->inputs[0]->type;
  out->back = carnot_only_user(norm->outputs[0]);
  if (!is_reshape(split) || !is_reshape(out->back) || out->back->block != norm->block ||
      norm->input_count != 3 || !norm->inputs[1] || !norm->inputs[2])
    return false;
  out->x = split->inputs[0];
  const carnot_type *x = &out->x->type, *y = &out->back->outputs[0]->type;
  if (x->rank < 3 || grouped->rank < 3 || !carnot_same_dims(x, y) ||
      !carnot_sym_same(x->dims[0], grouped->dims[0]) || !carnot_sym_is_const(x->dims[1]) ||
      !carnot_sym_is_const(grouped->dims[1]))
    return false;
  out->channels = x->dims[1].bits, out->groups = grouped->dims[1].bits;
  if (out->groups < 1 || out->channels % out->groups) return false;
  const carnot_value* result = out->back->outputs[0];
  out->scale = by_channel_behind(result, CARNOT_FN_MUL, &out->scale_by);
  if (out->scale) result = out->scale->outputs[0];
  out->shift = by_channel_behind(result, CARNOT_FN_ADD, &out->shift_by);
  return true;
}

// [groups] -> [channels].
static carnot_value* spread(carnot_emitter* e, const match* m, carnot_value* by_group) {
  const int64_t column[2] = {m->groups, 1}, all[2] = {m->groups, m->channels / m->groups};
  carnot_value* inputs[2] = {carnot_emit_reshape(e, by_group, column, 2),
                             carnot_emit_ints(e, all, 2)};
  return carnot_emit_reshape(e, carnot_emit(e, CARNOT_OP_EXPAND, NULL, inputs, 2), &m->channels, 1);
}

static carnot_status* rewrite(const match* m) {
  carnot_node* last = m->shift ? m->shift : m->scale ? m->scale : m->back;
  carnot_emitter e = {.at = last, .name = m->norm->name};
  carnot_value *scale = spread(&e, m, m->norm->inputs[1]),
               *shift = spread(&e, m, m->norm->inputs[2]);
  if (m->scale) {
    carnot_value* by = carnot_emit_reshape(&e, m->scale_by, &m->channels, 1);
    scale = carnot_emit_binary(&e, CARNOT_FN_MUL, scale, by);
    shift = carnot_emit_binary(&e, CARNOT_FN_MUL, shift, by);
  }
  if (m->shift)
    shift = carnot_emit_binary(&e, CARNOT_FN_ADD, shift,
                               carnot_emit_reshape(&e, m->shift_by, &m->channels, 1));
  carnot_attrs attrs = {0};
  carnot_arena* arena = &last->block->graph->arena;
  const carnot_attr* epsilon = carnot_attrs_find(&m->norm->attrs, "epsilon");
  carnot_attrs_set_int(&attrs, arena, "num_groups", m->groups);
  if (epsilon) carnot_attrs_set(&attrs, arena, *epsilon);
  carnot_value *inputs[3] = {m->x, scale, shift},
               *y = carnot_emit(&e, CARNOT_OP_GROUP_NORM, &attrs, inputs, 3);
  CARNOT_TRY(e.status);
  if (!y || !carnot_same_dims(&y->type, &last->outputs[0]->type)) return NULL;
  carnot_absorb_pattern(y->producer, last);
  carnot_value_replace(last->outputs[0], y);
  return NULL;
}

static carnot_status* visit(carnot_block* block, void* user) {
  (void)user;
  for (carnot_node *node = block->first, *next; node; node = next) {
    next = node->next;
    match m;
    if (node->op == CARNOT_OP_INSTANCE_NORM && read(node, &m)) CARNOT_TRY(rewrite(&m));
  }
  return NULL;
}

// What the group normalization replaces is dead.
carnot_status* carnot_pass_fuse_group_norm(carnot_graph* graph,
                                           const carnot_pass_options* options) {
  CARNOT_TRY(carnot_each_block(graph->main, visit, NULL));
  return carnot_pass_dce(graph, options);
}
