// The whole model: file, opsets, inputs, initializers, nodes, outputs.
#include <stdlib.h>

#include "import/onnx/importer_state.h"

struct carnot_onnx_source {
  carnot_onnx_files files;
  carnot_arena arena;  // texts and lists that constants point to
};

void carnot_onnx_source_destroy(carnot_onnx_source* source) {
  if (!source) return;
  carnot_onnx_files_deinit(&source->files);
  carnot_arena_deinit(&source->arena);
  free(source);
}

static carnot_status* import_inputs(onnx_importer* importer, onnx_scope* scope,
                                    const onnx_graph* graph) {
  for (size_t i = 0; i < graph->input.count; i++) {
    const onnx_value_info* input = &graph->input.items[i];
    // Before IR version 4 every initializer had to be an input too; as TensorRT does, those are
    // weights.
    if (onnx_name_map_find(&scope->names, input->name)) continue;
    carnot_type type;
    CARNOT_TRY_AT(onnx_read_type(importer, input->type, &type), "input " CARNOT_VIEW_FMT,
                  CARNOT_VIEW_ARG(input->name));
    CARNOT_CHECK(type.kind != CARNOT_VALUE_UNKNOWN, INVALID_MODEL,
                 "input " CARNOT_VIEW_FMT " has no type", CARNOT_VIEW_ARG(input->name));
    const char* name = onnx_unique_name(importer, "", input->name);
    onnx_scope_bind(importer, scope, input->name,
                    carnot_block_add_param(scope->block, name, &type));
  }
  return NULL;
}

static carnot_status* import_outputs(onnx_importer* importer, onnx_scope* scope,
                                     const onnx_graph* graph) {
  for (size_t i = 0; i < graph->output.count; i++) {
    carnot_value* value = NULL;
    carnot_strview name = graph->output.items[i].name;
    CARNOT_TRY_AT(onnx_scope_find(importer, scope, name, &value), "output");
    CARNOT_CHECK(value, INVALID_MODEL, "output " CARNOT_VIEW_FMT " has no value",
                 CARNOT_VIEW_ARG(name));
    if (value != &onnx_poison) carnot_block_add_output(scope->block, value);
  }
  return NULL;
}

static carnot_status* import_model(onnx_importer* importer) {
  const onnx_model* model = importer->model;
  const onnx_graph* graph = model->graph;
  CARNOT_CHECK(graph, INVALID_MODEL, "the file holds no ONNX graph (is it an ONNX model?)");
  importer->graph->name =
      carnot_arena_text(&importer->graph->arena, graph->name.data, graph->name.size);
  onnx_scope scope = {.block = importer->graph->main, .opsets = &model->opset_import, .prefix = ""};
  CARNOT_TRY(onnx_scope_init(importer, &scope, graph));
  CARNOT_TRY(import_inputs(importer, &scope, graph));
  CARNOT_TRY(onnx_import_nodes(importer, &scope, &graph->node));
  CARNOT_TRY(import_outputs(importer, &scope, graph));
  if (!importer->unsupported) return NULL;
  return CARNOT_ERROR(UNSUPPORTED, "%zu node%s of the model %s not supported:%s",
                      importer->unsupported_count, importer->unsupported_count == 1 ? "" : "s",
                      importer->unsupported_count == 1 ? "is" : "are", importer->unsupported);
}

// Fills |source| and |graph|, which the caller destroys on failure.
static carnot_status* import_bytes(carnot_onnx_source* source, carnot_strview bytes,
                                   const carnot_onnx_options* options, carnot_graph* graph) {
  onnx_importer importer = {.graph = graph, .files = &source->files};
  if (options) importer.options = *options;
  importer.symbols.arena = importer.used_names.arena = &importer.arena;
  onnx_model* model = CARNOT_NEW(&source->arena, onnx_model);
  importer.model = model;
  carnot_status* status = importer.options.text
                              ? carnot_pb_read_text(&carnot_onnx_model_message, bytes.data,
                                                    bytes.size, &source->arena, model)
                              : carnot_pb_read_wire(&carnot_onnx_model_message, bytes.data,
                                                    bytes.size, &source->arena, model);
  if (!status) status = import_model(&importer);
  carnot_arena_deinit(&importer.arena);
  return status;
}

static carnot_status* import_any(const char* path, carnot_strview bytes,
                                 const carnot_onnx_options* options,
                                 carnot_onnx_source** out_source, carnot_graph** out_graph) {
  *out_source = NULL;
  *out_graph = NULL;
  void* memory = NULL;
  CARNOT_TRY(carnot_calloc(1, sizeof(carnot_onnx_source), "a model's files", &memory));
  carnot_onnx_source* source = memory;
  carnot_graph* graph = NULL;
  carnot_status* status = NULL;
  if (path)
    status = carnot_onnx_files_open_model(&source->files, path, &bytes);
  else if (options && options->folder)
    status = carnot_onnx_files_set_folder(&source->files, options->folder);
  if (!status) status = carnot_graph_create(&graph);
  if (!status)
    status = carnot_status_annotate(import_bytes(source, bytes, options, graph), "%s",
                                    path ? path : "model");
  if (status) {
    carnot_graph_destroy(graph);
    carnot_onnx_source_destroy(source);
    return status;
  }
  *out_source = source;
  *out_graph = graph;
  return NULL;
}

carnot_status* carnot_onnx_import_file(const char* path, const carnot_onnx_options* options,
                                       carnot_onnx_source** out_source, carnot_graph** out_graph) {
  return import_any(path, (carnot_strview){NULL, 0}, options, out_source, out_graph);
}

carnot_status* carnot_onnx_import_memory(const void* data, size_t size,
                                         const carnot_onnx_options* options,
                                         carnot_onnx_source** out_source,
                                         carnot_graph** out_graph) {
  return import_any(NULL, (carnot_strview){data, size}, options, out_source, out_graph);
}
