// Reading ONNX models and tensors through the public interface.
#include "carnot/onnx.h"

#include "api/builder/network.h"
#include "import/onnx/extract.h"
#include "import/onnx/tensor_proto.h"
#include "ops/execute.h"
#include "pass/pass.h"

static carnot_onnx_options options_of(const char* folder, uint32_t flags) {
  return (carnot_onnx_options){
      .folder = folder,
      .follow_links = (flags & CARNOT_ONNX_FOLLOW_LINKS) != 0,
      .plugin_instance_norm = !(flags & CARNOT_ONNX_NATIVE_INSTANCENORM),
      .plugin_override = (flags & CARNOT_ONNX_ENABLE_PLUGIN_OVERRIDE) != 0};
}

// A model's file, or its bytes where |path| is NULL.
typedef struct model_input {
  const char* path;
  const void* data;
  size_t size;
  const char* folder;
  const carnot_onnx_initializer* initializers;
  size_t initializer_count;
} model_input;

static carnot_status* add_model(carnot_network* network, const model_input* from, uint32_t flags) {
  CARNOT_TRY(carnot_network_prepare_source(network));
  carnot_model_source* source = NULL;
  carnot_onnx_options options = options_of(from->folder, flags);
  options.initializers = from->initializers;
  options.initializer_count = from->initializer_count;
  options.into = network->graph;
  bool is_first = !network->graph->main->first;
  carnot_status* status =
      from->path
          ? carnot_onnx_import_file(from->path, &options, &source, &network->graph)
          : carnot_onnx_import_memory(from->data, from->size, &options, &source, &network->graph);
  carnot_network_keep_source(network, source);
  if (status || !is_first || (flags & CARNOT_ONNX_KEEP_NODES)) return status;
  // Normalizations written as their parts show themselves as one layer. Nodes that were there
  // before may be known to the user, and stay.
  return carnot_pass_fuse_norms(network->graph, &(carnot_pass_options){0});
}

carnot_status* carnot_network_add_onnx_file(carnot_network* network, const char* path,
                                            uint32_t flags) {
  CARNOT_CHECK(path, INVALID_ARGUMENT, "the path of the model is NULL");
  return add_model(network, &(model_input){.path = path}, flags);
}

carnot_status* carnot_network_add_onnx_memory(carnot_network* network, const void* data,
                                              size_t size, const char* folder, uint32_t flags) {
  return add_model(network, &(model_input){.data = data, .size = size, .folder = folder}, flags);
}

carnot_status* carnot_network_add_onnx_with_initializers(
    carnot_network* network, const void* data, size_t size, const char* folder, uint32_t flags,
    const carnot_onnx_initializer* initializers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    size_t bytes;
    CARNOT_TRY(carnot_onnx_initializer_size(data, size, initializers[i].name, &bytes));
  }
  return add_model(network,
                   &(model_input){.data = data,
                                  .size = size,
                                  .folder = folder,
                                  .initializers = initializers,
                                  .initializer_count = count},
                   flags);
}

static carnot_status* parse(const model_input* from, uint32_t flags, carnot_network** out_network) {
  CARNOT_TRY(carnot_network_create(out_network));
  carnot_status* status = add_model(*out_network, from, flags);
  if (!status) return NULL;
  carnot_network_destroy(*out_network);
  *out_network = NULL;
  return status;
}

carnot_status* carnot_onnx_parse_file_with(const char* path, uint32_t flags,
                                           carnot_network** out_network) {
  *out_network = NULL;
  CARNOT_CHECK(path, INVALID_ARGUMENT, "the path of the model is NULL");
  return parse(&(model_input){.path = path}, flags, out_network);
}

carnot_status* carnot_onnx_parse_memory_with(const void* data, size_t size, const char* folder,
                                             uint32_t flags, carnot_network** out_network) {
  *out_network = NULL;
  return parse(&(model_input){.data = data, .size = size, .folder = folder}, flags, out_network);
}

carnot_status* carnot_onnx_parse_file(const char* path, carnot_network** out_network) {
  return carnot_onnx_parse_file_with(path, CARNOT_ONNX_NATIVE_INSTANCENORM, out_network);
}

carnot_status* carnot_onnx_parse_memory(const void* data, size_t size, const char* folder,
                                        carnot_network** out_network) {
  return carnot_onnx_parse_memory_with(data, size, folder, CARNOT_ONNX_NATIVE_INSTANCENORM,
                                       out_network);
}

// ---- parts of models ----

carnot_status* carnot_onnx_read_tensor(const void* message, size_t size, carnot_data** out_data) {
  *out_data = NULL;
  CARNOT_CHECK(message || !size, INVALID_ARGUMENT, "the tensor's message is NULL");
  carnot_arena arena;
  carnot_arena_init(&arena);
  carnot_tensor tensor = {0};
  void* proto;
  carnot_status* status = carnot_arena_try(&arena, 1, sizeof(onnx_tensor), "a tensor", &proto);
  if (!status)
    status = carnot_pb_read_wire(&carnot_onnx_tensor_message, message, size, &arena, proto);
  if (!status) status = carnot_onnx_tensor_read(proto, /*files=*/NULL, &arena, &tensor);
  status = carnot_arena_end(&arena, status);
  if (!status) status = carnot_data_copy_tensor(&tensor, out_data);
  carnot_arena_deinit(&arena);
  return status;
}

carnot_status* carnot_onnx_extract_file(const char* model_path, const carnot_network* network,
                                        const char* const* inputs, size_t input_count,
                                        const char* const* outputs, size_t output_count,
                                        const char* path) {
  CARNOT_CHECK(model_path && path && outputs && output_count, INVALID_ARGUMENT,
               "a part of a model needs two paths and an output");
  return carnot_onnx_extract(model_path, network->graph, inputs, input_count, outputs, output_count,
                             path);
}
