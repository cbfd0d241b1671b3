// What calls, conditionals and loops share.
#include "import/tensorflow/control.h"

#include <string.h>

#include "import/tensorflow/complex.h"

// ---- results of handlers ----

bool tf_is_poisoned(carnot_value* const* values, int count) {
  for (int i = 0; i < count; i++)
    if (values[i] == &import_poison) return true;
  return false;
}

carnot_value* tf_new_param(tf_import* n, carnot_block* block, const carnot_type* type) {
  const char* name = import_unique_name(
      n->node.state, "", carnot_view(carnot_arena_print(n->node.arena, "%s/arg", n->node.name)));
  return carnot_block_add_param(block, name, type);
}

void tf_poison(tf_import* n) {
  n->output_count = 1;
  n->outputs[0] = &import_poison;
}

void tf_note_placed(tf_import* n, carnot_status* status) {
  if (!status) return;
  if (n->node.status)
    carnot_status_free(status);
  else
    n->node.status = status, n->node.placed = true;
}

carnot_value* tf_capture(tf_import* n, carnot_block* block, carnot_value* value,
                         carnot_value** given, int* count) {
  carnot_value* inside[2];
  const int parts = tf_is_complex(value) ? 2 : 1;
  if (tf_is_handle(value)) return value;
  for (int i = 0; i < parts; i++) {
    given[*count] = parts == 2 ? tf_complex_part(n, value, i) : value;
    inside[i] = tf_new_param(n, block, &given[(*count)++]->type);
  }
  return parts == 2 ? tf_complex_new(n, inside[0], inside[1]) : inside[0];
}

bool tf_widen(tf_import* n, carnot_type* type, const carnot_type* next) {
  bool changed = false;
  if (type->kind != CARNOT_VALUE_TENSOR || next->kind != CARNOT_VALUE_TENSOR || type->rank < 0)
    return false;
  if (next->rank != type->rank) {
    type->rank = -1;
    return true;
  }
  for (int i = 0; i < type->rank; i++) {
    if (carnot_sym_same(type->dims[i], next->dims[i]) || !carnot_sym_is_const(type->dims[i]))
      continue;
    type->dims[i] = carnot_sym_new(&n->node.state->graph->syms, NULL, 0, CARNOT_DIM_UNBOUNDED);
    changed = true;
  }
  return changed;
}

// ---- nodes of TensorFlow 1's control flow ----

tf_slot* tf_slot_named(const tf_scope* scope, carnot_strview text) {
  if (text.size && text.data[0] == '^') text.data++, text.size--;
  const char* colon = text.size ? memchr(text.data, ':', text.size) : NULL;
  if (colon) text.size = (size_t)(colon - text.data);
  const import_name_slot* found = import_name_map_find(&scope->root->nodes, text);
  return found ? found->item : NULL;
}

tf_slot* tf_slot_input(const tf_scope* scope, const tf_slot* slot, size_t input) {
  return slot && input < slot->proto->input.count
             ? tf_slot_named(scope, slot->proto->input.items[input])
             : NULL;
}

carnot_status* tf_slot_preset(tf_importer* importer, tf_slot* slot, carnot_value* value,
                              int count) {
  void* outputs;
  if (!slot) return carnot_arena_status(&importer->state.arena);
  if (value == &import_poison) count = 1;
  CARNOT_TRY(carnot_arena_try(&importer->state.arena, (size_t)count + 1, sizeof(carnot_value*),
                              "results", &outputs));
  slot->outputs = outputs;
  for (int i = 0; i < count; i++) slot->outputs[i] = value;
  slot->output_count = count;
  slot->state = TF_DONE;
  return NULL;
}

carnot_status* tf_inner_scope(tf_import* n, carnot_block* block, tf_scope* out) {
  const tf_scope* outer = n->scope;
  CARNOT_CHECK(outer->depth < TF_MOST_DEPTH, INVALID_MODEL,
               "loops and conditionals nested more than %d deep", TF_MOST_DEPTH);
  *out = (tf_scope){.function = outer->function,
                    .depth = outer->depth + 1,
                    .root = outer->root,
                    .prefix = outer->prefix,
                    .node_list = outer->node_list,
                    .block = block};
  out->nodes.arena = out->args.arena = &n->importer->state.arena;
  // Arguments of a function are values of the block around: they are captured when asked for.
  return NULL;
}

// ---- walks ----

tf_walk tf_walk_begin(tf_importer* importer, const tf_scope* scope) {
  return (tf_walk){.scope = scope->root, .number = ++importer->walk_count};
}

void tf_walk_visit(tf_walk* w, tf_slot* slot) {
  if (!slot || slot->walk == w->number) return;
  slot->walk = w->number;
  w->scope->stack[w->depth++] = slot;
}

void tf_walk_visit_inputs(tf_walk* w, const tf_slot* slot) {
  for (size_t i = 0; i < slot->proto->input.count; i++) {
    const carnot_strview input = slot->proto->input.items[i];
    if (input.size && input.data[0] != '^') tf_walk_visit(w, tf_slot_named(w->scope, input));
  }
}

tf_slot* tf_walk_next(tf_walk* w) { return w->depth ? w->scope->stack[--w->depth] : NULL; }

carnot_status* tf_control_needs(tf_importer* importer, tf_scope* scope, tf_slot* slot) {
  carnot_strview found[TF_MOST_NEEDS];
  void* kept;
  size_t count = 0;
  if (tf_slot_is(slot, "Exit")) count = tf_exit_needs(importer, scope, slot, found);
  if (tf_slot_is(slot, "Merge")) count = tf_merge_needs(importer, scope, slot, found);
  if (!count) return NULL;
  CARNOT_TRY(
      carnot_arena_try(&importer->state.arena, count, sizeof(carnot_strview), "references", &kept));
  memcpy(kept, found, count * sizeof(carnot_strview));
  slot->needs = kept;
  slot->need_count = count;
  return NULL;
}
