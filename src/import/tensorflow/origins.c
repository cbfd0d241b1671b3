// Follows values of a graph back to the nodes that make them.
#include "import/tensorflow/origins.h"

enum { kMostSteps = 1000 };  // from a use to what made it

carnot_status* tf_level_index(tf_level* level, const tf_node_list* nodes, carnot_arena* arena) {
  level->nodes.arena = arena;
  for (size_t i = 0; i < nodes->count; i++)
    import_name_map_set(&level->nodes, nodes->items[i].name, &nodes->items[i]);
  return carnot_arena_status(arena);
}

// The argument of a call that |name| means; false where it is none.
static bool find_argument(const tf_level* l, carnot_strview name, carnot_strview* out) {
  const tf_signature* s = l->function ? l->function->signature : NULL;
  for (size_t i = 0; s && i < s->input_arg.count && i < l->call->input.count; i++) {
    if (!carnot_view_equal(s->input_arg.items[i].name, name)) continue;
    *out = l->call->input.items[i];
    return true;
  }
  return false;
}

bool tf_origin_find(const tf_level* l, carnot_strview text, tf_origin* out) {
  for (int step = 0; step < kMostSteps; step++) {
    tf_reference r;
    if (!tf_reference_read(text, &r)) return false;
    if (find_argument(l, r.node, &text)) {
      l = l->caller;
      continue;
    }
    const import_name_slot* found = import_name_map_find(&l->nodes, r.node);
    if (!found) return false;
    const tf_node* node = found->item;
    if (!carnot_view_is(node->op, "Identity") || !node->input.count) {
      *out = (tf_origin){l, node, r.index};
      return true;
    }
    text = node->input.items[0];
  }
  return false;
}

const tf_tensor* tf_origin_constant(const tf_level* l, carnot_strview text) {
  tf_origin o;
  if (!tf_origin_find(l, text, &o) || !carnot_view_is(o.node->op, "Const")) return NULL;
  const tf_attr_value* value = tf_attr_find(o.node, "value");
  return value ? value->tensor : NULL;
}

bool tf_origin_text(const tf_level* l, carnot_strview text, int64_t index, carnot_strview* out) {
  const tf_tensor* t = tf_origin_constant(l, text);
  if (!t || index < 0 || (uint64_t)index >= t->string_val.count) return false;
  *out = t->string_val.items[index];
  return true;
}

// ---- calls ----

static const tf_function* function_of(const tf_graph* graph, const tf_node* call) {
  const tf_attr_value* f = tf_attr_find(call, "f");
  const tf_library* library = graph->library;
  for (size_t i = 0; f && f->func && library && i < library->function.count; i++) {
    const tf_function* at = &library->function.items[i];
    if (at->signature && carnot_view_equal(at->signature->name, f->func->name)) return at;
  }
  return NULL;
}

carnot_status* tf_visit_call(const tf_graph* graph, carnot_arena* arena, const tf_level* caller,
                             const tf_node* call, int* calls_left, tf_visitor visit,
                             void* context) {
  const tf_function* f = function_of(graph, call);
  if (!f || caller->depth >= TF_MOST_DEPTH || *calls_left <= 0) return NULL;
  --*calls_left;
  tf_level l = {.caller = caller, .call = call, .function = f, .depth = caller->depth + 1};
  CARNOT_TRY(tf_level_index(&l, &f->node_def, arena));
  for (size_t i = 0; i < f->node_def.count; i++) {
    const tf_node* node = &f->node_def.items[i];
    CARNOT_TRY(visit(context, &l, node));
    if (carnot_view_is(node->op, "StatefulPartitionedCall") ||
        carnot_view_is(node->op, "PartitionedCall"))
      CARNOT_TRY(tf_visit_call(graph, arena, &l, node, calls_left, visit, context));
  }
  return NULL;
}
