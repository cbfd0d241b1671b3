// A TensorFlow model: the file, inputs, outputs.
#include <string.h>

#include "import/tensorflow/complex.h"
#include "import/tensorflow/inputs.h"
#include "import/tensorflow/saved_model.h"
#include "import/tensorflow/tables.h"
#include "import/tensorflow/variables.h"

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
                                     "IsVariableInitialized",
                                     "Const",
                                     "Placeholder",
                                     "PlaceholderWithDefault",
                                     "InitializeTableV2",
                                     "InitializeTable",
                                     "InitializeTableFromTextFileV2",
                                     "InitializeTableFromTextFile",
                                     "LookupTableImportV2",
                                     "LookupTableImport",
                                     "HashTableV2",
                                     "HashTable",
                                     "TensorArrayCloseV3",
                                     "WriteFile",
                                     "DisableCopyOnRead"};
  return is_one_of(op, kOps, sizeof(kOps) / sizeof(kOps[0]));
}

static const char* text_of(tf_importer* importer, carnot_strview view) {
  return carnot_arena_text(&importer->state.graph->arena, view.data, view.size);
}

// The result |name| becomes an output called |wanted|; complex numbers with their parts along a
// last axis of 2.
static carnot_status* mark(tf_importer* importer, tf_scope* scope, carnot_strview name,
                           carnot_strview wanted) {
  carnot_value* value;
  CARNOT_CHECK(tf_is_name(wanted), INVALID_MODEL, "an output has no name, or one with a zero byte");
  CARNOT_TRY(tf_scope_value(importer, scope, name, &value));
  if (value == &import_poison) return NULL;
  if (tf_is_handle(value)) {
    import_note_unsupported(&importer->state, carnot_arena_print(&importer->state.arena,
                                                                 "output \"" CARNOT_VIEW_FMT
                                                                 "\": it is a variable's handle",
                                                                 CARNOT_VIEW_ARG(wanted)));
    return NULL;
  }
  if (tf_is_complex(value)) {
    tf_import n = {.node = {.state = &importer->state,
                            .block = scope->block,
                            .arena = &importer->state.graph->arena,
                            .name = text_of(importer, wanted)},
                   .importer = importer};
    value = tf_complex_joined(&n, value);
    CARNOT_TRY(n.node.status);
  }
  // What an Identity passes on has another name; constants and inputs are copied.
  if (!value->producer || !carnot_view_is(wanted, value->name) || value->block_output_count) {
    const char* output = tf_claim_name(importer, wanted);
    carnot_node* node;
    CARNOT_TRY(carnot_block_add_node(scope->block, CARNOT_OP_IDENTITY, NULL, NULL, &value, 1,
                                     &output, 1, &node));
    value = node->outputs[0];
  }
  carnot_block_add_output(scope->block, value);
  return NULL;
}

// No node takes a name that the signature gives.
static carnot_status* reserve_names(tf_importer* importer, const tf_named_tensor_list* list) {
  for (size_t i = 0; i < list->count; i++) {
    const carnot_strview key = list->items[i].key;
    if (!tf_is_name(key) || import_name_map_find(&importer->state.used_names, key)) continue;
    import_name_map_set(&importer->state.used_names, key, NULL);
    import_name_map_set(&importer->reserved, key, importer);
  }
  return carnot_arena_status(&importer->state.arena);
}

// Inputs and outputs are called by the signature's keys.
static carnot_status* read_signature(tf_importer* importer, tf_scope* scope,
                                     const tf_signature_def* s) {
  CARNOT_TRY(reserve_names(importer, &s->inputs));
  CARNOT_TRY(reserve_names(importer, &s->outputs));
  for (size_t i = 0; i < s->inputs.count; i++) {
    const tf_named_tensor* input = &s->inputs.items[i];
    CARNOT_CHECK(input->value, INVALID_MODEL, "input " CARNOT_VIEW_FMT " names no node",
                 CARNOT_VIEW_ARG(input->key));
    CARNOT_TRY_AT(tf_input_make(importer, scope, input->value->name, input->key),
                  "the signature's input " CARNOT_VIEW_FMT, CARNOT_VIEW_ARG(input->key));
  }
  CARNOT_CHECK(s->outputs.count, INVALID_MODEL, "the signature has no outputs");
  for (size_t i = 0; i < s->outputs.count; i++) {
    const tf_named_tensor* output = &s->outputs.items[i];
    CARNOT_CHECK(output->value, INVALID_MODEL, "output " CARNOT_VIEW_FMT " names no node",
                 CARNOT_VIEW_ARG(output->key));
    CARNOT_TRY_AT(mark(importer, scope, output->value->name, output->key),
                  "the signature's output " CARNOT_VIEW_FMT, CARNOT_VIEW_ARG(output->key));
  }
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
    CARNOT_TRY(mark(importer, scope, node->name, node->name));
    count++;
  }
  CARNOT_CHECK(count, INVALID_MODEL, "no node of the graph is a result; name them with outputs");
  return NULL;
}

