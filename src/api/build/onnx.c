// The public face of the ONNX reader.
#include "carnot/onnx.h"

#include "api/build/network.h"
#include "pass/pass.h"

static carnot_status* add_model(carnot_network* network, const char* path, const void* data,
                                size_t size, const char* folder) {
  CARNOT_CHECK(network->scope == &network->main, FAILED_PRECONDITION,
               "a model cannot be read into an open loop or conditional");
  void* items = network->sources;
  CARNOT_TRY(carnot_grow(&items, &network->source_capacity, network->source_count + 1,
                         sizeof(*network->sources), "models"));
  network->sources = items;
  carnot_onnx_source** source = &network->sources[network->source_count];
  carnot_onnx_options options = {.folder = folder, .into = network->graph};
  bool is_first = !network->graph->main->first;
  carnot_status* status =
      path ? carnot_onnx_import_file(path, &options, source, &network->graph)
           : carnot_onnx_import_memory(data, size, &options, source, &network->graph);
  // What was read before an error borrows from the file too.
  network->source_count += *source != NULL;
  if (status || !is_first) return status;
  // Normalizations written as their parts show themselves as one layer. Nodes that were there
  // before may be known to the user, and stay.
  return carnot_pass_norms(network->graph, &(carnot_pass_options){0});
}

carnot_status* carnot_network_add_onnx_file(carnot_network* network, const char* path) {
  CARNOT_CHECK(path, INVALID_ARGUMENT, "the path of the model is NULL");
  return add_model(network, path, NULL, 0, NULL);
}

carnot_status* carnot_network_add_onnx_memory(carnot_network* network, const void* data,
                                              size_t size, const char* folder) {
  return add_model(network, NULL, data, size, folder);
}

static carnot_status* parse(const char* path, const void* data, size_t size, const char* folder,
                            carnot_network** out_network) {
  CARNOT_TRY(carnot_network_create(out_network));
  carnot_status* status = path ? carnot_network_add_onnx_file(*out_network, path)
                               : carnot_network_add_onnx_memory(*out_network, data, size, folder);
  if (!status) return NULL;
  carnot_network_destroy(*out_network);
  *out_network = NULL;
  return status;
}

carnot_status* carnot_onnx_parse_file(const char* path, carnot_network** out_network) {
  *out_network = NULL;
  CARNOT_CHECK(path, INVALID_ARGUMENT, "the path of the model is NULL");
  return parse(path, NULL, 0, NULL, out_network);
}

carnot_status* carnot_onnx_parse_memory(const void* data, size_t size, const char* folder,
                                        carnot_network** out_network) {
  *out_network = NULL;
  return parse(NULL, data, size, folder, out_network);
}
