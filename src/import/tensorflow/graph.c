// A TensorFlow graph: the file, inputs, outputs.
#include <string.h>

#include "import/tensorflow/scope.h"

static carnot_status* read_functions(tf_importer* importer) {
  const tf_library* library = importer->graph->library;
  for (size_t i = 0; library && i < library->function.count; i++) {
    const tf_function* f = &library->function.items[i];
    CARNOT_CHECK(f->signature, INVALID_MODEL, "function %zu of the library has no signature", i);
    import_name_map_set(&importer->functions, f->signature->name, (void*)(uintptr_t)f);
  }
  return carnot_arena_status(&importer->state.arena);
}

static bool is_one_of(carnot_strview op, const char* const* names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (carnot_view_is(op, names[i])) return true;
  return false;
}

// Nodes that are no results: what only checks, saves or orders.
static bool is_no_result(carnot_strview op) {
  static const char* const kOps[] = {"NoOp",
                                     "Assert",
                                     "Print",
                                     "PrintV2",
                                     "SaveV2",
                                     "RestoreV2",
                                     "MergeV2Checkpoints",
                                     "ShardedFilename",
                                     "AssignVariableOp",
                                     "Assign",
                                     "VarIsInitializedOp",
                                     "Const",
                                     "Placeholder",
                                     "PlaceholderWithDefault",
                                     "InitializeTableV2"};
  return is_one_of(op, kOps, sizeof(kOps) / sizeof(kOps[0]));
}

// An input in place of a node: of the type of the node's own result.
static carnot_status* cut_input(tf_importer* importer, tf_scope* scope, const char* text) {
  carnot_strview name = carnot_view(text);
  if (name.size > 2 && memcmp(name.data + name.size - 2, ":0", 2) == 0) name.size -= 2;
  const import_name_slot* found = import_name_map_find(&scope->nodes, name);
  CARNOT_CHECK(found, NOT_FOUND, "input " CARNOT_VIEW_FMT " is no node of the graph",
               CARNOT_VIEW_ARG(name));
  tf_slot* slot = found->item;
  if (carnot_view_is(slot->proto->op, "Placeholder")) return NULL;
  carnot_value* value;
  CARNOT_TRY(tf_scope_value(importer, scope, name, &value));
  CARNOT_CHECK(value != &import_poison && value->type.kind == CARNOT_VALUE_TENSOR, UNSUPPORTED,
               "input " CARNOT_VIEW_FMT ": its type is not known", CARNOT_VIEW_ARG(name));
  const carnot_type type = value->type;
  const char* unique =
      import_unique_name(&importer->state, "",
                         carnot_view(carnot_arena_print(&importer->state.arena, CARNOT_VIEW_FMT,
                                                        CARNOT_VIEW_ARG(name))));
  slot->outputs[0] = carnot_block_add_param(scope->block, unique, &type);
  return NULL;
}

static carnot_status* mark(tf_importer* importer, tf_scope* scope, carnot_strview name) {
  carnot_value* value;
  CARNOT_TRY(tf_scope_value(importer, scope, name, &value));
  if (value == &import_poison) return NULL;
  if (name.size > 2 && memcmp(name.data + name.size - 2, ":0", 2) == 0) name.size -= 2;
  // What an Identity passes on has another name; constants and inputs are copied.
  if (!value->producer || !carnot_view_is(name, value->name) || value->block_output_count) {
    const char* output = import_unique_name(&importer->state, "", name);
    carnot_node* node;
    CARNOT_TRY(carnot_block_add_node(scope->block, CARNOT_OP_IDENTITY, NULL, NULL, &value, 1,
                                     &output, 1, &node));
    value = node->outputs[0];
  }
  carnot_block_add_output(scope->block, value);
  return NULL;
}

// Nodes that no other reads.
static carnot_status* mark_unread(tf_importer* importer, tf_scope* scope) {
  import_name_map read = {.arena = &importer->state.arena};
  size_t count = 0;
  for (size_t i = 0; i < scope->slot_count; i++) {
    const tf_text_list* inputs = &scope->slots[i].proto->input;
    for (size_t k = 0; k < inputs->count; k++) {
      carnot_strview name = inputs->items[k];
      const char* colon = name.size ? memchr(name.data, ':', name.size) : NULL;
      if (colon) name.size = (size_t)(colon - name.data);
      import_name_map_set(&read, name, NULL);
    }
  }
  CARNOT_TRY(carnot_arena_status(&importer->state.arena));
  for (size_t i = 0; i < scope->slot_count; i++) {
    const tf_node* node = scope->slots[i].proto;
    if (is_no_result(node->op) || import_name_map_find(&read, node->name)) continue;
    CARNOT_TRY(mark(importer, scope, node->name));
    count++;
  }
  CARNOT_CHECK(count, INVALID_MODEL, "no node of the graph is a result; name them with outputs");
  return NULL;
}

static carnot_status* read_graph(tf_importer* importer) {
  const carnot_tensorflow_options* options = &importer->options;
  tf_scope scope = {.prefix = ""};
  CARNOT_TRY(read_functions(importer));
  CARNOT_CHECK(importer->graph->node.count, INVALID_MODEL, "the file holds no nodes");
  CARNOT_TRY(tf_scope_init(importer, &scope, &importer->graph->node, importer->state.graph->main));
  for (size_t i = 0; i < options->input_count; i++)
    CARNOT_TRY(cut_input(importer, &scope, options->inputs[i]));
  for (size_t i = 0; i < options->output_count; i++)
    CARNOT_TRY_AT(mark(importer, &scope, carnot_view(options->outputs[i])), "output %s",
                  options->outputs[i]);
  if (!options->output_count) CARNOT_TRY(mark_unread(importer, &scope));
  return import_state_check(&importer->state);
}

static carnot_status* read_bytes(tf_importer* importer, carnot_arena* arena, carnot_strview bytes) {
  void* graph;
  CARNOT_TRY(carnot_arena_try(arena, 1, sizeof(tf_graph), "a graph", &graph));
  CARNOT_TRY(carnot_pb_read_wire(&carnot_tf_graph_message, bytes.data, bytes.size, arena, graph));
  importer->graph = graph;
  return read_graph(importer);
}

carnot_status* carnot_tf_import(const char* path, const void* data, size_t size,
                                const carnot_tensorflow_options* options, carnot_graph* graph,
                                carnot_model_source** out_source) {
  carnot_strview bytes = {data, size};
  tf_importer importer = {0};
  *out_source = NULL;
  carnot_model_source* source;
  CARNOT_TRY(carnot_model_source_create(&source));
  carnot_status* status = import_state_init(&importer.state, graph);
  if (options) importer.options = *options;
  importer.files = &source->files;
  importer.functions.arena = &importer.state.arena;
  if (!status && path) status = import_files_open_model(&source->files, path, &bytes);
  if (!status) status = read_bytes(&importer, &source->arena, bytes);
  status = carnot_status_annotate(status, "%s", path ? path : "the graph");
  status = carnot_graph_end(graph, carnot_arena_end(&importer.state.arena, status));
  import_state_deinit(&importer.state);
  carnot_source_memory_drop_maps(&source->files.memory);
  *out_source = source;
  return status;
}

import_files* tf_files(tf_import* n) { return n->importer->files; }