static carnot_status* read_results(tf_importer* importer, tf_scope* scope, const tf_model* model) {
  const carnot_tensorflow_options* options = &importer->options;
  if (model->signature) return read_signature(importer, scope, model->signature);
  for (size_t i = 0; i < options->input_count; i++) {
    const carnot_strview name = tf_without_zero(carnot_view(options->inputs[i]));
    CARNOT_TRY(tf_input_make(importer, scope, name, name));
  }
  for (size_t i = 0; i < options->output_count; i++) {
    const carnot_strview name = tf_without_zero(carnot_view(options->outputs[i]));
    CARNOT_TRY_AT(mark(importer, scope, name, name), "output %s", options->outputs[i]);
  }
  return options->output_count ? NULL : mark_unread(importer, scope);
}

// The bundle lies beside saved_model.pb; that of MODEL.meta is called MODEL.
static carnot_status* open_variables(tf_importer* importer, const tf_model* model, const char* path,
                                     tf_variables* variables) {
  carnot_arena* arena = &importer->state.arena;
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  const char* end = strrchr(name, '.');
  bool is_needed = false;
  for (size_t i = 0; i < model->graph->node.count; i++) {
    const carnot_strview op = model->graph->node.items[i].op;
    is_needed |= carnot_view_is(op, "VarHandleOp") || carnot_view_is(op, "VariableV2") ||
                 carnot_view_is(op, "Variable");
  }
  if (!is_needed) return NULL;
  const char* prefix = "variables/variables";
  if (!model->is_saved_model)
    prefix = carnot_arena_text(arena, name, end ? (size_t)(end - name) : strlen(name));
  CARNOT_TRY(carnot_arena_status(arena));
  CARNOT_TRY(tf_bundle_open(&variables->bundle, importer->files, arena, prefix));
  variables->bundle.is_verified = importer->options.verify_weights;
  importer->variables = variables;
  return tf_variables_find_keys(variables, model->meta, arena);
}

static carnot_status* read_graph(tf_importer* importer, const tf_model* model) {
  tf_scope scope = {.prefix = ""};
  importer->graph = model->graph;
  CARNOT_TRY(read_functions(importer));
  CARNOT_CHECK(importer->graph->node.count, INVALID_MODEL, "the file holds no nodes");
  CARNOT_TRY(tf_scope_init(importer, &scope, &importer->graph->node, importer->state.graph->main));
  CARNOT_TRY(read_results(importer, &scope, model));
  return import_state_check(&importer->state);
}

// The model at |path|, or in memory where it is NULL.
static carnot_status* read_model(tf_importer* importer, carnot_model_source* source,
                                 const char* path, carnot_strview bytes) {
  tf_model model;
  tf_variables variables = {0};
  if (path) {
    CARNOT_TRY(tf_model_file(path, &importer->state.arena, &path));
    CARNOT_TRY(import_files_open_model(&source->files, path, &bytes));
  }
  CARNOT_TRY(tf_model_read(bytes, &importer->options, &source->arena, &model));
  if (path && model.meta) CARNOT_TRY(open_variables(importer, &model, path, &variables));
  CARNOT_TRY(
      tf_tables_find(model.graph, model.meta, importer->files, &source->arena, &importer->tables));
  return read_graph(importer, &model);
}

carnot_status* carnot_tf_import(const char* path, const void* data, size_t size,
                                const carnot_tensorflow_options* options, carnot_graph* graph,
                                carnot_model_source** out_source) {
  tf_importer importer = {0};
  *out_source = NULL;
  carnot_model_source* source;
  CARNOT_TRY(carnot_model_source_create(&source));
  carnot_status* status = import_state_init(&importer.state, graph);
  if (options) importer.options = *options;
  importer.files = &source->files;
  importer.functions.arena = importer.reserved.arena = &importer.state.arena;
  if (!status) status = read_model(&importer, source, path, (carnot_strview){data, size});
  status = carnot_status_annotate(status, "%s", path ? path : "the graph");
  status = carnot_graph_end(graph, carnot_arena_end(&importer.state.arena, status));
  import_state_deinit(&importer.state);
  carnot_source_memory_drop_maps(&source->files.memory);
  *out_source = source;
  return status;
}

import_files* tf_files(tf_import* n) { return n->importer->files; }
