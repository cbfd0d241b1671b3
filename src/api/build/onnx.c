// The public face of the ONNX reader.
#include "carnot/onnx.h"

#include "api/build/network.h"

// Takes |source| and |graph|.
static carnot_status* wrap(carnot_onnx_source* source, carnot_graph* graph,
                           carnot_network** out_network) {
  carnot_status* status = carnot_network_create(out_network);
  if (status) {
    carnot_graph_destroy(graph);
    carnot_onnx_source_destroy(source);
    return status;
  }
  carnot_network* network = *out_network;
  carnot_graph_destroy(network->graph);
  network->graph = graph;
  network->source = source;
  network->main.block = graph->main;
  return NULL;
}

static carnot_onnx_options options_of(const char* folder, uint32_t flags) {
  return (carnot_onnx_options){
      .folder = folder,
      .plugin_instance_norm = !(flags & CARNOT_ONNX_NATIVE_INSTANCENORM),
      .plugin_override = (flags & CARNOT_ONNX_ENABLE_PLUGIN_OVERRIDE) != 0};
}

carnot_status* carnot_onnx_parse_file_with(const char* path, uint32_t flags,
                                           carnot_network** out_network) {
  *out_network = NULL;
  carnot_onnx_options options = options_of(NULL, flags);
  carnot_onnx_source* source = NULL;
  carnot_graph* graph = NULL;
  CARNOT_TRY(carnot_onnx_import_file(path, &options, &source, &graph));
  return wrap(source, graph, out_network);
}

carnot_status* carnot_onnx_parse_memory_with(const void* data, size_t size, const char* folder,
                                             uint32_t flags, carnot_network** out_network) {
  *out_network = NULL;
  carnot_onnx_options options = options_of(folder, flags);
  carnot_onnx_source* source = NULL;
  carnot_graph* graph = NULL;
  CARNOT_TRY(carnot_onnx_import_memory(data, size, &options, &source, &graph));
  return wrap(source, graph, out_network);
}

carnot_status* carnot_onnx_parse_file(const char* path, carnot_network** out_network) {
  return carnot_onnx_parse_file_with(path, CARNOT_ONNX_NATIVE_INSTANCENORM, out_network);
}

carnot_status* carnot_onnx_parse_memory(const void* data, size_t size, const char* folder,
                                        carnot_network** out_network) {
  return carnot_onnx_parse_memory_with(data, size, folder, CARNOT_ONNX_NATIVE_INSTANCENORM,
                                       out_network);
}
