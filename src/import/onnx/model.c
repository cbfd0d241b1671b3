// The whole model: file, opsets, inputs, initializers, nodes, outputs.
#include <stdlib.h>

#include "import/common/recognise.h"
#include "import/onnx/importer_state.h"

static carnot_status* read_inputs(onnx_importer* importer, onnx_scope* scope,
                                  const onnx_graph* graph) {
  for (size_t i = 0; i < graph->input.count; i++) {
    const onnx_value_info* input = &graph->input.items[i];
    // Before IR version 4 every initializer had to be an input too; as TensorRT does, those are
    // weights.
    if (import_name_map_find(&scope->names, input->name)) continue;
    carnot_type type;
    CARNOT_TRY_AT(onnx_read_type(importer, input->type, &type), "input " CARNOT_VIEW_FMT,
                  CARNOT_VIEW_ARG(input->name));
    CARNOT_CHECK(type.kind != CARNOT_VALUE_UNKNOWN, INVALID_MODEL,
                 "input " CARNOT_VIEW_FMT " has no type", CARNOT_VIEW_ARG(input->name));
    const char* name = import_unique_name(&importer->state, "", input->name);
    onnx_scope_bind(importer, scope, input->name,
                    carnot_block_add_param(scope->block, name, &type));
  }
  return NULL;
}

static carnot_status* read_outputs(onnx_importer* importer, onnx_scope* scope,
                                   const onnx_graph* graph) {
  for (size_t i = 0; i < graph->output.count; i++) {
    carnot_value* value = NULL;
    carnot_strview name = graph->output.items[i].name;
    CARNOT_TRY_AT(onnx_scope_find(importer, scope, name, &value), "output");
    CARNOT_CHECK(value, INVALID_MODEL, "output " CARNOT_VIEW_FMT " has no value",
                 CARNOT_VIEW_ARG(name));
    if (value != &import_poison) carnot_block_add_output(scope->block, value);
  }
  return NULL;
}

static carnot_status* read_model(onnx_importer* importer) {
  const onnx_model* model = importer->model;
  const onnx_graph* graph = model->graph;
  CARNOT_CHECK(graph, INVALID_MODEL, "the file holds no ONNX graph (is it an ONNX model?)");
  if (!importer->state.graph->name[0])
    importer->state.graph->name =
        carnot_arena_text(&importer->state.graph->arena, graph->name.data, graph->name.size);
  onnx_scope scope = {
      .block = importer->state.graph->main, .opsets = &model->opset_import, .prefix = ""};
  CARNOT_TRY(onnx_scope_init(importer, &scope, graph));
  CARNOT_TRY(read_inputs(importer, &scope, graph));
  CARNOT_TRY(onnx_import_nodes(importer, &scope, &graph->node));
  CARNOT_TRY(read_outputs(importer, &scope, graph));
  return import_state_check(&importer->state);
}

// Fills |source| and |graph|, which the caller destroys on failure.
static carnot_status* parse_bytes(onnx_importer* importer, carnot_arena* arena,
                                  carnot_strview bytes) {
  void* model;
  CARNOT_TRY(carnot_arena_try(arena, 1, sizeof(onnx_model), "a model", &model));
  importer->model = model;
  return importer->options.text
             ? carnot_pb_read_text(&carnot_onnx_model_message, bytes.data, bytes.size, arena, model)
             : carnot_pb_read_wire(&carnot_onnx_model_message, bytes.data, bytes.size, arena,
                                   model);
}

static carnot_status* read_bytes(carnot_model_source* source, carnot_strview bytes,
                                 const carnot_onnx_options* options, carnot_graph* graph) {
  onnx_importer importer = {.files = &source->files};
  carnot_status* status = import_state_init(&importer.state, graph);
  if (options) importer.options = *options;
  importer.symbols.arena = &importer.state.arena;
  if (!status) status = parse_bytes(&importer, &source->arena, bytes);
  if (!status) status = read_model(&importer);
  status = carnot_graph_end(graph, carnot_arena_end(&importer.state.arena, status));
  import_state_deinit(&importer.state);
  carnot_source_memory_drop_maps(&source->files.memory);
  return status;
}

