// Finds the keys of variables in the restore graph. TensorFlow 1 assigns in the graph; TensorFlow 2
// calls a function with the variables' handles.
#include "import/tensorflow/variables.h"

#include "import/tensorflow/origins.h"

typedef struct search {
  tf_variables* variables;
  carnot_arena* arena;
} search;

// |node| may give a variable a value: if that is restored, its key is known.
static carnot_status* take_assignment(void* context, const tf_level* l, const tf_node* node) {
  search* s = context;
  tf_origin variable, value;
  tf_variable_key where = {0};
  void* kept;
  if (!carnot_view_is(node->op, "AssignVariableOp") && !carnot_view_is(node->op, "Assign"))
    return NULL;
  if (node->input.count < 2 || !tf_origin_find(l, node->input.items[0], &variable) ||
      !tf_origin_find(l, node->input.items[1], &value) || variable.level->caller)
    return NULL;
  const tf_text_list* from = &value.node->input;
  if (!carnot_view_is(value.node->op, "RestoreV2") || from->count < 3) return NULL;
  if (!tf_origin_text(value.level, from->items[1], value.index, &where.key)) return NULL;
  (void)tf_origin_text(value.level, from->items[2], value.index, &where.slice);
  CARNOT_TRY(carnot_arena_try(s->arena, 1, sizeof(where), "a key", &kept));
  *(tf_variable_key*)kept = where;
  import_name_map_set(&s->variables->keys, variable.node->name, kept);
  return carnot_arena_status(s->arena);
}

carnot_status* tf_variables_find_keys(tf_variables* variables, const tf_meta_graph* meta,
                                      carnot_arena* arena) {
  search s = {variables, arena};
  const tf_graph* graph = meta->graph_def;
  tf_level level = {0};
  tf_reference restore = {.node = {NULL, 0}};
  int calls_left = TF_MOST_CALLS;
  if (meta->saver_def) (void)tf_reference_read(meta->saver_def->restore_op_name, &restore);
  variables->keys.arena = arena;
  CARNOT_TRY(tf_level_index(&level, &graph->node, arena));
  for (size_t i = 0; i < graph->node.count; i++) {
    const tf_node* node = &graph->node.items[i];
    CARNOT_TRY(take_assignment(&s, &level, node));
    if (restore.node.size && carnot_view_equal(node->name, restore.node))
      CARNOT_TRY(tf_visit_call(graph, arena, &level, node, &calls_left, take_assignment, &s));
  }
  return NULL;
}
