// The state of one import: unique names, and the list of nodes that are not supported.
#include "import/common/state.h"

carnot_value import_poison;

carnot_status* import_state_init(import_state* state, carnot_graph* graph) {
  *state = (import_state){.graph = graph};
  state->used_names.arena = &state->arena;
  CARNOT_TRY(carnot_arena_prepare(&state->arena));
  const carnot_block* block = graph->main;
  for (size_t i = 0; i < block->param_count; i++)
    import_name_map_set(&state->used_names, carnot_view(block->params[i]->name), NULL);
  for (const carnot_node* node = block->first; node; node = node->next)
    for (int i = 0; i < node->output_count; i++)
      if (node->outputs[i])
        import_name_map_set(&state->used_names, carnot_view(node->outputs[i]->name), NULL);
  return carnot_arena_status(&state->arena);
}

void import_state_deinit(import_state* state) { carnot_arena_deinit(&state->arena); }

const char* import_unique_name(import_state* state, const char* prefix, carnot_strview name) {
  carnot_arena* arena = &state->arena;
  char* text = carnot_arena_print(arena, "%s" CARNOT_VIEW_FMT, prefix, CARNOT_VIEW_ARG(name));
  for (int i = 2; !arena->failed && import_name_map_find(&state->used_names, carnot_view(text));
       i++)
    text = carnot_arena_print(arena, "%s" CARNOT_VIEW_FMT "#%d", prefix, CARNOT_VIEW_ARG(name), i);
  import_name_map_set(&state->used_names, carnot_view(text), NULL);
  return text;
}

void import_note_unsupported(import_state* state, const char* line) {
  enum { kMostLines = 1000 };
  if (++state->unsupported_count > kMostLines) return;
  state->unsupported = carnot_arena_print(&state->arena, "%s\n  %s",
                                          state->unsupported ? state->unsupported : "", line);
}

carnot_status* import_state_check(const import_state* state) {
  if (!state->unsupported) return NULL;
  bool one = state->unsupported_count == 1;
  return CARNOT_ERROR(UNSUPPORTED, "%zu node%s of the model %s not supported:%s",
                      state->unsupported_count, one ? "" : "s", one ? "is" : "are",
                      state->unsupported);
}
