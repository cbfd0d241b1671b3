// Nodes that passes write before a position.
#include "pass/emit.h"

static carnot_arena* arena_of(const carnot_emitter* e) { return &e->at->block->graph->arena; }

carnot_value* carnot_emit(carnot_emitter* e, carnot_op op, const carnot_attrs* attrs,
                          carnot_value* const* inputs, int count) {
  carnot_node* node;
  for (int i = 0; i < count; i++)
    if (!inputs[i] && !e->status && i < carnot_op_get(op)->min_inputs) return NULL;
  if (e->status) return NULL;
  e->status = carnot_node_insert_before(e->at, op, e->name, attrs, inputs, count, 1, &node);
  return e->status ? NULL : node->outputs[0];
}

carnot_value* carnot_emit_binary(carnot_emitter* e, carnot_fn fn, carnot_value* a,
                                 carnot_value* b) {
  carnot_attrs attrs = {0};
  carnot_value* inputs[2] = {a, b};
  carnot_attrs_set_int(&attrs, arena_of(e), "fn", fn);
  return carnot_emit(e, CARNOT_OP_BINARY, &attrs, inputs, 2);
}

carnot_value* carnot_emit_cast(carnot_emitter* e, carnot_value* x, carnot_dtype dtype) {
  carnot_attrs attrs = {0};
  if (!x || x->type.dtype == dtype) return x;
  carnot_attrs_set_int(&attrs, arena_of(e), "to", dtype);
  return carnot_emit(e, CARNOT_OP_CAST, &attrs, &x, 1);
}

carnot_value* carnot_emit_ints(carnot_emitter* e, const int64_t* values, int count) {
  return carnot_graph_ints(e->at->block, values, count);
}

carnot_value* carnot_emit_int(carnot_emitter* e, int64_t value) {
  return carnot_graph_ints(e->at->block, &value, -1);
}

carnot_value* carnot_emit_reshape(carnot_emitter* e, carnot_value* x, const int64_t* dims,
                                  int rank) {
  carnot_value* inputs[2] = {x, carnot_emit_ints(e, dims, rank)};
  return carnot_emit(e, CARNOT_OP_RESHAPE, NULL, inputs, 2);
}

static carnot_value* slice(carnot_emitter* e, carnot_value* x, int64_t axis, int64_t start,
                           int64_t end, int64_t step) {
  carnot_value* inputs[5] = {x, carnot_emit_ints(e, &start, 1), carnot_emit_ints(e, &end, 1),
                             carnot_emit_ints(e, &axis, 1), carnot_emit_ints(e, &step, 1)};
  return carnot_emit(e, CARNOT_OP_SLICE, NULL, inputs, 5);
}

carnot_value* carnot_emit_slice(carnot_emitter* e, carnot_value* x, int64_t axis, int64_t start,
                                int64_t end) {
  return slice(e, x, axis, start, end, 1);
}

carnot_value* carnot_emit_reversed(carnot_emitter* e, carnot_value* x, int64_t axis) {
  return slice(e, x, axis, -1, INT64_MIN, -1);
}

carnot_value* carnot_emit_transpose(carnot_emitter* e, carnot_value* x, const int64_t* perm,
                                    int rank) {
  carnot_attrs attrs = {0};
  carnot_attrs_set_ints(&attrs, arena_of(e), "perm", perm, (size_t)rank);
  return carnot_emit(e, CARNOT_OP_TRANSPOSE, &attrs, &x, 1);
}

carnot_value* carnot_emit_unsqueeze(carnot_emitter* e, carnot_value* x, int64_t axis) {
  carnot_value* inputs[2] = {x, carnot_emit_ints(e, &axis, 1)};
  return carnot_emit(e, CARNOT_OP_UNSQUEEZE, NULL, inputs, 2);
}

carnot_value* carnot_emit_squeeze(carnot_emitter* e, carnot_value* x, int64_t axis) {
  carnot_value* inputs[2] = {x, carnot_emit_ints(e, &axis, 1)};
  return carnot_emit(e, CARNOT_OP_SQUEEZE, NULL, inputs, 2);
}

carnot_value* carnot_emit_concat(carnot_emitter* e, int64_t axis, carnot_value* const* parts,
                                 int count) {
  carnot_attrs attrs = {0};
  if (count == 1) return parts[0];
  carnot_attrs_set_int(&attrs, arena_of(e), "axis", axis);
  return carnot_emit(e, CARNOT_OP_CONCAT, &attrs, parts, count);
}

carnot_status* carnot_emit_replace(const carnot_emitter* e, carnot_node* node, carnot_value* made) {
  CARNOT_TRY(e->status);
  made->producer->precision = node->precision;
  carnot_node_absorb(made->producer, node);
  carnot_value_keep_range(made, node->outputs[0]);
  made->name = node->outputs[0]->name;
  carnot_value_replace(node->outputs[0], made);
  return NULL;
}
