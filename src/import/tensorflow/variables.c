// Finds the keys of variables in the restore graph. TensorFlow 1 assigns in the graph; TensorFlow 2
// calls a function with the variables' handles.
#include "import/tensorflow/variables.h"

enum { kMostSteps = 1000 };  // from a use to what made it

// The graph, or a function with the call that gives its arguments.
typedef struct level {
  const struct level* caller;  // NULL: the graph
  const tf_node* call;
  const tf_function* function;
  import_name_map nodes;
  int depth;
} level;

typedef struct origin {
  const level* level;
  const tf_node* node;
  int64_t index;  // of its results
} origin;

typedef struct search {
  tf_variables* variables;
  const tf_graph* graph;
  carnot_arena* arena;
} search;

static void index_nodes(level* l, const tf_node_list* nodes, carnot_arena* arena) {
  l->nodes.arena = arena;
  for (size_t i = 0; i < nodes->count; i++)
    import_name_map_set(&l->nodes, nodes->items[i].name, &nodes->items[i]);
}

// The argument of a call that |name| means; false where it is none.
static bool find_argument(const level* l, carnot_strview name, carnot_strview* out) {
  const tf_signature* s = l->function ? l->function->signature : NULL;
  for (size_t i = 0; s && i < s->input_arg.count && i < l->call->input.count; i++) {
    if (!carnot_view_equal(s->input_arg.items[i].name, name)) continue;
    *out = l->call->input.items[i];
    return true;
  }
  return false;
}

// The node that |text| comes from, behind Identity and arguments.
static bool find_origin(const level* l, carnot_strview text, origin* out) {
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
      *out = (origin){l, node, r.index};
      return true;
    }
    text = node->input.items[0];
  }
  return false;
}

// Text |index| of a constant.
static bool constant_text(const level* l, carnot_strview from, int64_t index, carnot_strview* out) {
  origin o;
  if (!find_origin(l, from, &o) || !carnot_view_is(o.node->op, "Const")) return false;
  const tf_attr_value* value = tf_attr_find(o.node, "value");
  if (!value || !value->tensor || index < 0 || (uint64_t)index >= value->tensor->string_val.count)
    return false;
  *out = value->tensor->string_val.items[index];
  return true;
}

// |node| gives a variable a value: if that is restored, its key is known. Slices of a variable
// have a key each and stay unknown.
static carnot_status* take_assignment(search* s, const level* l, const tf_node* node) {
  origin variable, value;
  carnot_strview key, slice;
  void* kept;
  if (node->input.count < 2 || !find_origin(l, node->input.items[0], &variable) ||
      !find_origin(l, node->input.items[1], &value) || variable.level->caller)
    return NULL;
  if (!carnot_view_is(value.node->op, "RestoreV2") || value.node->input.count < 3) return NULL;
  if (!constant_text(value.level, value.node->input.items[1], value.index, &key)) return NULL;
  if (constant_text(value.level, value.node->input.items[2], value.index, &slice) && slice.size)
    return NULL;
  CARNOT_TRY(carnot_arena_try(s->arena, 1, sizeof(carnot_strview), "a key", &kept));
  *(carnot_strview*)kept = key;
  import_name_map_set(&s->variables->keys, variable.node->name, kept);
  return carnot_arena_status(s->arena);
}

static const tf_function* function_of(const search* s, const tf_node* call) {
  const tf_attr_value* f = tf_attr_find(call, "f");
  const tf_library* library = s->graph->library;
  for (size_t i = 0; f && f->func && library && i < library->function.count; i++) {
    const tf_function* at = &library->function.items[i];
    if (at->signature && carnot_view_equal(at->signature->name, f->func->name)) return at;
  }
  return NULL;
}

static bool is_assignment(const tf_node* node) {
  return carnot_view_is(node->op, "AssignVariableOp") || carnot_view_is(node->op, "Assign");
}

static carnot_status* search_call(search* s, const level* caller, const tf_node* call) {
  const tf_function* f = function_of(s, call);
  if (!f || caller->depth >= TF_MOST_DEPTH) return NULL;
  level l = {.caller = caller, .call = call, .function = f, .depth = caller->depth + 1};
  index_nodes(&l, &f->node_def, s->arena);
  CARNOT_TRY(carnot_arena_status(s->arena));
  for (size_t i = 0; i < f->node_def.count; i++) {
    const tf_node* node = &f->node_def.items[i];
    if (is_assignment(node)) CARNOT_TRY(take_assignment(s, &l, node));
    if (carnot_view_is(node->op, "StatefulPartitionedCall")) CARNOT_TRY(search_call(s, &l, node));
  }
  return NULL;
}

carnot_status* tf_variables_find_keys(tf_variables* variables, const tf_meta_graph* meta,
                                      carnot_arena* arena) {
  search s = {variables, meta->graph_def, arena};
  level graph = {0};
  tf_reference restore = {.node = {NULL, 0}};
  if (meta->saver_def) (void)tf_reference_read(meta->saver_def->restore_op_name, &restore);
  variables->keys.arena = arena;
  index_nodes(&graph, &s.graph->node, arena);
  CARNOT_TRY(carnot_arena_status(arena));
  for (size_t i = 0; i < s.graph->node.count; i++) {
    const tf_node* node = &s.graph->node.items[i];
    if (is_assignment(node)) CARNOT_TRY(take_assignment(&s, &graph, node));
    if (restore.node.size && carnot_view_equal(node->name, restore.node))
      CARNOT_TRY(search_call(&s, &graph, node));
  }
  return NULL;
}
