// Finds what a name refers to and imports the nodes that it needs, without recursion: graphs are
// deep.
#include "import/tensorflow/scope.h"

#include <string.h>

// ---- references ----

static bool parse_index(carnot_strview text, int64_t* out) {
  int64_t value = 0;
  if (!text.size || text.size > 9) return false;
  for (size_t i = 0; i < text.size; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return false;
    value = value * 10 + (text.data[i] - '0');
  }
  *out = value;
  return true;
}

// Cuts what is behind the first colon off |text|; empty where there is none.
static carnot_strview cut(carnot_strview* text) {
  const char* colon = text->size ? memchr(text->data, ':', text->size) : NULL;
  carnot_strview rest = {NULL, 0};
  if (!colon) return rest;
  rest.data = colon + 1;
  rest.size = text->size - (size_t)(colon + 1 - text->data);
  text->size = (size_t)(colon - text->data);
  return rest;
}

bool tf_reference_read(carnot_strview text, tf_reference* out) {
  *out = (tf_reference){.node = text};
  if (text.size && text.data[0] == '^') {
    out->is_control = true;
    out->node = (carnot_strview){text.data + 1, text.size - 1};
    return true;
  }
  carnot_strview second = cut(&out->node), third = cut(&second);
  if (!second.size) return out->node.size > 0;
  if (!third.size) {
    if (parse_index(second, &out->index)) return true;
    out->output = second;
    return true;
  }
  out->output = second;
  return parse_index(third, &out->index);
}

// The flat number of the output that a reference means; -1: the row does not name it.
static int64_t output_number(const tf_slot* slot, const tf_reference* r) {
  const tf_row* row = tf_row_find(slot->proto->op);
  if (!r->output.size || !row || !row->outputs) return r->index;
  int64_t number = 0;
  for (const char* at = row->outputs; *at; number++) {
    const size_t length = strcspn(at, " ");
    if (carnot_view_equal(r->output, (carnot_strview){at, length})) return number + r->index;
    at += length + (at[length] == ' ');
  }
  return -1;
}

// ---- scopes ----

bool tf_is_name(carnot_strview text) { return text.size && !memchr(text.data, 0, text.size); }

// Control flow is read from all sides, before the handlers see its nodes.
static carnot_status* check_control(const tf_node* node) {
  static const struct {
    const char* op;
    size_t least;
  } kOps[] = {{"Switch", 2}, {"Merge", 1},         {"Enter", 1},    {"RefSwitch", 2},
              {"Exit", 1},   {"NextIteration", 1}, {"LoopCond", 1}, {"RefEnter", 1}};
  for (size_t i = 0; i < sizeof(kOps) / sizeof(kOps[0]); i++)
    CARNOT_CHECK(node->input.count >= kOps[i].least || !carnot_view_is(node->op, kOps[i].op),
                 INVALID_MODEL, "node \"" CARNOT_VIEW_FMT "\" (%s): %zu inputs; %zu are required",
                 CARNOT_VIEW_ARG(node->name), kOps[i].op, node->input.count, kOps[i].least);
  return NULL;
}

