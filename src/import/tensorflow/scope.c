// Finds what a name refers to and imports the nodes that it needs, without recursion: graphs are
// deep.
#include "import/tensorflow/scope.h"

#include <string.h>

#include "import/tensorflow/plugin.h"

// ---- scopes ----

// Control flow is read from all sides, before the handlers see its nodes.
static carnot_status* check_control(const tf_node* node) {
  static const struct {
    const char* op;
    size_t least;
  } kOps[] = {{"Switch", 2},   {"Merge", 1},    {"Enter", 1},       {"Exit", 1},
              {"LoopCond", 1}, {"_SwitchN", 2}, {"_SwitchRefN", 2}, {"NextIteration", 1}};
  const tf_slot slot = {.proto = node};
  for (size_t i = 0; i < sizeof(kOps) / sizeof(kOps[0]); i++)
    CARNOT_CHECK(
        node->input.count >= kOps[i].least || !tf_slot_is(&slot, kOps[i].op), INVALID_MODEL,
        "node \"" CARNOT_VIEW_FMT "\" (" CARNOT_VIEW_FMT "): %zu inputs; %zu are required",
        CARNOT_VIEW_ARG(node->name), CARNOT_VIEW_ARG(node->op), node->input.count, kOps[i].least);
  return NULL;
}

carnot_status* tf_scope_init(tf_importer* importer, tf_scope* scope, const tf_node_list* nodes,
                             carnot_block* block) {
  carnot_arena* arena = &importer->state.arena;
  void* slots;
  scope->block = block;
  scope->node_list = nodes;
  scope->root = scope;
  scope->nodes.arena = scope->args.arena = arena;
  CARNOT_TRY(carnot_arena_try(arena, nodes->count + 1, sizeof(tf_slot), "a graph", &slots));
  scope->slots = slots;
  CARNOT_TRY(carnot_arena_try(arena, nodes->count + 1, sizeof(tf_slot*), "a graph", &slots));
  scope->stack = slots;
  scope->slot_count = nodes->count;
  for (size_t i = 0; i < nodes->count; i++) {
    tf_slot* slot = &scope->slots[i];
    slot->proto = &nodes->items[i];
    CARNOT_CHECK(tf_is_name(slot->proto->name), INVALID_MODEL,
                 "node %zu has no name, or one with a zero byte", i);
    CARNOT_TRY(check_control(slot->proto));
    CARNOT_CHECK(!import_name_map_find(&scope->nodes, slot->proto->name), INVALID_MODEL,
                 "two nodes are called \"" CARNOT_VIEW_FMT "\"",
                 CARNOT_VIEW_ARG(slot->proto->name));
    import_name_map_set(&scope->nodes, slot->proto->name, slot);
  }
  return carnot_arena_status(arena);
}

static carnot_value* argument(const tf_scope* scope, const tf_reference* r) {
  const import_name_slot* arg =
      scope->function ? import_name_map_find(&scope->args, r->node) : NULL;
  return arg ? arg->item : NULL;
}

const tf_row* tf_slot_row(const tf_importer* importer, tf_slot* slot) {
  if (slot->row) return slot->row;
  slot->row = tf_row_find(slot->proto->op);
  if (!slot->row && import_name_map_find(&importer->functions, slot->proto->op))
    slot->row = tf_row_find(carnot_view("PartitionedCall"));
  if (!slot->row) slot->row = tf_plugin_row(slot->proto, &importer->state.graph->arena);
  return slot->row;
}

tf_slot* tf_scope_slot(tf_scope* scope, carnot_strview name) {
  const import_name_slot* found = import_name_map_find(&scope->nodes, name);
  if (found || scope->root == scope) return found ? found->item : NULL;
  found = import_name_map_find(&scope->root->nodes, name);
  if (!found) return NULL;
  tf_slot* slot = CARNOT_NEW(scope->nodes.arena, tf_slot);
  if (scope->nodes.arena->failed) return NULL;
  slot->proto = ((const tf_slot*)found->item)->proto;
  import_name_map_set(&scope->nodes, slot->proto->name, slot);
  return slot;
}

static carnot_status* find_slot(tf_scope* scope, const tf_reference* r, tf_slot** out) {
  *out = tf_scope_slot(scope, r->node);
  CARNOT_TRY(carnot_arena_status(scope->nodes.arena));
  CARNOT_CHECK(*out, INVALID_MODEL, "there is no node \"" CARNOT_VIEW_FMT "\"",
               CARNOT_VIEW_ARG(r->node));
  return NULL;
}

carnot_status* tf_scope_result(tf_scope* scope, carnot_strview text, carnot_value** out) {
  tf_reference r;
  tf_slot* slot = NULL;
  CARNOT_CHECK(tf_reference_read(text, &r), INVALID_MODEL,
               "\"" CARNOT_VIEW_FMT "\" is no reference to a result", CARNOT_VIEW_ARG(text));
  *out = argument(scope, &r);
  if (*out) return NULL;
  CARNOT_TRY(find_slot(scope, &r, &slot));
  const int64_t number = tf_output_number(slot, &r);
  if (slot->output_count == 1 && slot->outputs[0] == &import_poison) {
    *out = &import_poison;
    return NULL;
  }
  CARNOT_CHECK(number >= 0 && number < slot->output_count && slot->outputs[number], INVALID_MODEL,
               "\"" CARNOT_VIEW_FMT "\": node \"" CARNOT_VIEW_FMT "\" (" CARNOT_VIEW_FMT
               ") has no such result",
               CARNOT_VIEW_ARG(text), CARNOT_VIEW_ARG(slot->proto->name),
               CARNOT_VIEW_ARG(slot->proto->op));
  *out = slot->outputs[number];
  return NULL;
}

