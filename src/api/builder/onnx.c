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
  CARNOT_CHECK(network->scope == &network->main, FAILED_PRECONDITION,
               "a model cannot be read into an open loop or conditional");
  void* items = network->sources;
  CARNOT_TRY(carnot_grow(&items, &network->source_capacity, network->source_count + 1,
                         sizeof(*network->sources), "models"));
  network->sources = items;
  carnot_model_source** source = &network->sources[network->source_count];
  carnot_onnx_options options = options_of(from->folder, flags);
  options.initializers = from->initializers;
  options.initializer_count = from->initializer_count;
  options.into = network->graph;
  bool is_first = !network->graph->main->first;
  carnot_status* status =
      from->path
          ? carnot_onnx_import_file(from->path, &options, source, &network->graph)
          : carnot_onnx_import_memory(from->data, from->size, &options, source, &network->graph);
  // What was read before an error borrows from the file too.
  if (*source) {
    carnot_source_memory* memory = &(*source)->files.memory;
    memory->next = network->graph->sources;
    network->graph->sources = memory;
    network->source_count++;
  }
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

// |tensor| as data that own a copy of its elements. Text is copied into one buffer.
static carnot_status* copy_tensor(const carnot_tensor* tensor, carnot_data** out_data) {
  size_t bytes = carnot_tensor_bytes(tensor), text_bytes = 0;
  bool is_text = tensor->dtype == CARNOT_DTYPE_STRING;
  const carnot_strview* texts = is_text ? tensor->data : NULL;
  for (int64_t i = 0; is_text && i < carnot_tensor_count(tensor); i++) text_bytes += texts[i].size;
  // Kernels read numbers at any alignment up to a cache line.
  enum { kAlignment = 64 };
  void* memory;
  CARNOT_CHECK(bytes < SIZE_MAX / 2 && text_bytes < SIZE_MAX / 4, OUT_OF_RANGE,
               "a tensor of %zu bytes", bytes);
  CARNOT_TRY(
      carnot_calloc(1, sizeof(carnot_data) + bytes + text_bytes + kAlignment, "a tensor", &memory));
  carnot_data* data = memory;
  data->kind = CARNOT_VALUE_TENSOR;
  data->tensor = *tensor;
  char* elements = (char*)(((uintptr_t)(data + 1) + kAlignment - 1) & ~(uintptr_t)(kAlignment - 1));
  data->tensor.data = elements;
  if (bytes) memcpy(elements, tensor->data, bytes);
  char* text = elements + bytes;
  for (int64_t i = 0; is_text && i < carnot_tensor_count(tensor); i++) {
    if (texts[i].size) memcpy(text, texts[i].data, texts[i].size);
    ((carnot_strview*)data->tensor.data)[i].data = text;
    text += texts[i].size;
  }
  *out_data = data;
  return NULL;
}

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
  if (!status) status = copy_tensor(&tensor, out_data);
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