static carnot_status* read_any(const char* path, carnot_strview bytes,
                               const carnot_onnx_options* options, carnot_model_source** out_source,
                               carnot_graph** out_graph) {
  carnot_graph* into = options ? options->into : NULL;
  *out_source = NULL;
  *out_graph = into;
  carnot_model_source* source;
  CARNOT_TRY(carnot_model_source_create(&source));
  source->files.follow_links = options && options->follow_links;
  carnot_graph* graph = into;
  carnot_status* status = NULL;
  if (path)
    status = import_files_open_model(&source->files, path, &bytes);
  else if (options && options->folder)
    status = import_files_set_folder(&source->files, options->folder);
  const char* other =
      status || (options && options->text) ? NULL : import_recognise(bytes.data, bytes.size);
  if (other)
    status =
        CARNOT_ERROR(INVALID_MODEL, "%s is no ONNX model but %s", path ? path : "the model", other);
  if (!status && !bytes.size)
    status = CARNOT_ERROR(INVALID_MODEL, "%s is empty", path ? path : "the model");
  if (!status && !into) status = carnot_graph_create(&graph);
  if (!status)
    status = carnot_status_annotate(read_bytes(source, bytes, options, graph), "%s",
                                    path ? path : "model");
  if (status && !into) {
    carnot_graph_destroy(graph);
    carnot_model_source_destroy(source);
    return status;
  }
  *out_source = source;
  *out_graph = graph;
  return status;
}

carnot_status* carnot_onnx_import_file(const char* path, const carnot_onnx_options* options,
                                       carnot_model_source** out_source, carnot_graph** out_graph) {
  return read_any(path, (carnot_strview){NULL, 0}, options, out_source, out_graph);
}

carnot_status* carnot_onnx_import_memory(const void* data, size_t size,
                                         const carnot_onnx_options* options,
                                         carnot_model_source** out_source,
                                         carnot_graph** out_graph) {
  return read_any(NULL, (carnot_strview){data, size}, options, out_source, out_graph);
}

// The message of a model alone, in |arena|.
static carnot_status* read_message(const void* data, size_t size, carnot_arena* arena,
                                   onnx_model** out_model) {
  void* memory;
  CARNOT_TRY(carnot_arena_try(arena, 1, sizeof(onnx_model), "a model", &memory));
  *out_model = memory;
  return carnot_pb_read_wire(&carnot_onnx_model_message, data, size, arena, *out_model);
}

carnot_status* carnot_onnx_visit_nodes(const void* data, size_t size,
                                       bool (*visit)(void* user, const carnot_onnx_node* node),
                                       void* user) {
  carnot_arena arena;
  carnot_arena_init(&arena);
  onnx_model* model;
  carnot_status* status = read_message(data, size, &arena, &model);
  size_t count = status || !model->graph ? 0 : model->graph->node.count;
  bool go_on = true;
  for (size_t i = 0; i < count && go_on; i++) {
    const onnx_node* from = &model->graph->node.items[i];
    carnot_onnx_node node = {
        .index = i,
        .name = carnot_arena_text(&arena, from->name.data, from->name.size),
        .domain = carnot_arena_text(&arena, from->domain.data, from->domain.size),
        .op_type = carnot_arena_text(&arena, from->op_type.data, from->op_type.size)};
    bool is_default = !node.domain[0] || strcmp(node.domain, "ai.onnx") == 0;
    for (size_t k = 0; k < model->opset_import.count; k++) {
      carnot_strview domain = model->opset_import.items[k].domain;
      bool same =
          carnot_view_equal(domain, carnot_view(node.domain)) ||
          (is_default && (!domain.size || carnot_view_equal(domain, carnot_view("ai.onnx"))));
      if (same) node.version = model->opset_import.items[k].version;
    }
    for (size_t k = 0; k < model->functions.count; k++)
      node.is_function |= carnot_view_equal(model->functions.items[k].name, from->op_type) &&
                          carnot_view_equal(model->functions.items[k].domain, from->domain);
    if (from->output.count)
      node.output =
          carnot_arena_text(&arena, from->output.items[0].data, from->output.items[0].size);
    status = carnot_arena_status(&arena);
    go_on = !status && visit(user, &node);
  }
  carnot_arena_deinit(&arena);
  return status;
}

static carnot_status* size_of_initializer(const onnx_model* model, const char* name,
                                          size_t* out_bytes) {
  for (size_t i = 0; model->graph && i < model->graph->initializer.count; i++) {
    const onnx_tensor* tensor = &model->graph->initializer.items[i];
    if (carnot_view_equal(tensor->name, carnot_view(name)))
      return carnot_status_annotate(carnot_onnx_tensor_size(tensor, out_bytes), "initializer %s",
                                    name);
  }
  return CARNOT_ERROR(NOT_FOUND, "the model has no initializer %s", name);
}

carnot_status* carnot_onnx_initializer_size(const void* data, size_t size, const char* name,
                                            size_t* out_bytes) {
  *out_bytes = 0;
  CARNOT_CHECK(name, INVALID_ARGUMENT, "the name of the initializer is NULL");
  carnot_arena arena;
  carnot_arena_init(&arena);
  onnx_model* model;
  carnot_status* status = read_message(data, size, &arena, &model);
  if (!status) status = size_of_initializer(model, name, out_bytes);
  carnot_arena_deinit(&arena);
  return status;
}