carnot_status* tf_scope_init(tf_importer* importer, tf_scope* scope, const tf_node_list* nodes,
                             carnot_block* block) {
  carnot_arena* arena = &importer->state.arena;
  void* slots;
  scope->block = block;
  scope->node_list = nodes;
  scope->nodes.arena = scope->args.arena = arena;
  CARNOT_TRY(carnot_arena_try(arena, nodes->count + 1, sizeof(tf_slot), "a graph", &slots));
  scope->slots = slots;
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

// The row of a node's operator, which may be a function of the library; NULL: none.
static const tf_row* row_of(const tf_importer* importer, const tf_node* node) {
  const tf_row* row = tf_row_find(node->op);
  if (!row && import_name_map_find(&importer->functions, node->op))
    row = tf_row_find(carnot_view("PartitionedCall"));
  return row;
}

static carnot_status* find_slot(const tf_scope* scope, const tf_reference* r, tf_slot** out) {
  const import_name_slot* found = import_name_map_find(&scope->nodes, r->node);
  CARNOT_CHECK(found, INVALID_MODEL, "there is no node \"" CARNOT_VIEW_FMT "\"",
               CARNOT_VIEW_ARG(r->node));
  *out = found->item;
  return NULL;
}

// ---- one node ----

static carnot_status* value_of(const tf_scope* scope, carnot_strview text, carnot_value** out) {
  tf_reference r;
  tf_slot* slot = NULL;
  CARNOT_CHECK(tf_reference_read(text, &r), INVALID_MODEL,
               "\"" CARNOT_VIEW_FMT "\" is no reference to a result", CARNOT_VIEW_ARG(text));
  *out = argument(scope, &r);
  if (*out) return NULL;
  CARNOT_TRY(find_slot(scope, &r, &slot));
  const int64_t number = output_number(slot, &r);
  slot->is_read = true;
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

static carnot_status* poison(tf_importer* importer, tf_slot* slot) {
  void* outputs;
  CARNOT_TRY(
      carnot_arena_try(&importer->state.arena, 1, sizeof(carnot_value*), "results", &outputs));
  slot->outputs = outputs;
  slot->outputs[0] = &import_poison;
  slot->output_count = 1;
  return NULL;
}

static carnot_status* note_unsupported(tf_importer* importer, const tf_scope* scope, tf_slot* slot,
                                       const char* reason) {
  const char* line = carnot_arena_print(
      &importer->state.arena, "node \"%s" CARNOT_VIEW_FMT "\": operator " CARNOT_VIEW_FMT ": %s",
      scope->prefix, CARNOT_VIEW_ARG(slot->proto->name), CARNOT_VIEW_ARG(slot->proto->op), reason);
  import_note_unsupported(&importer->state, line);
  return poison(importer, slot);
}

// The values of a handler get the node's names: the first "node", others "node:1".
static carnot_status* keep_outputs(tf_importer* importer, tf_import* n, tf_slot* slot,
                                   uint32_t first_node) {
  void* outputs;
  CARNOT_TRY(carnot_arena_try(&importer->state.arena, (size_t)n->output_count + 1,
                              sizeof(carnot_value*), "results", &outputs));
  slot->outputs = outputs;
  slot->output_count = n->output_count;
  for (int i = 0; i < n->output_count; i++) {
    carnot_value* value = slot->outputs[i] = n->outputs[i];
    if (!value || !value->producer || value->producer->id < first_node) continue;
    const char* name =
        i ? carnot_arena_print(n->node.arena, "%s:%d", n->node.name, i) : n->node.name;
    name = import_unique_name(&importer->state, "", carnot_view(name));
    value->name = carnot_arena_text(n->node.arena, name, strlen(name));
  }
  return NULL;
}

// Handles of variables are passed on by these, and read by the rest of them.
static bool takes_handles(carnot_strview op) {
  static const char* const kOps[] = {
      "ReadVariableOp", "ResourceGather", "Identity",       "PartitionedCall",        "If",
      "StatelessIf",    "While",          "StatelessWhile", "StatefulPartitionedCall"};
  for (size_t i = 0; i < sizeof(kOps) / sizeof(kOps[0]); i++)
    if (carnot_view_is(op, kOps[i])) return true;
  return false;
}

static carnot_status* run_handler(tf_importer* importer, tf_scope* scope, tf_slot* slot,
                                  tf_import* n) {
  const tf_node* proto = slot->proto;
  const int least = n->row->least_inputs, most = n->row->most_inputs;
  carnot_graph* graph = importer->state.graph;
  n->inputs = CARNOT_NEW_ARRAY(&importer->state.arena, carnot_value*, proto->input.count + 1);
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  const bool on_demand = least == TF_INPUTS_ON_DEMAND;
  for (size_t i = 0; i < proto->input.count && !on_demand; i++) {
    if (proto->input.items[i].size && proto->input.items[i].data[0] == '^') continue;
    carnot_value* value = NULL;
    CARNOT_TRY(value_of(scope, proto->input.items[i], &value));
    if (value == &import_poison) return poison(importer, slot);
    if (tf_is_handle(value) && !takes_handles(proto->op))
      return note_unsupported(importer, scope, slot, "it reads a variable's handle");
    n->inputs[n->input_count++] = value;
  }
  CARNOT_CHECK(n->input_count >= least && (most < 0 || n->input_count <= most), INVALID_MODEL,
               "%d inputs; %d to %d are required", n->input_count, least, most < 0 ? 100000 : most);
  carnot_value* outputs[TF_MOST_OUTPUTS] = {NULL};
  n->outputs = outputs;
  n->output_count = 1;
  const uint32_t first_node = graph->node_count;
  n->row->handler(n);
  if (n->node.status && carnot_status_code(n->node.status) == CARNOT_UNSUPPORTED &&
      !n->node.placed) {
    carnot_status* status =
        note_unsupported(importer, scope, slot, carnot_status_message(n->node.status));
    carnot_status_free(n->node.status);
    n->node.status = NULL;
    return status;
  }
  CARNOT_TRY(n->node.status);
  return keep_outputs(importer, n, slot, first_node);
}

static carnot_status* import_slot(tf_importer* importer, tf_scope* scope, tf_slot* slot) {
  const tf_node* proto = slot->proto;
  carnot_graph* graph = importer->state.graph;
  const tf_row* row = row_of(importer, proto);
  if (!row) return note_unsupported(importer, scope, slot, "no such operator is known");
  const char* name = carnot_arena_print(&graph->arena, "%s" CARNOT_VIEW_FMT, scope->prefix,
                                        CARNOT_VIEW_ARG(proto->name));
  tf_import n = {.node = {.state = &importer->state,
                          .block = scope->block,
                          .arena = &graph->arena,
                          .name = name},
                 .importer = importer,
                 .scope = scope,
                 .proto = proto,
                 .row = row};
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  CARNOT_TRY(carnot_graph_status(graph));
  carnot_status* status = run_handler(importer, scope, slot, &n);
  if (!status || n.node.placed) return status;
  return carnot_status_annotate(status, "node \"%s\" (" CARNOT_VIEW_FMT ")", name,
                                CARNOT_VIEW_ARG(proto->op));
}

// ---- what a node needs ----

// The next node that |slot| needs and that is not imported; NULL: all are.
static carnot_status* next_needed(const tf_importer* importer, tf_scope* scope, tf_slot* slot,
                                  tf_slot** out) {
  const tf_text_list* inputs = &slot->proto->input;
  *out = NULL;
  const tf_row* row = row_of(importer, slot->proto);
  // What one that is not supported is computed from may not be supported either: all are named.
  if (row && row->least_inputs == TF_INPUTS_ON_DEMAND) return NULL;
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

static carnot_status* import_needed(tf_importer* importer, tf_scope* scope, tf_slot* first) {
  void* memory;
  size_t depth = 0;
  if (first->state == TF_DONE) return NULL;
  CARNOT_TRY(carnot_arena_try(&importer->state.arena, scope->slot_count + 1, sizeof(tf_slot*),
                              "a path in the graph", &memory));
  tf_slot** path = memory;
  path[depth++] = first;
  first->state = TF_OPEN;
  while (depth) {
    tf_slot *slot = path[depth - 1], *needed = NULL;
    CARNOT_TRY_AT(next_needed(importer, scope, slot, &needed), "node \"%s" CARNOT_VIEW_FMT "\"",
                  scope->prefix, CARNOT_VIEW_ARG(slot->proto->name));
    if (needed) {
      needed->state = TF_OPEN;
      path[depth++] = needed;
      continue;
    }
    CARNOT_TRY(import_slot(importer, scope, slot));
    slot->state = TF_DONE;
    depth--;
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
  return value_of(scope, text, out_value);
}

// ---- functions ----

static carnot_status* bind_arguments(const tf_function* f, tf_scope* scope,
                                     carnot_value* const* args, int count) {
  CARNOT_CHECK(f->signature->input_arg.count == (size_t)count, INVALID_MODEL,
               "function \"" CARNOT_VIEW_FMT "\" takes %zu arguments; %d are given",
               CARNOT_VIEW_ARG(f->signature->name), f->signature->input_arg.count, count);
  for (int i = 0; i < count; i++)
    import_name_map_set(&scope->args, f->signature->input_arg.items[i].name, args[i]);
  return NULL;
}

static carnot_status* result_of(tf_importer* importer, tf_scope* scope, const tf_function* f,
                                carnot_strview name, carnot_value** out) {
  for (size_t i = 0; i < f->ret.count; i++)
    if (carnot_view_equal(f->ret.items[i].key, name))
      return tf_scope_value(importer, scope, f->ret.items[i].value, out);
  return CARNOT_ERROR(INVALID_MODEL, "function \"" CARNOT_VIEW_FMT "\" returns no " CARNOT_VIEW_FMT,
                      CARNOT_VIEW_ARG(f->signature->name), CARNOT_VIEW_ARG(name));
}

carnot_status* tf_function_inline(tf_import* n, carnot_strview name, carnot_block* block,
                                  carnot_value* const* args, int count, carnot_value** outputs,
                                  int* out_count) {
  const import_name_slot* found = import_name_map_find(&n->importer->functions, name);
  CARNOT_CHECK(found, INVALID_MODEL, "node \"%s\": there is no function \"" CARNOT_VIEW_FMT "\"",
               n->node.name, CARNOT_VIEW_ARG(name));
  CARNOT_CHECK(n->scope->depth < TF_MOST_DEPTH, INVALID_MODEL,
               "function \"" CARNOT_VIEW_FMT "\" is called more than %d deep",
               CARNOT_VIEW_ARG(name), TF_MOST_DEPTH);
  CARNOT_CHECK(n->importer->call_count++ < TF_MOST_CALLS, OUT_OF_RANGE,
               "node \"%s\": more than %d calls of functions are inlined", n->node.name,
               TF_MOST_CALLS);
  const tf_function* f = found->item;
  tf_scope scope = {.function = f, .depth = n->scope->depth + 1};
  scope.prefix = carnot_arena_print(n->node.arena, "%s/", n->node.name);
  CARNOT_TRY(tf_scope_init(n->importer, &scope, &f->node_def, block));
  CARNOT_TRY(bind_arguments(f, &scope, args, count));
  *out_count = (int)f->signature->output_arg.count;
  CARNOT_CHECK(*out_count <= TF_MOST_OUTPUTS, UNSUPPORTED, "%d results; at most %d are supported",
               *out_count, TF_MOST_OUTPUTS);
  for (int i = 0; i < *out_count; i++)
    CARNOT_TRY(
        result_of(n->importer, &scope, f, f->signature->output_arg.items[i].name, &outputs[i]));
  return NULL;
}
