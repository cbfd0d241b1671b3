// The state of one import: unique names, and the list of nodes that are not supported.
#include "import/common/state.h"

#include <stdio.h>
#include <string.h>

carnot_value import_poison;

carnot_status* import_state_init(import_state* state, carnot_graph* graph) {
  *state = (import_state){.graph = graph};
  state->used_names.arena = state->noted.arena = &state->arena;
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

// |line| with dots in place of its middle where it is longer than IMPORT_MAX_NOTE.
static carnot_strview shortened(import_state* state, const char* line) {
  enum { kHead = 2 * IMPORT_MAX_NOTE / 5, kTail = IMPORT_MAX_NOTE - kHead - 3 };
  const size_t size = strlen(line);
  if (size <= IMPORT_MAX_NOTE) return (carnot_strview){line, size};
  const char* cut =
      carnot_arena_print(&state->arena, "%.*s...%s", kHead, line, line + size - kTail);
  return (carnot_strview){cut, IMPORT_MAX_NOTE};
}

void import_note_unsupported(import_state* state, const char* line) {
  if (state->is_quiet || state->arena.failed) return;
  const carnot_strview text = shortened(state, line);
  if (state->arena.failed || import_name_map_find(&state->noted, text)) return;
  import_name_map_set(&state->noted, text, NULL);
  state->unsupported_count++;
  if (!state->unsupported)
    state->unsupported = CARNOT_NEW_ARRAY(&state->arena, char, IMPORT_MAX_NOTES);
  const size_t left = IMPORT_MAX_NOTES - state->unsupported_size;
  if (state->arena.failed || text.size + 4 > left) return;
  state->unsupported_size += (size_t)snprintf(state->unsupported + state->unsupported_size, left,
                                              "\n  " CARNOT_VIEW_FMT, CARNOT_VIEW_ARG(text));
  state->unsupported_lines++;
}

carnot_status* import_state_check(const import_state* state) {
  const size_t count = state->unsupported_count, hidden = count - state->unsupported_lines;
  if (!count) return NULL;
  char more[40] = "";
  if (hidden) snprintf(more, sizeof(more), "\n  and %zu more", hidden);
  return CARNOT_ERROR(UNSUPPORTED, "%zu node%s of the model %s not supported:%s%s", count,
                      count == 1 ? "" : "s", count == 1 ? "is" : "are", state->unsupported, more);
}
