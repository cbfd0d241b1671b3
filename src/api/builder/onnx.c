// The public face of the ONNX reader.
#include "carnot/onnx.h"

#include "api/builder/network.h"
#include "pass/pass.h"

static carnot_onnx_options options_of(const char* folder, uint32_t flags) {
  return (carnot_onnx_options){
      .folder = folder,
      .plugin_instance_norm = !(flags & CARNOT_ONNX_NATIVE_INSTANCENORM),
      .plugin_override = (flags & CARNOT_ONNX_ENABLE_PLUGIN_OVERRIDE) != 0};
}

static carnot_status* add_model(carnot_network* network, const char* path, const void* data,
                                size_t size, const char* folder, uint32_t flags) {
  CARNOT_CHECK(network->scope == &network->main, FAILED_PRECONDITION,
               "a model cannot be read into an open loop or conditional");
  void* items = network->sources;
  CARNOT_TRY(carnot_grow(&items, &network->source_capacity, network->source_count + 1,
                         sizeof(*network->sources), "models"));
  network->sources = items;
  carnot_model_source** source = &network->sources[network->source_count];
  carnot_onnx_options options = options_of(folder, flags);
  options.into = network->graph;
  bool is_first = !network->graph->main->first;
  carnot_status* status =
      path ? carnot_onnx_import_file(path, &options, source, &network->graph)
           : carnot_onnx_import_memory(data, size, &options, source, &network->graph);
  // What was read before an error borrows from the file too.
  network->source_count += *source != NULL;
  if (status || !is_first) return status;
  // Normalizations written as their parts show themselves as one layer. Nodes that were there
  // before may be known to the user, and stay.
  return carnot_pass_fuse_norms(network->graph, &(carnot_pass_options){0});
}

carnot_status* carnot_network_add_onnx_file(carnot_network* network, const char* path,
                                            uint32_t flags) {
  CARNOT_CHECK(path, INVALID_ARGUMENT, "the path of the model is NULL");
  return add_model(network, path, NULL, 0, NULL, flags);
}

carnot_status* carnot_network_add_onnx_memory(carnot_network* network, const void* data,
                                              size_t size, const char* folder, uint32_t flags) {
  return add_model(network, NULL, data, size, folder, flags);
}

static carnot_status* parse(const char* path, const void* data, size_t size, const char* folder,
                            uint32_t flags, carnot_network** out_network) {
  CARNOT_TRY(carnot_network_create(out_network));
  carnot_status* status = add_model(*out_network, path, data, size, folder, flags);
  if (!status) return NULL;
  carnot_network_destroy(*out_network);
  *out_network = NULL;
  return status;
}

carnot_status* carnot_onnx_parse_file_with(const char* path, uint32_t flags,
                                           carnot_network** out_network) {
  *out_network = NULL;
  CARNOT_CHECK(path, INVALID_ARGUMENT, "the path of the model is NULL");
  return parse(path, NULL, 0, NULL, flags, out_network);
}

carnot_status* carnot_onnx_parse_memory_with(const void* data, size_t size, const char* folder,
                                             uint32_t flags, carnot_network** out_network) {
  *out_network = NULL;
  return parse(NULL, data, size, folder, flags, out_network);
}

carnot_status* carnot_onnx_parse_file(const char* path, carnot_network** out_network) {
  return carnot_onnx_parse_file_with(path, CARNOT_ONNX_NATIVE_INSTANCENORM, out_network);
}

carnot_status* carnot_onnx_parse_memory(const void* data, size_t size, const char* folder,
                                        carnot_network** out_network) {
  return carnot_onnx_parse_memory_with(data, size, folder, CARNOT_ONNX_NATIVE_INSTANCENORM,
                                       out_network);
}