// ---- what a node needs ----

// The next node that |slot| will ask for and that nobody has begun; asked for now, as handlers that
// ask for it nest.
static carnot_status* next_asked(tf_importer* importer, tf_scope* scope, tf_slot* slot,
                                 tf_slot** out) {
  if (!slot->has_needs) CARNOT_TRY(tf_control_needs(importer, scope, slot));
  slot->has_needs = true;
  for (; slot->next_input < slot->need_count; slot->next_input++) {
    tf_reference r;
    tf_slot* input;
    if (!tf_reference_read(slot->needs[slot->next_input], &r) || r.is_control ||
        argument(scope, &r))
      continue;
    input = tf_scope_slot(scope, r.node);
    if (!input || input->state != TF_NEW) continue;
    *out = input;
    return NULL;
  }
  return carnot_arena_status(&importer->state.arena);
}

// The next node that |slot| needs and that is not imported; NULL: all are.
static carnot_status* next_needed(tf_importer* importer, tf_scope* scope, tf_slot* slot,
                                  tf_slot** out) {
  const tf_text_list* inputs = &slot->proto->input;
  *out = NULL;
  const tf_row* row = tf_slot_row(importer, slot);
  // What one that is not supported is computed from may not be supported either: all are named.
  if (row && row->least_inputs == TF_INPUTS_ON_DEMAND)
    return next_asked(importer, scope, slot, out);
  for (; slot->next_input < inputs->count; slot->next_input++) {
    tf_reference r;
    tf_slot* input = NULL;
    CARNOT_CHECK(tf_reference_read(inputs->items[slot->next_input], &r), INVALID_MODEL,
                 "\"" CARNOT_VIEW_FMT "\" is no reference to a result",
                 CARNOT_VIEW_ARG(inputs->items[slot->next_input]));
    if (r.is_control || argument(scope, &r)) continue;
    CARNOT_TRY(find_slot(scope, &r, &input));
    if (input->state == TF_DONE) continue;
    CARNOT_CHECK(input->state == TF_NEW, INVALID_MODEL, "the graph has a cycle through it");
    *out = input;
    return NULL;
  }
  return NULL;
}

typedef struct path {
  tf_slot** slots;
  size_t depth, capacity;
} path;

static carnot_status* push(tf_importer* importer, path* p, tf_slot* slot) {
  if (p->depth == p->capacity) {
    const size_t capacity = p->capacity ? 2 * p->capacity : 16;
    void* memory;
    CARNOT_TRY(carnot_arena_try(&importer->state.arena, capacity, sizeof(tf_slot*),
                                "a path in the graph", &memory));
    if (p->depth) memcpy(memory, p->slots, p->depth * sizeof(tf_slot*));
    p->slots = memory;
    p->capacity = capacity;
  }
  slot->state = TF_OPEN;
  p->slots[p->depth++] = slot;
  return NULL;
}

static carnot_status* import_needed(tf_importer* importer, tf_scope* scope, tf_slot* first) {
  path p = {NULL, 0, 0};
  if (first->state == TF_DONE) return NULL;
  CARNOT_TRY(push(importer, &p, first));
  while (p.depth) {
    tf_slot *slot = p.slots[p.depth - 1], *needed = NULL;
    CARNOT_TRY_AT(next_needed(importer, scope, slot, &needed), "node \"%s" CARNOT_VIEW_FMT "\"",
                  scope->prefix, CARNOT_VIEW_ARG(slot->proto->name));
    if (needed) {
      CARNOT_TRY(push(importer, &p, needed));
      continue;
    }
    if (slot->state != TF_DONE) CARNOT_TRY(tf_slot_import(importer, scope, slot));
    slot->state = TF_DONE;
    p.depth--;
  }
  return NULL;
}

carnot_status* tf_scope_value(tf_importer* importer, tf_scope* scope, carnot_strview text,
                              carnot_value** out_value) {
  tf_reference r;
  tf_slot* slot = NULL;
  CARNOT_CHECK(tf_reference_read(text, &r), INVALID_MODEL,
               "\"" CARNOT_VIEW_FMT "\" is no reference to a result", CARNOT_VIEW_ARG(text));
  *out_value = argument(scope, &r);
  if (*out_value) return NULL;
  CARNOT_TRY(find_slot(scope, &r, &slot));
  CARNOT_CHECK(importer->nesting < TF_MOST_NESTING, INVALID_MODEL,
               "node \"%s" CARNOT_VIEW_FMT
               "\": calls, conditions and loops are nested more than %d deep",
               scope->prefix, CARNOT_VIEW_ARG(r.node), TF_MOST_NESTING);
  importer->nesting++;
  carnot_status* status = import_needed(importer, scope, slot);
  importer->nesting--;
  CARNOT_TRY(status);
  return tf_scope_result(scope, text, out_value);
}
